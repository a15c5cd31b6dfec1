"""`LinkedTrace` to ET+ JSON: the Execution Trace with times, and every device event as a node under its op.

This is the form that Chakra's converter reads. Nodes of schema 1.0.1 are written in the form of 1.0.2, which holds the
same and which the converter takes. It also takes no `ncclKernel_SendRecv`, but the name that NCCL has given that kernel
since 2.19, which is written instead; `kineto_name` has the other. Times are decimal µs with three digits, on the Kineto
file's own clock (relative to `baseTimeNanoseconds`, which the header carries), where float64 still distinguishes
nanoseconds. What nodes wait for beside their parents is in `inter_thread_dep` and `sync_dep`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracebraid.exporters.et_json import (
    Bodies,
    as_json,
    document,
    et_of,
    header_of,
    refuse_input,
    write_lines,
)
from tracebraid.exporters.et_plus.node_dependencies import node_dependencies
from tracebraid.exporters.et_plus.nodes import first_device_id, host_nodes, process_node
from tracebraid.exporters.et_plus.times import decimal_us, device_events, host_times
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.reason import OrphanReason

__all__ = ["et_plus_lines", "write_et_plus"]

_RENAMED = "ncclKernel_SendRecv", "ncclDevKernel_SendRecv"


def write_et_plus(linked: LinkedTrace, path: str | Path) -> None:
    """Write ET+ JSON, as gzip where the path ends in `.gz`. The same input gives the same bytes.

    Args:
        linked: a rank with an Execution Trace.
        path: where to; an existing file is replaced once the new one is whole.

    Raises:
        ArgumentError: the rank has no Execution Trace.
        OutputError: the file cannot be written, or is one that the rank is read from.
    """
    refuse_input(linked, path)
    write_lines(path, et_plus_lines(linked))


def et_plus_lines(linked: LinkedTrace) -> Iterator[str]:
    """The text of the ET+ file, node by node.

    Raises:
        ArgumentError: the rank has no Execution Trace.
    """
    et = et_of(linked)
    header = header_of(et)
    header["baseTimeNanoseconds"] = linked.timeline.base_time_ns
    finish = et.header.get("finish_ts")
    yield from document(header, _nodes(linked, et), {} if finish is None else {"finish_ts": finish})


def _nodes(linked: LinkedTrace, et: ExecutionTrace) -> Iterator[str]:
    """Host nodes in the order of ids, then device nodes in the order of their starts, with ids above all others."""
    bodies = Bodies(et)
    times = host_times(linked)
    base_ns = linked.timeline.base_time_ns
    root = process_node(et)
    events = device_events(linked)
    numbers = {
        event: row for row, event in enumerate(events.get_column("event_id"), start=first_device_id(et))
    }
    waits = node_dependencies(linked, et, numbers)
    for node_id, name, parent in host_nodes(et):
        timing = ""
        if node_id in times:
            ts, inclusive, exclusive = times[node_id]
            timing = f', "ts": {decimal_us(ts - base_ns)}, "inclusive_dur": {decimal_us(inclusive)}'
            timing += f', "exclusive_dur": {decimal_us(exclusive)}'
        if node_id in waits.inter_thread:
            timing += f', "inter_thread_dep": {waits.inter_thread[node_id]}'
        if node_id in waits.sync:
            timing += f', "sync_dep": {as_json(waits.sync[node_id])}'
        yield f'{{"id": {node_id}, "name": {as_json(name)}, "ctrl_deps": {parent}, {bodies.of(node_id)}{timing}}}'
    for event in events.iter_rows(named=True):
        number = numbers[event["event_id"]]
        yield _device_node(
            {"number": number, "waits": waits.sync.get(number), **event}, base_ns, root, bodies
        )


def _device_node(event: dict[str, Any], base_ns: int, root: int, bodies: Bodies) -> str:
    node = event["node_id"]
    parent = root if node is None else node
    name = event["name"].replace(*_RENAMED, 1)
    members = {
        "id": str(event["number"]),
        "name": as_json(name),
        "ctrl_deps": str(parent),
        "cat": as_json(event["category"]),
        "ph": '"X"',
        "ts": decimal_us(event["ts_ns"] - base_ns),
        "inclusive_dur": decimal_us(event["dur_ns"]),
        "exclusive_dur": decimal_us(event["dur_ns"]),
        "stream": as_json(event["stream"]),
    }
    if name != event["name"]:
        members["kineto_name"] = as_json(event["name"])
    if event["pg_name"] is not None:
        members["pg_name"] = as_json(event["pg_name"])
    if event["waits"]:
        members["sync_dep"] = as_json(event["waits"])
    if node is None:
        members["orphan"] = as_json(event["reason"] or OrphanReason.LAUNCHER_WITHOUT_NODE.value)
    head = ", ".join(f"{as_json(key)}: {value}" for key, value in members.items())
    return f"{{{head}, {bodies.of(parent)}}}"
