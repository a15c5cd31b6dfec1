"""`LinkedTrace` to the ET+ that et_replay's trace_link wrote, for scripts that read it.

It is the Execution Trace in its own schema, the flat 1.0.1 too, with `ts` and `dur` on each linked node and on the
roots of threads and the process (the span of what is linked on them). Behind them stands a node for each device
event: the event as Kineto has it, under its op (`parent`), with that op's inputs and outputs. Other than there, ids of
host nodes stay, device nodes have their own start and not their launch's, and those without an op are kept: under the
process, with the reason (`orphan`). Where the schema has `ctrl_deps`, the members that Chakra reads are there as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from tracebraid.exporters.et_json import (
    FLAT_SCHEMA,
    Bodies,
    ValueLists,
    as_json,
    document,
    et_of,
    header_of,
    refuse_input,
    write_lines,
)
from tracebraid.exporters.et_plus.nodes import first_device_id, host_nodes, process_node
from tracebraid.exporters.et_plus.times import decimal_us, device_events, host_times
from tracebraid.exporters.kineto_args import device_args
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.reason import OrphanReason

__all__ = ["trace_link_lines", "write_trace_link_et"]


def write_trace_link_et(linked: LinkedTrace, path: str | Path) -> None:
    """Write ET+ in trace_link's form; arguments and errors are those of `write_et_plus`."""
    refuse_input(linked, path)
    write_lines(path, trace_link_lines(linked))


def trace_link_lines(linked: LinkedTrace) -> Iterator[str]:
    """The text of the file, node by node.

    Raises:
        ArgumentError: the rank has no Execution Trace.
    """
    et = et_of(linked)
    header = {**header_of(et), "schema": et.schema, "baseTimeNanoseconds": linked.timeline.base_time_ns}
    rest = {key: value for key, value in et.header.items() if key not in header}
    form = _Flat(et) if et.schema == FLAT_SCHEMA else _Nested(et)
    return document(header, _nodes(linked, et, form), rest)


class _Nested:
    """Since 1.0.2."""

    is_flat = False
    parent_key = "ctrl_deps"

    def __init__(self, et: ExecutionTrace) -> None:
        self._bodies = Bodies(et)

    def host(self, node: int) -> str:
        return self._bodies.of(node)

    def device(self, node: int) -> str:
        return self._bodies.of(node)


class _Flat:
    """1.0.1. A device event has no schema of an operator, as it is none to replay, and Kineto's `tid`."""

    is_flat = True
    parent_key = "parent"

    def __init__(self, et: ExecutionTrace) -> None:
        self._values = ValueLists(et)
        columns = ("fw_parent", "seq_id", "scope", "fw_tid", "rf_id", "tid", "op_schema")
        self._attrs: dict[int, list[str]] = {}
        for node, *values in et.nodes.select("node_id", *columns).iter_rows():
            pairs = zip(columns, values, strict=True)
            self._attrs[node] = [f'"{key}": {as_json(value)}' for key, value in pairs if value is not None]
        for node, key, value in et.extra_attrs.select("node_id", as_text("key"), "value").iter_rows():
            self._attrs[node].append(f"{as_json(key)}: {value}")

    def host(self, node: int) -> str:
        return ", ".join([*self._attrs[node], *self._lists(node)])

    def device(self, node: int) -> str:
        kept = ('"fw_parent"', '"seq_id"', '"scope"', '"fw_tid"')
        return ", ".join([*(attr for attr in self._attrs[node] if attr.startswith(kept)), *self._lists(node)])

    def _lists(self, node: int) -> Iterator[str]:
        for direction, is_output in (("input", False), ("output", True)):
            values, shapes, types, _ = self._values.of(node, is_output)
            yield f'"{direction}s": {values}, "{direction}_shapes": {shapes}, "{direction}_types": {types}'


def _nodes(linked: LinkedTrace, et: ExecutionTrace, form: _Flat | _Nested) -> Iterator[str]:
    """Host nodes in the order of ids, then device nodes in the order of their starts, with ids above all others."""
    base_ns = linked.timeline.base_time_ns
    times = {node: _timing(time, base_ns, form) for node, time in _all_times(linked, et).items()}
    for node_id, name, parent in host_nodes(et):
        head = f'"id": {node_id}, "name": {as_json(name)}, "{form.parent_key}": {parent}'
        yield f"{{{head}, {form.host(node_id)}{times.get(node_id, '')}}}"
    root = process_node(et)
    events = _device_rows(linked)
    args = device_args(linked.timeline, events.get_column("event_id"))
    for number, event in enumerate(events.iter_rows(named=True), start=first_device_id(et)):
        parent = root if event["node_id"] is None else event["node_id"]
        head = _device_head(number, event, parent, form.is_flat)
        times_of = (event["ts_ns"], event["dur_ns"], event["dur_ns"])
        arguments = as_json(args.get(event["event_id"], {}))
        yield f'{{{head}, {form.device(parent)}{_timing(times_of, base_ns, form)}, "args": {arguments}}}'


def _device_head(number: int, event: dict[str, Any], parent: int, is_flat: bool) -> str:
    members: dict[str, object] = {"id": number, "name": event["name"], "parent": parent, "ctrl_deps": parent}
    if is_flat:
        del members["ctrl_deps"]
    members |= {"ph": "X", "cat": event["category"], "pid": event["pid"], "tid": event["tid"]}
    for key in ("pid", "tid"):
        if members[key] is None:
            members[key] = event[f"{key}_text"]
    members["stream"] = event["stream"]
    if event["pg_name"] is not None:
        members["pg_name"] = event["pg_name"]
    if event["node_id"] is None:
        members["orphan"] = event["reason"] or OrphanReason.LAUNCHER_WITHOUT_NODE.value
    return ", ".join(f"{as_json(key)}: {as_json(value)}" for key, value in members.items())


def _timing(times: tuple[int, int, int], base_ns: int, form: _Flat | _Nested) -> str:
    ts, dur, exclusive = times
    text = f', "ts": {decimal_us(ts - base_ns)}, "dur": {decimal_us(dur)}'
    if form.is_flat:
        return text
    return f'{text}, "inclusive_dur": {decimal_us(dur)}, "exclusive_dur": {decimal_us(exclusive)}'


def _all_times(linked: LinkedTrace, et: ExecutionTrace) -> dict[int, tuple[int, int, int]]:
    """(start, inclusive, exclusive) in ns of each linked node, and of each root from what is linked on it."""
    times = host_times(linked)
    spans: dict[int | None, tuple[int, int]] = {}
    for node, tid in et.op_nodes.select("node_id", "tid").iter_rows():
        if node in times:
            start, inclusive, _ = times[node]
            for key in {tid, None}:
                first, last = spans.get(key, (start, start))
                spans[key] = min(first, start), max(last, start + inclusive)
    for node, parent, tid in et.nodes.filter("is_root").select("node_id", "parent_id", "tid").iter_rows():
        span = spans.get(None if parent in (None, node) else tid)
        if span is not None:
            times[node] = span[0], span[1] - span[0], 0
    return times


def _device_rows(linked: LinkedTrace) -> pl.DataFrame:
    lanes = linked.timeline.lanes.select("lane", "pid", "tid", "pid_text", "tid_text")
    where = linked.timeline.events.select("event_id", "lane").join(lanes, on="lane", how="left")
    return device_events(linked).join(where, on="event_id", how="left", maintain_order="left")
