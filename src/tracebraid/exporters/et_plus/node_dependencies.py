"""Dependencies between events as `inter_thread_dep` and `sync_dep` between the nodes of an ET+ file."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.exporters.et_plus.node_clock import NodeClock
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["NodeDependencies", "node_dependencies"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NodeDependencies:
    """What nodes wait for, beside their parents.

    Args:
        inter_thread: the node of another thread or stream that a host node waits for.
        sync: the device nodes that a host node or a device node waits for, rising.
    """

    inter_thread: dict[int, int] = field(default_factory=dict)
    sync: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Thread:
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

    Args:
        linked: a rank.
        et: its Execution Trace.
        device_nodes: the node id of each device event that the file holds.
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
    """Of several threads that a node would wait for, the one that fell silent last."""
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
