"""`LinkedTrace` to ET+ JSON: the Execution Trace with times, and every device event as a node under its op.

This is the form that Chakra's converter reads. Nodes of schema 1.0.1 are written in the form of 1.0.2, which
holds the same and which the converter takes. Times are decimal µs with three digits, on the Kineto file's own
clock (relative to `baseTimeNanoseconds`, which the header carries), where float64 still tells nanoseconds apart.
What nodes wait for beside their parents is in `inter_thread_dep` and `sync_dep`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from tracebraid.errors import ArgumentError
from tracebraid.export.et_json import Bodies, as_json, header_of
from tracebraid.export.node_dependencies import node_dependencies
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.output import write_whole

__all__ = ["et_plus_lines", "write_et_plus"]


def write_et_plus(linked: LinkedTrace, path: str | Path) -> None:
    """Write ET+ JSON, as gzip where the path ends in `.gz`. The same input gives the same bytes.

    Args:
        linked: a rank with an Execution Trace.
        path: where to; an existing file is replaced once the new one is whole.

    Raises:
        ArgumentError: the rank has no Execution Trace.
        OutputError: the file cannot be written.
    """
    write_whole(Path(path), (line.encode() for line in et_plus_lines(linked)), overwrite=True)


def et_plus_lines(linked: LinkedTrace) -> Iterator[str]:
    """The text of the ET+ file, node by node.

    Raises:
        ArgumentError: the rank has no Execution Trace.
    """
    et = linked.et
    if et is None:
        raise ArgumentError(
            f"rank {linked.rank} has no Execution Trace, and ET+ is one with times: give its ET too"
        )
    header = header_of(et)
    header["baseTimeNanoseconds"] = linked.timeline.base_time_ns
    yield "{\n" + ",\n".join(f"  {as_json(key)}: {as_json(value)}" for key, value in header.items())
    yield ',\n  "nodes": [\n    '
    separator = ""
    for node in _nodes(linked, et):
        yield separator + node
        separator = ",\n    "
    finish = et.header.get("finish_ts")
    yield "\n  ]" + (f',\n  "finish_ts": {as_json(finish)}' if finish is not None else "") + "\n}\n"


def _nodes(linked: LinkedTrace, et: ExecutionTrace) -> Iterator[str]:
    """Host nodes in the order of ids, then device nodes in the order of their starts, with ids above all others."""
    bodies = Bodies(et)
    times = _host_times(linked)
    base_ns = linked.timeline.base_time_ns
    highest = et.nodes.get_column("node_id").max()
    root = et.nodes.get_column("node_id").min()
    assert isinstance(highest, int) and isinstance(root, int), "an Execution Trace has nodes"
    device_events = _device_events(linked)
    numbers = {event: highest + 1 + row for row, event in enumerate(device_events.get_column("event_id"))}
    waits = node_dependencies(linked, et, numbers)
    for node_id, name, parent in et.nodes.select(
        "node_id", pl.col("name").cast(pl.String), "parent_id"
    ).iter_rows():
        timing = ""
        if node_id in times:
            ts, inclusive, exclusive = times[node_id]
            timing = f', "ts": {_us(ts - base_ns)}, "inclusive_dur": {_us(inclusive)}'
            timing += f', "exclusive_dur": {_us(exclusive)}'
        if node_id in waits.inter_thread:
            timing += f', "inter_thread_dep": {waits.inter_thread[node_id]}'
        if node_id in waits.sync:
            timing += f', "sync_dep": {as_json(waits.sync[node_id])}'
        parent = node_id if parent is None else parent
        yield f'{{"id": {node_id}, "name": {as_json(name)}, "ctrl_deps": {parent}, {bodies.of(node_id)}{timing}}}'
    for event in device_events.iter_rows(named=True):
        number = numbers[event["event_id"]]
        yield _device_node(
            {"number": number, "waits": waits.sync.get(number), **event}, base_ns, root, bodies
        )


def _device_node(event: dict[str, Any], base_ns: int, root: int, bodies: Bodies) -> str:
    node = event["node_id"]
    parent = root if node is None else node
    members = {
        "id": str(event["number"]),
        "name": as_json(event["name"]),
        "ctrl_deps": str(parent),
        "cat": as_json(event["category"]),
        "ph": '"X"',
        "ts": _us(event["ts_ns"] - base_ns),
        "inclusive_dur": _us(event["dur_ns"]),
        "exclusive_dur": _us(event["dur_ns"]),
        "stream": as_json(event["stream"]),
    }
    if event["pg_name"] is not None:
        members["pg_name"] = as_json(event["pg_name"])
    if event["waits"]:
        members["sync_dep"] = as_json(event["waits"])
    if node is None:
        members["orphan"] = as_json(event["reason"] or "the op that launched it has no node")
    head = ", ".join(f"{as_json(key)}: {value}" for key, value in members.items())
    return f"{{{head}, {bodies.of(parent)}}}"


def _host_times(linked: LinkedTrace) -> dict[int, tuple[int, int, int]]:
    """(start, inclusive, exclusive) in ns of each linked node; exclusive is less the ops inside, not less calls."""
    rows = (
        linked.node_links.filter(pl.col("event_id").is_not_null())
        .join(linked.host_tree.select("event_id", "inclusive_ns", "op_exclusive_ns"), on="event_id")
        .join(linked.timeline.events.select("event_id", "ts_ns"), on="event_id")
        .select("node_id", "ts_ns", "inclusive_ns", "op_exclusive_ns")
    )
    return {node: (ts, inclusive, exclusive) for node, ts, inclusive, exclusive in rows.iter_rows()}


def _device_events(linked: LinkedTrace) -> pl.DataFrame:
    timeline = linked.timeline
    text = (pl.col("name").cast(pl.String), pl.col("category").cast(pl.String))
    return (
        linked.device_links.select("event_id", "node_id", pl.col("reason").cast(pl.String))
        .join(timeline.events.select("event_id", *text, "ts_ns", "dur_ns"), on="event_id")
        .join(timeline.device_work.select("event_id", "stream"), on="event_id")
        .join(
            timeline.collectives.select("event_id", pl.col("pg_name").cast(pl.String)),
            on="event_id",
            how="left",
        )
        .sort("ts_ns", "event_id")
    )


def _us(ns: int) -> str:
    """Nanoseconds as decimal microseconds, without going through a float."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"
