"""`LinkedTrace` to ET+: the Execution Trace with times, and every device event as a node under its op."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct, field
from numpy.typing import NDArray

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
from tracebraid.model.column import Column, Kind
from tracebraid.model.coverage import OrphanReason
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_US
from tracebraid.model.schema import COLLECTIVES, DEVICE_WORK
from tracebraid.model.timeline import Timeline


def device_args(timeline: Timeline, events: pl.Series) -> dict[int, dict[str, object]]:
    """The arguments of these device events by their names in the file; an event without any is left out."""
    found: dict[int, dict[str, object]] = {}
    for table in (DEVICE_WORK, COLLECTIVES):
        columns = [column for column in table.columns if column.keys]
        frame = timeline.tables[table.name].filter(pl.col("event_id").is_in(events.implode()))
        for event, *values in frame.select("event_id", *(_as_read(column) for column in columns)).iter_rows():
            found.setdefault(event, {}).update(
                (column.keys[0], _as_written(column, value))
                for column, value in zip(columns, values, strict=True)
                if value is not None
            )
    extra = timeline.tables["extra_args"].filter(pl.col("event_id").is_in(events.implode()))
    for event, key, text in extra.select("event_id", as_text("key"), "value").iter_rows():
        found.setdefault(event, {})[key] = msgspec.Raw(text.encode())
    return found


def _as_read(column: Column) -> pl.Expr:
    return as_text(column.name) if column.kind in (Kind.NAME, Kind.JSON) else pl.col(column.name)


def _as_written(column: Column, value: Any) -> object:
    if column.kind is Kind.JSON:
        return msgspec.Raw(value.encode())
    return str(value) if column.kind is Kind.INTS else value


NEVER = -(2**63)
"""Before all times: the time of nodes ahead of the first that has one."""


class NodeClock:
    """A time for each node that rises along every order there is between nodes but the dependencies to be added.

    Who runs the nodes of a thread takes them from its root down, in the order of ids, and takes device work last among
    the children of its op: as Chakra's converter does. The time of a node is the latest start of all nodes up to it.
    Parents never come after their children. If every further dependency leads from an earlier time to a later one,
    all of them together close no cycle.
    """

    def __init__(self, et: ExecutionTrace, start_ns: dict[int, int]) -> None:
        """Walk the nodes of a trace, given the starts of those that have one."""
        self._time: dict[int, int] = {}
        self._behind: dict[int, int] = {}
        children: dict[int, list[int]] = defaultdict(list)
        nodes = et.nodes.sort("node_id").select("node_id", "parent_id", "is_root").rows()
        known = {node for node, _, _ in nodes}
        tops = []
        for node, parent, is_root in nodes:
            if is_root or parent is None or parent == node or parent not in known:
                tops.append(node)
            else:
                children[parent].append(node)
        self._walk(tops, children, start_ns)
        self._walk([node for node, _, _ in nodes if node not in self._time], children, start_ns)

    def _walk(self, tops: Iterable[int], children: dict[int, list[int]], start_ns: dict[int, int]) -> None:
        for top in tops:
            latest = NEVER
            stack = [(top, False)]
            while stack:
                node, done = stack.pop()
                if done:
                    self._behind[node] = latest
                elif node not in self._time:
                    latest = max(latest, start_ns.get(node, NEVER))
                    self._time[node] = latest
                    stack.append((node, True))
                    stack += [(child, False) for child in reversed(children[node])]

    def of(self, node: int) -> int:
        """The time of a host node, ns."""
        return self._time[node]

    def of_device_work(self, start_ns: int, node: int | None) -> int:
        """The time of device work under a host node: that of the last node inside it, or its own start if later."""
        return start_ns if node is None else max(start_ns, self._behind[node])


_Ints = NDArray[np.int64]


class NodeDependencies(Struct, frozen=True):
    """Dependencies of nodes besides their parents.

    Args:
        inter_thread: the node of another thread or stream that a host node waits for.
        sync: the device nodes that a host node or a device node waits for, rising.
    """

    inter_thread: dict[int, int] = field(default_factory=dict)
    sync: dict[int, list[int]] = field(default_factory=dict)


class _Thread(Struct, frozen=True):
    """The linked nodes of a host thread, in the order of their starts, and the highest clock so far at each."""

    start_ns: _Ints
    node: _Ints
    clock: _Ints

    def first_from(self, ns: int, after_clock: int) -> int | None:
        """The first node to start at `ns` or later of which the clock is later than another's."""
        row = max(
            int(np.searchsorted(self.start_ns, ns, side="left")),
            int(np.searchsorted(self.clock, after_clock, side="right")),
        )
        return int(self.node[row]) if row < len(self.node) else None

    def last_until(self, ns: int) -> int | None:
        """The last node to start at `ns` or earlier."""
        row = int(np.searchsorted(self.start_ns, ns, side="right")) - 1
        return int(self.node[row]) if row >= 0 else None


def node_dependencies(
    linked: LinkedTrace, et: ExecutionTrace, device_nodes: dict[int, int]
) -> NodeDependencies:
    """Find what the nodes of an ET+ file wait for.

    What follows a call that waited for the device begins with the first node to start on its thread once that call is
    over; what was done by a thread that fell silent ends with the last node that started there. Dependencies that
    could close a cycle with the order of nodes are moved to the first node that they close none with, or left out.
    """
    starts = _starts(linked)
    clock = NodeClock(et, dict(starts.select("node_id", "ts_ns").iter_rows()))
    threads = _threads(starts, clock)
    clocks = _device_clocks(linked, clock)
    found = NodeDependencies(_inter_thread(linked, threads, clock))
    waits: dict[int, set[int]] = defaultdict(set)
    ends: dict[int, int] = {}
    for kind, before, after, lane, after_ns, before_ns in _waits(linked):
        # Not all are in the file: of iterations that were not matched, none are.
        if before not in device_nodes or (kind == "event_wait" and after not in device_nodes):
            continue
        ends[device_nodes[before]] = before_ns
        if kind == "event_wait":
            if clocks[before] < clocks[after]:
                waits[device_nodes[after]].add(device_nodes[before])
            continue
        node = threads[lane].first_from(after_ns, clocks[before]) if lane in threads else None
        if node is not None and clocks[before] < clock.of(node):
            waits[node].add(device_nodes[before])
            if node not in found.inter_thread:
                found.sync[node] = []
    host = set(found.sync)
    found.sync.update({node: sorted(waits[node]) for node in sorted(waits)})
    for node in sorted(host):
        found.inter_thread[node] = max(
            found.sync[node], key=lambda device_node: (ends[device_node], device_node)
        )
    return found


def _starts(linked: LinkedTrace) -> pl.DataFrame:
    """Each linked host node with its event's start and thread."""
    return (
        linked.node_links.filter(pl.col("event_id").is_not_null())
        .select("node_id", "event_id")
        .join(linked.timeline.events.select("event_id", "lane", "ts_ns"), on="event_id")
        .sort("lane", "ts_ns", "node_id")
    )


def _threads(starts: pl.DataFrame, clock: NodeClock) -> dict[int, _Thread]:
    return {
        int(rows.item(0, "lane")): _Thread(
            rows.get_column("ts_ns").to_numpy(),
            rows.get_column("node_id").to_numpy(),
            np.maximum.accumulate(np.array([clock.of(node) for node in rows.get_column("node_id")])),
        )
        for rows in starts.partition_by("lane", maintain_order=True)
    }


def _device_clocks(linked: LinkedTrace, clock: NodeClock) -> dict[int, int]:
    work = linked.device_links.select("event_id", "node_id").join(
        linked.timeline.events.select("event_id", "ts_ns"), on="event_id"
    )
    return {
        event: clock.of_device_work(ts, node)
        for event, ts, node in work.select("event_id", "ts_ns", "node_id").iter_rows()
    }


def _moments(linked: LinkedTrace, kinds: list[str]) -> pl.DataFrame:
    """The dependencies of some kinds with the threads and times of both moments."""
    events = linked.timeline.events
    found = linked.dependencies.with_columns(as_text("kind", "before_moment", "after_moment")).filter(
        pl.col("kind").is_in(kinds)
    )
    for endpoint in ("before", "after"):
        times = events.select(
            pl.col("event_id").alias(f"{endpoint}_event"),
            pl.col("lane").alias(f"{endpoint}_lane"),
            pl.col("ts_ns"),
            pl.col("dur_ns"),
        )
        ended = pl.when(pl.col(f"{endpoint}_moment") == "end").then("dur_ns").otherwise(0)
        found = (
            found.join(times, on=f"{endpoint}_event")
            .with_columns((pl.col("ts_ns") + ended).alias(f"{endpoint}_ns"))
            .drop("ts_ns", "dur_ns")
        )
    return found.sort("after_ns", "after_event", "before_ns", "before_event")


def _waits(linked: LinkedTrace) -> list[tuple[str, int, int, int, int, int]]:
    return (
        _moments(linked, ["event_wait", "sync"])
        .select("kind", "before_event", "after_event", "after_lane", "after_ns", "before_ns")
        .rows()
    )


def _inter_thread(linked: LinkedTrace, threads: dict[int, _Thread], clock: NodeClock) -> dict[int, int]:
    """Choose, among several threads to wait for, the one that fell silent last."""
    found: dict[int, int] = {}
    rows = _moments(linked, ["inter_thread"]).sort("before_ns", "before_event", "after_event")
    columns = ("before_lane", "before_ns", "after_lane", "after_ns")
    for before_lane, before_ns, after_lane, after_ns in rows.select(columns).iter_rows():
        if before_lane not in threads or after_lane not in threads:
            continue
        before = threads[before_lane].last_until(before_ns)
        after = None if before is None else threads[after_lane].first_from(after_ns, clock.of(before))
        if before is not None and after is not None and clock.of(before) < clock.of(after):
            found[after] = before
    return found


def host_nodes(et: ExecutionTrace) -> Iterator[tuple[int, str, int]]:
    """(id, name, parent) of each node in the order of ids; a node without parent is its own, as PyTorch writes it."""
    for node, name, parent in et.nodes.select("node_id", as_text("name"), "parent_id").iter_rows():
        yield node, name, node if parent is None else parent


def process_node(et: ExecutionTrace) -> int:
    """The node that stands for the process: the parent of device work without an op."""
    lowest = et.nodes.get_column("node_id").min()
    assert isinstance(lowest, int), "an Execution Trace has nodes"
    return lowest


def first_device_id(et: ExecutionTrace) -> int:
    """The id of the first node of device work, above those of all host nodes."""
    highest = et.nodes.get_column("node_id").max()
    assert isinstance(highest, int), "an Execution Trace has nodes"
    return highest + 1


def host_times(linked: LinkedTrace) -> dict[int, tuple[int, int, int]]:
    """(start, inclusive, exclusive) in ns of each linked node; exclusive is less the ops inside, not less calls."""
    rows = (
        linked.node_links.filter(pl.col("event_id").is_not_null())
        .join(linked.host_tree.select("event_id", "inclusive_ns", "op_exclusive_ns"), on="event_id")
        .join(linked.timeline.events.select("event_id", "ts_ns"), on="event_id")
        .select("node_id", "ts_ns", "inclusive_ns", "op_exclusive_ns")
    )
    return {node: (ts, inclusive, exclusive) for node, ts, inclusive, exclusive in rows.iter_rows()}


def device_events(linked: LinkedTrace) -> pl.DataFrame:
    """Return each device event with its node, or the reason why it has none, in order of start.

    What was launched in iterations that were not matched is left out, as their ops are.
    """
    timeline = linked.timeline
    elsewhere = linked.host_links.filter(as_text("reason") == OrphanReason.OTHER_ITERATION.value)
    text = (as_text("name"), as_text("category"))
    return (
        linked.device_links.join(elsewhere, left_on="op_event", right_on="event_id", how="anti")
        .select("event_id", "node_id", as_text("reason"))
        .join(timeline.events.select("event_id", *text, "ts_ns", "dur_ns"), on="event_id")
        .join(timeline.device_work.select("event_id", "stream"), on="event_id")
        .join(
            timeline.collectives.select("event_id", as_text("pg_name")),
            on="event_id",
            how="left",
        )
        .sort("ts_ns", "event_id")
    )


def decimal_us(ns: int) -> str:
    """Nanoseconds as decimal microseconds, without going through a float."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // NS_PER_US}.{ns % NS_PER_US:03d}"


def write_trace_link_et(linked: LinkedTrace, path: str | Path) -> None:
    """Write ET+ in trace_link's form; arguments and errors are those of `write_et_plus`."""
    refuse_input(linked, path)
    write_lines(path, trace_link_lines(linked))


def trace_link_lines(linked: LinkedTrace) -> Iterator[str]:
    """The text of the file, node by node."""
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
    """Return (start, inclusive, exclusive) in ns of each linked node, and of each root from its linked nodes."""
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


_RENAMED = "ncclKernel_SendRecv", "ncclDevKernel_SendRecv"


def write_et_plus(linked: LinkedTrace, path: str | Path) -> None:
    """Write ET+ JSON, as gzip where the path ends in `.gz`. The same input gives the same bytes.

    Args:
        linked: a rank with an Execution Trace.
        path: the file; an existing one is replaced once the new one is complete.

    Raises:
        ArgumentError: the rank has no Execution Trace.
        OutputError: the file cannot be written, or is one that the rank is read from.
    """
    refuse_input(linked, path)
    write_lines(path, et_plus_lines(linked))


def et_plus_lines(linked: LinkedTrace) -> Iterator[str]:
    """The text of the ET+ file, node by node."""
    et = et_of(linked)
    header = header_of(et)
    header["baseTimeNanoseconds"] = linked.timeline.base_time_ns
    finish = et.header.get("finish_ts")
    yield from document(header, _nodes_of_writer(linked, et), {} if finish is None else {"finish_ts": finish})


def _nodes_of_writer(linked: LinkedTrace, et: ExecutionTrace) -> Iterator[str]:
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
