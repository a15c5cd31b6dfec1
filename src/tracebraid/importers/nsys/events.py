"""The rows of each table of an Nsight Systems export as events: names, categories and columns as Kineto has them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.importers.nsys.tables import Export, rows_of, with_string
from tracebraid.model.category import Category
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode

_PID_SHIFT = 1 << 24
"""`globalTid` is process id times this plus thread id, see "SQLite Schema" in the manual of Nsight Systems."""
_UNKNOWN = (1 << 32) - 1
"""CUPTI's unsigned 32-bit value for a missing id."""
_TIME_LIMIT_NS = 1 << 60
"""Times since the session's start from it on (36 years) are treated as damage."""
_PUSH_POP, _START_END, _MARK = 59, 60, 34

_DEVICE = {
    "deviceId": "device",
    "contextId": "context",
    "streamId": "stream",
    "correlationId": "correlation",
}
_KERNEL = {"registersPerThread": "registers_per_thread", "graphId": "graph_id"}
_SHARED = ("staticSharedMemory", "dynamicSharedMemory")
_GRID, _BLOCK = ("gridX", "gridY", "gridZ"), ("blockX", "blockY", "blockZ")

_COPY_KINDS = dict(
    enumerate(["HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"], 1)
) | {
    11: "Unified HtoD",
    12: "Unified DtoH",
    13: "Unified DtoD",
}
_MEMORY_KINDS = dict(enumerate(("Pageable", "Pinned", "Device", "Array", "Managed")))
_MEMORY_KINDS |= {5: "Device Static", 6: "Managed Static"}
_SYNC_KINDS = dict(enumerate(("Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"), 1))
_SYNC_CALLS = {
    "EventSynchronize": "Event Sync",
    "StreamWaitEvent": "Stream Wait Event",
    "StreamSynchronize": "Stream Sync",
    "DeviceSynchronize": "Context Sync",
    "CtxSynchronize": "Context Sync",
}

# What emit_nvtx appends to an op's name; the lists may be truncated in long texts.
_TAIL = r"(?:, (?:seq|op_id) = -?\d{1,18}|, (?:sizes|input_op_ids) = \[[\[\]()\d, -]*)+"
_OP = rf"(?s)^(.+?)({_TAIL})$"
_SIZES = r", sizes = (\[(?:\[[\d, -]*\](?:, )?)*\])"
_INPUT_OPS = r", input_op_ids = (\[.*)$"


def device_work(export: Export) -> list[pl.DataFrame]:
    """Kernels, copies, fills and whole graphs, as rows of `device_work`."""
    return [_kernels(export), _copies(export), _fills(export), _graphs(export)]


def host_calls(export: Export) -> pl.DataFrame:
    """Convert calls of the runtime and driver API to rows of `host_calls`, without version suffix."""
    table = "CUPTI_ACTIVITY_KIND_RUNTIME"
    ints = ["start", "end", "globalTid", "correlationId", "nameId"]
    rows = with_string(export, _timed(export, table, rows_of(export, table, ints)), "nameId", "text")
    name = pl.coalesce(pl.col("text").str.replace(r"_v\d{4,5}$", ""), _by_number("call", "nameId"))
    return rows.select(
        *_host_location(),
        name.alias("name"),
        pl.when(name.str.contains("^cu[A-Z]"))
        .then(pl.lit(Category.CUDA_DRIVER.value))
        .otherwise(pl.lit(Category.CUDA_RUNTIME.value))
        .alias("category"),
        pl.col("correlationId").alias("correlation"),
    )


def host_ops(export: Export) -> pl.DataFrame:
    """NVTX ranges as rows of `host_ops`, and the column `input_op_ids`; `end` is null if a range is open.

    A range of `torch.autograd.profiler.emit_nvtx` is an op; its op_id is the id that the Execution Trace calls rf_id.
    """
    rows = _nvtx(export, [_PUSH_POP, _START_END])
    parts = rows.select(
        *_host_location(),
        "text",
        pl.col("text").str.extract(_OP, 1).alias("op"),
        pl.col("text").str.extract(_OP, 2).alias("tail"),
        pl.when(pl.col("end").is_null()).then(pl.lit(False)).alias("finished"),
    )
    is_op = pl.col("op").is_not_null() & ~pl.col("op").str.contains("#", literal=True)
    tail = pl.col("tail")
    number = tail.str.extract(r", seq = (\d+)").cast(pl.Int64)
    return parts.select(
        "start",
        "end",
        "process",
        "device",
        "thread",
        pl.coalesce("op", "text").alias("name"),
        pl.when(is_op)
        .then(pl.lit(Category.CPU_OP.value))
        .otherwise(pl.lit(Category.USER_ANNOTATION.value))
        .alias("category"),
        tail.str.extract(r", op_id = (\d+)").cast(pl.Int64).alias("record_function_id"),
        number.alias("sequence_number"),
        tail.str.extract(_SIZES).alias("input_dims"),
        tail.str.extract(_INPUT_OPS).alias("input_op_ids"),
        "finished",
    )


def marks(export: Export) -> pl.DataFrame:
    """NVTX marks: start, process, thread and name."""
    return _nvtx(export, [_MARK]).select(*_host_location(), pl.col("text").alias("name"))


def syncs(export: Export, calls: pl.DataFrame) -> pl.DataFrame:
    """Synchronisations as rows of `syncs`.

    The kind comes from the name of the API call. `syncType` is used only where the export has `deprecatedSyncType` too:
    older exports number it differently from their own table of labels.
    """
    table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
    rows = _on_device(export, table, ["syncType", "eventId"])
    if "deprecatedSyncType" not in export.columns.get(table, ()):
        rows = rows.with_columns(pl.lit(None, dtype=pl.Int64).alias("syncType"))
    kinds_by_call = (
        calls.filter(pl.col("correlation").is_not_null())
        .select(
            "process",
            "correlation",
            pl.col("name")
            .str.extract(r"^cu(?:da)?([A-Za-z]+)")
            .replace_strict(_SYNC_CALLS, default=None, return_dtype=pl.String)
            .alias("kind_of_call"),
        )
        .drop_nulls("kind_of_call")
        .unique(["process", "correlation"], keep="first", maintain_order=True)
    )
    kind = pl.coalesce("kind_of_call", _label("syncType", _SYNC_KINDS))
    return rows.join(
        kinds_by_call, on=["process", "correlation"], how="left", maintain_order="left", nulls_equal=True
    ).select(
        *_DEVICE_LOCATION,
        pl.coalesce(kind, pl.lit("Synchronization")).alias("name"),
        pl.lit(Category.CUDA_SYNC.value).alias("category"),
        kind.alias("kind"),
        "stream",
        "correlation",
        "context",
        _known("eventId").alias("wait_on_event_id"),
    )


_DEVICE_LOCATION = ("start", "end", "process", "device", "thread")


def _kernels(export: Export) -> pl.DataFrame:
    ints = ["demangledName", "shortName", *_GRID, *_BLOCK, *_SHARED, *_KERNEL, "graphNodeId"]
    rows = _on_device(export, "CUPTI_ACTIVITY_KIND_KERNEL", ints)
    rows = with_string(export, with_string(export, rows, "demangledName", "long"), "shortName", "short")
    shared = [pl.col(name) for name in _SHARED]
    return rows.select(
        *_work_columns(),
        pl.coalesce("long", "short", _by_number("kernel", "demangledName")).alias("name"),
        pl.lit(Category.KERNEL.value).alias("category"),
        *(pl.col(nsys_name).alias(name) for nsys_name, name in _KERNEL.items()),
        pl.when(pl.any_horizontal(size.is_not_null() for size in shared))
        .then(pl.sum_horizontal(shared))
        .alias("shared_memory_bytes"),
        _three(_GRID).alias("grid"),
        _three(_BLOCK).alias("block"),
        pl.col("graphNodeId").alias("graph_node_id"),
    )


def _copies(export: Export) -> pl.DataFrame:
    ints = ["bytes", "copyKind", "srcKind", "dstKind", "graphNodeId"]
    rows = _on_device(export, "CUPTI_ACTIVITY_KIND_MEMCPY", ints)
    kind = pl.coalesce(_label("copyKind", _COPY_KINDS), pl.lit("Unknown"))
    between = pl.format(" ({} -> {})", _label("srcKind", _MEMORY_KINDS), _label("dstKind", _MEMORY_KINDS))
    return rows.select(
        *_work_columns(),
        pl.concat_str(pl.lit("Memcpy "), kind, between.fill_null("")).alias("name"),
        pl.lit(Category.GPU_MEMCPY.value).alias("category"),
        pl.col("bytes").alias("size_bytes"),
        pl.col("graphNodeId").alias("graph_node_id"),
    )


def _fills(export: Export) -> pl.DataFrame:
    rows = _on_device(export, "CUPTI_ACTIVITY_KIND_MEMSET", ["bytes", "memKind", "graphNodeId"])
    memory = pl.format(" ({})", _label("memKind", _MEMORY_KINDS))
    return rows.select(
        *_work_columns(),
        pl.concat_str(pl.lit("Memset"), memory.fill_null("")).alias("name"),
        pl.lit(Category.GPU_MEMSET.value).alias("category"),
        pl.col("bytes").alias("size_bytes"),
        pl.col("graphNodeId").alias("graph_node_id"),
    )


def _graphs(export: Export) -> pl.DataFrame:
    """Convert whole graphs: if nsys does not record nodes, a launch is one interval without its kernels."""
    rows = _on_device(export, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", ["graphId"])
    return rows.select(
        *_work_columns(),
        pl.coalesce(pl.format("CUDA graph {}", "graphId"), pl.lit("CUDA graph")).alias("name"),
        pl.lit(Category.KERNEL.value).alias("category"),
        pl.col("graphId").alias("graph_id"),
    )


def _nvtx(export: Export, types: Sequence[int]) -> pl.DataFrame:
    """The NVTX events of these types, with the text of the event or of the string that it is registered under."""
    table = "NVTX_EVENTS"
    rows = rows_of(export, table, ["start", "end", "eventType", "globalTid", "textId"], ["text"])
    if "eventType" in export.columns.get(table, ()):
        rows = rows.filter(pl.col("eventType").is_in(types))
    else:
        rows = rows.filter(pl.col("end").is_null() == (_MARK in types))
    rows = with_string(export, _timed(export, table, rows), "textId", "registered")
    return rows.with_columns(pl.coalesce("text", "registered", pl.lit("(no text)")).alias("text"))


def _on_device(export: Export, table: str, ints: Sequence[str]) -> pl.DataFrame:
    """Rows of work on a device, with their location and common columns under our names."""
    rows = rows_of(export, table, ["start", "end", "globalPid", *_DEVICE, *ints])
    return (
        _timed(export, table, rows)
        .with_columns(
            (pl.col("globalPid") // _PID_SHIFT).alias("process"),
            *(_known(nsys_name).alias(name) for nsys_name, name in _DEVICE.items()),
        )
        .with_columns(pl.col("stream").alias("thread"))
    )


def _work_columns() -> list[pl.Expr]:
    return [pl.col(name) for name in (*_DEVICE_LOCATION, "context", "stream", "correlation")]


def _host_location() -> list[pl.Expr]:
    """Thread of a host event: the upper bits of `globalTid` are the process, the lower ones the thread."""
    whole = pl.col("globalTid")
    return [
        pl.col("start"),
        pl.col("end"),
        (whole // _PID_SHIFT).alias("process"),
        pl.lit(None, dtype=pl.Int64).alias("device"),
        (whole % _PID_SHIFT).alias("thread"),
    ]


def _timed(export: Export, table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with a usable time; a row that ends before it starts gets duration 0, an open NVTX range a null end."""
    in_range = pl.col("start").is_between(-_TIME_LIMIT_NS, _TIME_LIMIT_NS, closed="none")
    if table != "NVTX_EVENTS":
        # CUPTI writes two zeros where it could not take the times.
        in_range = in_range & ~((pl.col("start") == 0) & (pl.col("end").fill_null(0) == 0))
        rows = rows.with_columns(pl.col("end").fill_null(-1))
    timed = rows.filter(in_range.fill_null(False))
    wrong = (pl.col("end") < pl.col("start")) | (pl.col("end") >= _TIME_LIMIT_NS)
    lost, mistimed = rows.height - timed.height, timed.filter(wrong).height
    if lost:
        case = FindingCase.ROWS_WITHOUT_TIME
        export.findings.append(
            Finding.of(FindingCode.EVENT_WITHOUT_TIME, export.path, table, lost, case=case)
        )
    if mistimed:
        case = FindingCase.ROWS_WITHOUT_END
        export.findings.append(
            Finding.of(FindingCode.EVENT_DURATION, export.path, table, mistimed, case=case)
        )
    return timed.with_columns(pl.when(wrong).then("start").otherwise("end").alias("end"))


def _known(name: str) -> pl.Expr:
    """Convert a number of CUPTI; -1 if it means none."""
    return pl.when(pl.col(name) == _UNKNOWN).then(-1).otherwise(pl.col(name))


def _label(name: str, labels: dict[int, str]) -> pl.Expr:
    return pl.col(name).replace_strict(labels, default=None, return_dtype=pl.String)


def _by_number(what: str, key: str) -> pl.Expr:
    """Name of an event whose string is missing in the file."""
    return pl.coalesce(pl.format(what + " {}", key), pl.lit(f"{what} without a name"))


def _three(names: Sequence[str]) -> pl.Expr:
    whole = pl.all_horizontal(pl.col(name).is_not_null() for name in names)
    return pl.when(whole).then(pl.concat_list(names)).cast(pl.Array(pl.Int64, 3))
