"""Describe a trace file."""

from __future__ import annotations

import polars as pl

from tracebraid.model.capture_facts import capture_facts_of
from tracebraid.model.category import Category, Role, categories_of
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.file_info import DeviceSource, FileInfo
from tracebraid.model.quantities import NS_PER_MS
from tracebraid.model.step import is_profiler_step, step_events
from tracebraid.model.timeline import Timeline

_TYPE_BY_CATEGORY = {category.value: category.platform for category in Category if category.platform}
_TYPE_BY_CALL_PREFIX = {"hip": "hip", "cuda": "cuda", "cu": "cuda"}
"""The first that fits counts: ROCm writes its calls under the category `cuda_runtime`."""

_TYPE_BY_NUMBER = {
    1: "cuda",
    6: "hip",
    9: "xla",
    12: "xpu",
    13: "mps",
    15: "hpu",
    19: "mtia",
    20: "privateuse1",
}
"""`c10::DeviceType` as allocations carry it, where it is no CPU and no mere layout."""

_UNKNOWN_TYPE = "device"


def devices_of_timeline(timeline: Timeline) -> tuple[tuple[str, ...], DeviceSource]:
    """Return device names from the header, else from events, such as `cuda:0`; else none with the reason."""
    if timeline.device_names:
        return tuple(timeline.device_names), DeviceSource.HEADER
    of_work, of_memory = _numbers_of_work(timeline), _types_of_memory(timeline)
    kind = _type_of_events(timeline) or (_UNKNOWN_TYPE if of_work else None)
    if of_work:
        return tuple(f"{kind}:{number}" for number in of_work), DeviceSource.EVENTS
    if of_memory or kind:
        return of_memory or (str(kind),), DeviceSource.EVENTS
    if timeline.header.get("deviceProperties") == [] and not _communicates_on_devices(timeline):
        return (), DeviceSource.NONE
    return (), DeviceSource.UNKNOWN


def devices_of_execution_trace(et: ExecutionTrace) -> tuple[tuple[str, ...], DeviceSource]:
    """Devices of its tensors."""
    devices = et.tensors.get_column("device").cast(pl.String).drop_nulls().unique().sort().to_list()
    found = tuple(device for device in devices if device)
    return found, DeviceSource.TENSORS if found else DeviceSource.UNKNOWN


def _numbers_of_work(timeline: Timeline) -> list[str]:
    work = (
        timeline.of_role(Role.DEVICE_WORK)
        .select("event_id", "lane")
        .join(timeline.device_work.select("event_id", "device"), on="event_id", how="left")
        .join(timeline.lanes.select("lane", "pid", "pid_text"), on="lane", how="left")
        .select(pl.coalesce(as_text("device", "pid"), "pid_text").alias("device"))
    )
    numbers = work.get_column("device").drop_nulls().unique().to_list()
    return sorted(numbers, key=lambda number: (len(number), number))


def _type_of_events(timeline: Timeline) -> str | None:
    categories = timeline.events.get_column("category").cast(pl.String).unique().drop_nulls().sort().to_list()
    for category in categories:
        if category in _TYPE_BY_CATEGORY:
            return _TYPE_BY_CATEGORY[category]
    if not set(categories) & set(categories_of(Role.CALL)):
        return None
    names = timeline.of_role(Role.CALL).get_column("name").cast(pl.String).unique().to_list()
    return next(
        (
            kind
            for prefix, kind in _TYPE_BY_CALL_PREFIX.items()
            if any(name.startswith(prefix) for name in names)
        ),
        None,
    )


def _types_of_memory(timeline: Timeline) -> tuple[str, ...]:
    rows = timeline.tables["memory"].select("device_type", "device_id").unique().drop_nulls().sort(pl.all())
    return tuple(
        f"{_TYPE_BY_NUMBER[number]}:{device}"
        for number, device in rows.iter_rows()
        if number in _TYPE_BY_NUMBER
    )


def _communicates_on_devices(timeline: Timeline) -> bool:
    """Return whether the process groups are of a library that only devices use."""
    info = timeline.header.get("distributedInfo")
    backend = str(info.get("backend", "")) if isinstance(info, dict) else ""
    return "ccl" in backend


_TORCH_BY_SCHEMA = {
    "1.0.1": "2.0 - 2.1",
    "1.0.2-chakra.0.0.4": "2.2 - 2.3",
    "1.0.3-chakra.0.0.4": "2.4 nightlies, April 2024",
    "1.1.0-chakra.0.0.4": "2.4",
    "1.1.1-chakra.0.0.4": "2.5 or newer",
}


def timeline_info(timeline: Timeline, size_bytes: int) -> FileInfo:
    """Describe a Kineto trace or an export of Nsight Systems; the torch version is bounded by what newer ones write."""
    counts = timeline.events.get_column("category").cast(pl.String).fill_null("(none)").value_counts()
    span = timeline.span_ns
    devices, source = devices_of_timeline(timeline)
    return FileInfo(
        path=timeline.path,
        kind="nsys-export" if "nsys" in timeline.header else "kineto-trace",
        size_bytes=size_bytes,
        schema=f"schemaVersion {timeline.header.get('schemaVersion', 'not given')}",
        torch=_torch_of(timeline),
        devices=devices,
        device_source=source,
        rank=timeline.rank,
        world_size=timeline.world_size,
        start_ns=span[0] if span else None,
        span_ns=span[1] - span[0] if span else None,
        steps=_step_names(step_events(timeline).rename({"step": "name"})),
        counts=dict(sorted(counts.iter_rows(), key=lambda row: (-row[1], row[0]))),
        findings=timeline.findings,
    )


def execution_trace_info(et: ExecutionTrace, size_bytes: int) -> FileInfo:
    """Describe an Execution Trace."""
    start, finish = et.header.get("start_ts"), et.header.get("finish_ts")
    known = isinstance(start, int) and isinstance(finish, int)
    devices, source = devices_of_execution_trace(et)
    return FileInfo(
        path=et.path,
        kind="execution-trace",
        size_bytes=size_bytes,
        schema=et.schema,
        torch=_TORCH_BY_SCHEMA.get(et.schema, ""),
        devices=devices,
        device_source=source,
        rank=et.rank,
        world_size=None,
        start_ns=None,
        span_ns=(finish - start) * NS_PER_MS if known else None,  # type: ignore[operator]
        steps=_step_names(et.nodes),
        counts={
            "operator nodes": et.op_nodes.height,
            "root nodes": et.nodes.height - et.op_nodes.height,
            "tensor nodes": et.tensors.height,
            "tensor edges": et.tensor_edges.height,
            "process groups": et.process_groups.height,
        },
        findings=et.findings,
    )


def _torch_of(timeline: Timeline) -> str:
    """Return the torch version recorded by `capture`, else the oldest that writes the file's content."""
    if "nsys" in timeline.header:
        return ""
    if torch := capture_facts_of(timeline).torch:
        return torch
    rf_ids = timeline.host_ops.get_column("record_function_id")
    if rf_ids.null_count() < rf_ids.len():
        return "2.4 or newer"
    return "2.4 or newer" if "baseTimeNanoseconds" in timeline.header else "2.3 or older"


def _step_names(rows: pl.DataFrame) -> tuple[str, ...]:
    """Names of steps among the names of some rows, each once, in the order of their numbers."""
    names = rows.select(as_text("name")).filter(is_profiler_step(pl.col("name"))).get_column("name").unique()
    return tuple(sorted(names.to_list(), key=lambda name: (len(name), name)))
