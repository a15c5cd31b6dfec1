"""Read an Nsight Systems recording, exported to SQLite, into a `Timeline`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.local import LocalFiles
from tracebraid.filesystem.paths import shown, text_of
from tracebraid.importers.discovery import rank_from_name
from tracebraid.importers.frames import process_groups
from tracebraid.importers.kineto.decode import BASE_LIMIT_NS
from tracebraid.importers.nsys.events import device_work, host_calls, host_ops, marks, syncs
from tracebraid.importers.nsys.tables import EXPORT_AGAIN, Export, open_export, rows_of, with_string
from tracebraid.model.column import Table
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.rank_files import Progress
from tracebraid.model.schema import (
    DEVICE_WORK,
    EVENTS,
    EXTRA_ARGS,
    HOST_CALLS,
    HOST_OPS,
    KINETO_TABLES,
    LANES,
    OTHER_EVENTS,
    SYNCS,
)
from tracebraid.model.timeline import Timeline

_NOT_ON_DISK = "SQLite reads an export of Nsight Systems only from a file on disk"
_PID = (1 << 24) - 1
"""The bits of a process or thread id in `globalTid` and `globalPid`."""
_LOCATION = ("process", "device", "thread")
_GPU = {
    "id": "id",
    "totalMemory": "totalGlobalMem",
    "smCount": "numSms",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
}


class _Rows(Struct, frozen=True):
    """Events with the columns of one table."""

    table: Table
    rows: pl.DataFrame


def read_nsys(path: str | Path, progress: Progress | None = None) -> Timeline:
    """Read what `nsys export --type sqlite` wrote.

    Kernels, copies, fills, whole graphs, synchronisations, API calls and NVTX ranges get the names, categories and
    columns that Kineto gives them; see docs/formats.md.
    """
    report = progress or (lambda _: None)
    if not isinstance(file_system_of(text_of(path)), LocalFiles):
        raise InputError(shown(path), _NOT_ON_DISK, "Copy it to this machine first, and name the copy")
    with open_export(path) as export:
        base_ns = _base_time_ns(export)
        parts = _parts(export, report)
        parts, processes = _with_processes(parts)
        several = len(processes) > 1
        tables = _tables(export, parts, base_ns, several)
        tables[OTHER_EVENTS.name] = _marks(export, base_ns)
        header = _header(export, base_ns)
    findings = [*export.findings, *_findings(str(path), base_ns, processes)]
    if tables["events"].is_empty() and any(
        finding.code is FindingCode.EVENT_UNREADABLE for finding in findings
    ):
        raise InputError(str(path), "this SQLite database is damaged: no event can be read", EXPORT_AGAIN)
    report(1.0)
    return Timeline(
        path=str(path),
        rank=rank_from_name(str(path)) or 0,
        world_size=None,
        base_time_ns=base_ns or 0,
        header=header,
        tables=tables,
        process_groups=process_groups(None),
        findings=tuple(findings),
        size_bytes=Path(path).stat().st_size,
    )


def _parts(export: Export, report: Progress) -> list[_Rows]:
    calls = host_calls(export)
    report(0.3)
    work = device_work(export)
    report(0.6)
    ops = host_ops(export)
    report(0.8)
    parts = [
        _Rows(HOST_OPS, ops),
        _Rows(HOST_CALLS, calls),
        *(_Rows(DEVICE_WORK, rows) for rows in work),
        _Rows(SYNCS, syncs(export, calls)),
    ]
    last = max((end for part in parts if isinstance(end := part.rows["end"].max(), int)), default=0)
    still_open = pl.max_horizontal("start", pl.lit(last))
    parts[0] = _Rows(HOST_OPS, ops.with_columns(pl.col("end").fill_null(still_open)))
    return parts


def _with_processes(parts: list[_Rows]) -> tuple[list[_Rows], list[int]]:
    """Make correlations of several processes distinct, as each process counts its own; returns the processes too.

    Rows without a process belong to the only one; with several, they get a separate range.
    """
    seen = pl.concat([part.rows.get_column("process") for part in parts])
    processes = seen.drop_nulls().unique().sort().to_list()
    number = {process: index for index, process in enumerate(processes)}
    offset = pl.col("process").replace_strict(number, default=len(processes), return_dtype=pl.Int64) * (
        1 << 32
    )
    done = []
    for part in parts:
        rows = part.rows
        if len(processes) == 1:
            rows = rows.with_columns(pl.col("process").fill_null(processes[0]))
        elif "correlation" in rows.columns and processes:
            # 0 means none in every process.
            moved = pl.when(pl.col("correlation") > 0).then(pl.col("correlation") + offset)
            rows = rows.with_columns(moved.otherwise("correlation").alias("correlation"))
        done.append(_Rows(part.table, rows))
    return done, processes


def _tables(
    export: Export, parts: list[_Rows], base_ns: int | None, several: bool
) -> dict[str, pl.DataFrame]:
    """All tables; events in the order of their starts, outer ones before inner ones."""
    whole = pl.concat([part.rows.select("start", "end", *_LOCATION, "name", "category") for part in parts])
    order = whole.select(pl.arg_sort_by("start", "end", descending=[False, True], maintain_order=True))
    rows_in_order = order.to_series().to_numpy()
    event_id = np.empty(len(rows_in_order), dtype=np.int64)
    event_id[rows_in_order] = np.arange(len(rows_in_order))
    whole = whole[rows_in_order]
    locations = whole.select(_LOCATION).unique(maintain_order=True).with_row_index("lane")
    events = whole.join(locations, on=_LOCATION, how="left", nulls_equal=True, maintain_order="left").select(
        pl.int_range(pl.len()).alias("event_id"),
        "name",
        "category",
        "lane",
        (pl.col("start") + (base_ns or 0)).alias("ts_ns"),
        (pl.col("end") - pl.col("start")).alias("dur_ns"),
    )
    tables = {table.name: table.empty() for table in KINETO_TABLES}
    tables[EVENTS.name] = _as_table(EVENTS, events)
    tables[LANES.name] = _lanes(export, locations, several)
    numbered: dict[str, list[pl.DataFrame]] = {}
    first = 0
    for part in parts:
        ids = pl.Series("event_id", event_id[first : first + part.rows.height], dtype=pl.Int64)
        first += part.rows.height
        numbered.setdefault(part.table.name, []).append(part.rows.with_columns(ids))
    for table in (HOST_OPS, HOST_CALLS, DEVICE_WORK, SYNCS):
        tables[table.name] = _as_table(table, pl.concat(numbered[table.name], how="diagonal"))
    tables[EXTRA_ARGS.name] = _input_op_ids(numbered[HOST_OPS.name][0])
    return tables


def _as_table(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    filled = table.conform(rows, fill_missing=True)
    return filled.sort("event_id") if "event_id" in filled.columns else filled


def _input_op_ids(ops: pl.DataFrame) -> pl.DataFrame:
    with_ids = ops.filter(pl.col("input_op_ids").is_not_null())
    return _as_table(
        EXTRA_ARGS,
        with_ids.select(
            "event_id",
            pl.lit("input_op_ids").alias("key"),
            ('"' + pl.col("input_op_ids") + '"').alias("value"),
        ),
    )


def _lanes(export: Export, locations: pl.DataFrame, several: bool) -> pl.DataFrame:
    """Build lanes like Kineto's; with several processes, streams are named by process."""
    on_device = pl.col("device").is_not_null()
    pid = pl.col("process") & _PID
    stream = pl.format("stream {}", "thread")
    if several:
        stream = pl.coalesce(pl.format("stream {} of process {}", "thread", pid), stream)
    named = locations.join(_process_names(export), on="process", how="left", maintain_order="left")
    named = named.join(_thread_names(export), on=["process", "thread"], how="left", maintain_order="left")
    lanes = named.select(
        "lane",
        pl.when(on_device).then("device").otherwise(pid).alias("pid"),
        pl.col("thread").alias("tid"),
        "process_name",
        pl.when(on_device)
        .then(pl.format("GPU {}", "device"))
        .otherwise(pl.lit("CPU"))
        .alias("process_labels"),
        pl.when(on_device).then(stream).otherwise("thread_name").alias("thread_name"),
    )
    return _as_table(LANES, lanes)


def _process_names(export: Export) -> pl.DataFrame:
    rows = rows_of(export, "PROCESSES", ["globalPid"], ["name"]).drop_nulls("globalPid")
    names = rows.select((pl.col("globalPid") // (_PID + 1)).alias("process"), process_name="name")
    return names.unique("process", keep="first", maintain_order=True)


def _thread_names(export: Export) -> pl.DataFrame:
    rows = rows_of(export, "ThreadNames", ["nameId", "globalTid"]).drop_nulls("globalTid")
    whole = pl.col("globalTid")
    names = with_string(export, rows, "nameId", "thread_name").select(
        (whole // (_PID + 1)).alias("process"), (whole & _PID).alias("thread"), "thread_name"
    )
    return names.unique(["process", "thread"], keep="first", maintain_order=True)


def _marks(export: Export, base_ns: int | None) -> pl.DataFrame:
    rows = marks(export).sort("start", maintain_order=True).select("name", "start", "process", "thread")
    texts = [
        json.dumps(
            {"name": name, "ph": "i", "ts_ns": start + (base_ns or 0), "pid": pid and pid & _PID, "tid": tid}
        )
        for name, start, pid, tid in rows.iter_rows()
    ]
    return _as_table(OTHER_EVENTS, pl.DataFrame({"phase": ["i"] * len(texts), "json": texts}))


def _base_time_ns(export: Export) -> int | None:
    """Start of the session on the unix clock, to which event times are relative."""
    times = rows_of(export, "TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"]).get_column("utcEpochNs")
    usable = times.filter((times > 0) & (times < BASE_LIMIT_NS))
    return int(usable[0]) if len(usable) else None


def _header(export: Export, base_ns: int | None) -> dict[str, object]:
    gpus = rows_of(export, "TARGET_INFO_GPU", list(_GPU), ["name"]).rename(_GPU).sort("id", nulls_last=True)
    devices = [{key: value for key, value in row.items() if value is not None} for row in gpus.to_dicts()]
    header: dict[str, object] = {"deviceProperties": devices, "nsys": {}, "schemaVersion": "nsys, not given"}
    if base_ns is not None:
        header["baseTimeNanoseconds"] = base_ns
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        about = dict(rows_of(export, table, [], ["name", "value"]).drop_nulls("name").iter_rows())
        if about:
            header["nsys"] = about
            header["schemaVersion"] = f"nsys {about.get('EXPORT_SCHEMA_VERSION') or ', not given'}"
    return header


def _findings(path: str, base_ns: int | None, processes: list[int]) -> list[Finding]:
    found = []
    if base_ns is None:
        found.append(Finding.of(FindingCode.BASE_TIME, path, case=FindingCase.SESSION_START_UNKNOWN))
    if len(processes) > 1:
        shown = ", ".join(str(process & _PID) for process in processes[:8])
        pids = shown + (", ..." if len(processes) > 8 else "")
        found.append(Finding.of(FindingCode.SEVERAL_PROCESSES, path, processes=len(processes), pids=pids))
    elif rank_from_name(path) is None:
        found.append(Finding(FindingCode.RANK_UNKNOWN, path))
    return found
