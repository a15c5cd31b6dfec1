"""What is this file?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.devices import devices_of_execution_trace, devices_of_timeline
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.file_info import FileInfo
from tracebraid.model.step import is_profiler_step
from tracebraid.model.timeline import Timeline
from tracebraid.model.units import NS_PER_MS

__all__ = ["execution_trace_info", "timeline_info"]

_TORCH_BY_SCHEMA = {
    "1.0.1": "2.0 - 2.1",
    "1.0.2-chakra.0.0.4": "2.2 - 2.3",
    "1.0.3-chakra.0.0.4": "2.4 nightlies, April 2024",
    "1.1.0-chakra.0.0.4": "2.4",
    "1.1.1-chakra.0.0.4": "2.5 or newer",
}


def timeline_info(timeline: Timeline, size_bytes: int) -> FileInfo:
    """What a Kineto trace or an export of Nsight Systems is; torch is bounded by what only newer versions write."""
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
        steps=_step_names(timeline.events),
        counts=dict(sorted(counts.iter_rows(), key=lambda row: (-row[1], row[0]))),
        findings=timeline.findings,
    )


def execution_trace_info(et: ExecutionTrace, size_bytes: int) -> FileInfo:
    """What an Execution Trace is."""
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
    """The oldest torch that writes what the file has; Kineto files do not name their torch."""
    if "nsys" in timeline.header:
        return ""
    rf_ids = timeline.host_ops.get_column("record_function_id")
    if rf_ids.null_count() < rf_ids.len():
        return "2.4 or newer"
    return "2.4 or newer" if "baseTimeNanoseconds" in timeline.header else "2.3 or older"


def _step_names(rows: pl.DataFrame) -> tuple[str, ...]:
    """Names of steps among the names of some rows, each once, in the order of their numbers."""
    names = rows.select(as_text("name")).filter(is_profiler_step(pl.col("name"))).get_column("name").unique()
    return tuple(sorted(names.to_list(), key=lambda name: (len(name), name)))
