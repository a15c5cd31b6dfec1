"""The ops of a `host_tree` as a tree, and walks over it whose cost does not grow with its depth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.model.collectives import Subject, rule_of
from tracebraid.model.execution_trace import MISSING_PARENT, ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.name_rules import nearest
from tracebraid.model.quantities import NS_PER_US
from tracebraid.model.rows import nearest_rows
from tracebraid.model.timeline import Timeline

_Ints = NDArray[np.int64]


class OpTree(Struct, frozen=True, dict=True):
    """The host events of a tree, each with the op that encloses it.

    Args:
        event_id: event of each row, rising.
        enclosing: row of the op that encloses each row's event; its own row where there is none.
    """

    event_id: _Ints
    enclosing: _Ints

    def rows(self, events: _Ints) -> _Ints:
        """The rows of some events, all of them in the tree."""
        rows: _Ints = np.searchsorted(self.event_id, events)
        return rows

    def nearest(self, wanted: NDArray[np.bool_]) -> _Ints:
        """For each row the nearest wanted row among itself and the ops that enclose it; -1 where there is none."""
        return nearest_rows(self.enclosing, wanted)

    @cached_property
    def spans(self) -> tuple[_Ints, _Ints]:
        """(first, last) of each row: the rows in it, itself included, are those with `first` in [first, last).

        The numbers are those of a walk through the tree, parents before children. Each row's number is its offset
        among its siblings, summed over itself and all rows that enclose it: pointers are doubled as in `nearest`.
        """
        sizes = self._sizes()
        is_root = self.enclosing == np.arange(len(self.enclosing))
        enclosing = np.where(is_root, len(is_root), self.enclosing)
        order = np.argsort(enclosing, kind="stable")
        before = np.cumsum(sizes[order]) - sizes[order]
        opens = np.r_[True, np.diff(enclosing[order]) != 0] if len(order) else np.empty(0, dtype=np.bool_)
        before -= np.repeat(before[opens], np.diff(np.r_[np.flatnonzero(opens), len(order)]))
        first = np.zeros(len(order) + 1, dtype=np.int64)
        first[order] = before + ~is_root[order]
        target = np.r_[enclosing, len(order)]
        while (target < len(order)).any():
            first, target = first + first[target], target[target]
        return first[:-1], first[:-1] + sizes

    def sums(self, own: _Ints) -> _Ints:
        """For each row its own amount and those of all events that it encloses, at any depth."""
        first, last = self.spans
        by_number = np.zeros(len(own) + 1, dtype=np.int64)
        by_number[first + 1] = own
        before = np.cumsum(by_number)
        total: _Ints = before[last] - before[first]
        return total

    def outermost(self, rows: _Ints, keys: _Ints) -> NDArray[np.bool_]:
        """Return whether no other of these rows that encloses a row has its key."""
        first, last = (numbers[rows] for numbers in self.spans)
        order = np.lexsort((first, keys))
        apart = keys[order] * (len(self.event_id) + 1)
        reach = np.maximum.accumulate(np.r_[-1, apart + last[order]])
        found = np.empty(len(rows), dtype=np.bool_)
        found[order] = reach[:-1] <= apart + first[order]
        return found

    def _sizes(self) -> _Ints:
        """The number of rows in each row, itself included: added level by level, the deepest first."""
        sizes = np.ones(len(self.event_id), dtype=np.int64)
        depth = self._depths()
        order = np.argsort(-depth, kind="stable")[: np.count_nonzero(depth)]
        for level in np.split(order, np.flatnonzero(np.diff(depth[order])) + 1):
            np.add.at(sizes, self.enclosing[level], sizes[level])
        return sizes

    def _depths(self) -> _Ints:
        """The number of rows that enclose each row: pointers are doubled as in `nearest`."""
        target = self.enclosing
        depth: NDArray[np.int64] = (target != np.arange(len(target))).astype(np.int64)
        while (further := depth[target]).any():
            depth += further
            target = target[target]
        return depth


def op_tree(host_tree: pl.DataFrame) -> OpTree:
    """The tree of a table `host_tree`."""
    event_id = host_tree.get_column("event_id").to_numpy()
    enclosing = host_tree.get_column("op_event").fill_null(-1).to_numpy()
    rows = np.searchsorted(event_id, enclosing)
    return OpTree(event_id, np.where(enclosing < 0, np.arange(len(event_id)), rows))


_STICKS_OUT_NS = 1000
"""Maximum overhang of an op over its caller, as in real traces, see `linking.rounding`."""
_ROUNDED_AWAY_NS = 2 * NS_PER_US
"""Maximum truncation error of an op's end in a trace in µs, which truncates start and duration."""

_USER_SCOPE = 7
"""`at::RecordScope::USER_SCOPE` in PyTorch: the scope of annotations."""
_ISSUES = r"^c10d::"
"""Ops of which the implementation calls a backend, which makes a range for the collective."""
_BY_ID = ("record_function_id", "external_id")


class Verdict(Enum):
    """Verdict of times on a node whose parent is not the op that encloses its op."""

    MISSING = "missing"
    """Its parent was never written."""
    REFUTED = "refuted"
    """Its parent did not run while it ran."""
    SKIPPED = "skipped"
    """Its parent ran, but so did a nearer op, which calls everything inside it."""
    ASYNCHRONOUS = "asynchronous"
    """The nearer op is a range without children in the Execution Trace: it may be asynchronous."""
    UNPROVEN = "unproven"
    """Times also agree with its parent, or ids prove nothing."""


PROVEN_WRONG = (Verdict.MISSING, Verdict.REFUTED, Verdict.SKIPPED)
"""Verdicts that prove that a node's parent is not its caller, but the nearer op is."""


class JudgedParent(Struct, frozen=True):
    """A linked node whose parent differs from the op that encloses it.

    Args:
        node_id: the node.
        by_time: the node of the innermost op that called it, as times say; None if no linked op encloses it.
        verdict: what is proven about the parent that it has.
    """

    node_id: int
    by_time: int | None
    verdict: Verdict

    @property
    def is_proven(self) -> bool:
        """Return whether its parent is proven wrong, and `by_time` right."""
        return self.verdict in PROVEN_WRONG


class _Span(NamedTuple):
    """Interval of a host event; `finished` is False if the profiler stopped before its end."""

    lane: int
    start_ns: int
    end_ns: int
    finished: bool


class _Node(NamedTuple):
    """Node of the Execution Trace."""

    parent: int | None
    tid: int
    scope: int
    rf_id: int
    is_root: bool


class _Evidence(Struct, frozen=True, dict=True):
    """Both traces, as far as parents are concerned.

    Args:
        nodes: each node.
        parent_of: each node's parent in the Execution Trace.
        node_of: linked event to node.
        event_of: the same the other way round.
        enclosing: event to the innermost op that encloses it.
        spans: linked event to where it lies.
        callers: nodes that have a child in the Execution Trace.
        marked: nodes whose parent was never written.
        by_id: nodes that are linked by ids.
        asynchronous: nodes of ranges of backends, which end when the collective does: they call nothing.
        issuing: nodes of the ops for which backends make these.
        slack_ns: how much later than written an op may end.
    """

    nodes: Mapping[int, _Node]
    parent_of: Mapping[int, int | None]
    node_of: Mapping[int, int]
    event_of: Mapping[int, int]
    enclosing: Mapping[int, int | None]
    spans: Mapping[int, _Span]
    callers: Collection[int]
    marked: Collection[int]
    by_id: AbstractSet[int]
    asynchronous: AbstractSet[int]
    issuing: AbstractSet[int]
    slack_ns: int

    def outer(self, node: int) -> int | None:
        """The node of the nearest linked op that encloses a linked node's op."""
        event = nearest(self.enclosing.get(self.event_of[node]), self.enclosing, self.node_of)
        return None if event is None else self.node_of[event]

    def claimed(self, node: int) -> int | None:
        """The nearest linked ancestor that the Execution Trace gives to a node."""
        return nearest(self.parent_of[node], self.parent_of, self.event_of)

    def calls(self, node: int) -> bool:
        """Return whether what runs inside a node's op on its thread is called by it: not so of asynchronous ranges."""
        return self.nodes[node].scope != _USER_SCOPE or node in self.callers

    def span(self, node: int) -> _Span:
        """Return the interval of a linked node's op."""
        return self.spans[self.event_of[node]]

    def was_open(self, outer: _Span, inner: _Span) -> bool:
        """Return whether an op that calls others began between two on their thread, and ran when the second began."""
        starts, ends = self._calling[outer.lane]
        first, last = (
            np.searchsorted(starts, outer.start_ns, "right"),
            np.searchsorted(starts, inner.start_ns),
        )
        return bool((ends[first:last] > inner.start_ns + self.slack_ns).any())

    @cached_property
    def _calling(self) -> Mapping[int, tuple[_Ints, _Ints]]:
        """The starts and ends of the linked ops of each thread that call others, by start."""
        of_lanes: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for event, span in self.spans.items():
            own = of_lanes[span.lane]
            if self.node_of[event] not in self.asynchronous:
                own.append((span.start_ns, span.end_ns))
        rows = {lane: np.array(sorted(own), dtype=np.int64).reshape(-1, 2) for lane, own in of_lanes.items()}
        return {lane: (table[:, 0], table[:, 1]) for lane, table in rows.items()}


def judge_parents(
    et: ExecutionTrace, timeline: Timeline, tree: pl.DataFrame, host_links: pl.DataFrame
) -> list[JudgedParent]:
    """The linked nodes whose nearest linked ancestor is not that of their op; others agree.

    A node's parent is proven wrong where it was never written, where its op is on another thread or had ended, and
    where an op between the two calls what runs inside it; all of them linked by ids. All else is left open: an
    event without length lies in each op that begins or ends at its moment, a range may be asynchronous.

    An op may outlast its caller: asynchronous ranges, annotations that another call closes, and what was open when the
    profiler stopped. The parent is right that was the innermost to run when it began.
    """
    linked = host_links.filter(pl.col("node_id").is_not_null())
    suspects = _suspects(et, tree, linked.select("event_id", "node_id"))
    if suspects.is_empty():
        return []
    evidence = _evidence(et, timeline, tree, linked)
    judged = (_judge(evidence, node) for node in suspects.get_column("node_id").sort())
    return [verdict for verdict in judged if verdict is not None]


def _judge(evidence: _Evidence, node: int) -> JudgedParent | None:
    """None if both traces agree."""
    parent, by_time, claimed = evidence.nodes[node].parent, evidence.outer(node), evidence.claimed(node)
    if parent is None or parent not in evidence.nodes or node in evidence.marked:
        return None if by_time == claimed else JudgedParent(node, by_time, Verdict.MISSING)
    if by_time == claimed and (parent == claimed or not _began_later(evidence, parent, node)):
        return None
    if parent == claimed and _outlasted(evidence, node, parent):
        return None
    involved = {linked_node for linked_node in (node, by_time, claimed) if linked_node is not None}
    if not involved <= evidence.by_id or (by_time is not None and not _began_later(evidence, node, by_time)):
        return JudgedParent(node, by_time, Verdict.UNPROVEN)
    if _is_refuted(evidence, node, parent):
        return JudgedParent(node, by_time, Verdict.REFUTED)
    if parent not in evidence.event_of and not evidence.nodes[parent].is_root:
        return JudgedParent(node, by_time, Verdict.UNPROVEN)
    caller = by_time
    while caller is not None and caller != claimed and not evidence.calls(caller):
        caller = evidence.outer(caller)
    if caller == claimed:
        return JudgedParent(node, by_time, Verdict.ASYNCHRONOUS)
    if caller is None or not _ran_inside(evidence.span(node), evidence.span(caller)):
        return JudgedParent(node, by_time, Verdict.UNPROVEN)
    if claimed is not None and claimed not in _outward(evidence, caller):
        return JudgedParent(node, by_time, Verdict.UNPROVEN)
    return JudgedParent(node, caller, Verdict.SKIPPED)


def _began_later(evidence: _Evidence, node: int, other: int) -> bool:
    """Return whether all increasing ids say that a node's op began after another's; roots began first."""
    own, others = evidence.nodes[node], evidence.nodes[other]
    if own.is_root or others.is_root:
        return others.is_root
    return node > other and (not own.rf_id or not others.rf_id or own.rf_id > others.rf_id)


def _outlasted(evidence: _Evidence, node: int, parent: int) -> bool:
    """Return whether a node's op began in its parent's, as the innermost that ran there, and ran on behind its end.

    A backend begins the range of a collective on a thread of its own.
    """
    inner, outer = evidence.span(node), evidence.span(parent)
    if parent in evidence.asynchronous or not _began_later(evidence, node, parent):
        return False
    if inner.lane != outer.lane:
        return (
            node in evidence.asynchronous and parent in evidence.issuing and outer.start_ns <= inner.start_ns
        )
    is_inside = outer.start_ns <= inner.start_ns < outer.end_ns - evidence.slack_ns
    return is_inside and inner.end_ns > outer.end_ns and not evidence.was_open(outer, inner)


def _is_refuted(evidence: _Evidence, node: int, parent: int) -> bool:
    """Return whether a node's op did not run inside its parent's."""
    found = evidence.nodes[parent]
    if found.is_root:
        # The root of the process has no thread.
        return found.tid not in (0, evidence.nodes[node].tid)
    if _began_later(evidence, parent, node):
        return True
    if parent not in evidence.event_of:
        return False
    inner, outer = evidence.span(node), evidence.span(parent)
    if inner.lane != outer.lane or inner.start_ns < outer.start_ns:
        return True
    left = outer.end_ns + evidence.slack_ns - inner.start_ns
    over = inner.end_ns - outer.end_ns - evidence.slack_ns
    fits = over <= 0 if left > 0 else left == over == 0
    return outer.finished and not fits and over > min(left, _STICKS_OUT_NS)


def _ran_inside(inner: _Span, outer: _Span) -> bool:
    """Return whether an op ran inside another one, however times were rounded."""
    return (
        inner.lane == outer.lane
        and outer.finished
        and outer.start_ns <= inner.start_ns < outer.end_ns
        and outer.start_ns < inner.end_ns <= outer.end_ns
    )


def _outward(evidence: _Evidence, node: int) -> Iterator[int]:
    outer = evidence.outer(node)
    while outer is not None:
        yield outer
        outer = evidence.outer(outer)


def _suspects(et: ExecutionTrace, tree: pl.DataFrame, linked: pl.DataFrame) -> pl.DataFrame:
    """The linked pairs whose parent and whose enclosing op are not a linked pair, nor both a thread's outermost."""
    event_of_parent = linked.select(
        pl.col("node_id").alias("parent_id"), pl.col("event_id").alias("parent_event")
    )
    roots = et.nodes.filter("is_root").get_column("node_id")
    return (
        linked.join(et.nodes.select("node_id", "parent_id"), on="node_id")
        .join(event_of_parent, on="parent_id", how="left")
        .join(tree.select("event_id", "op_event"), on="event_id")
        .filter(
            pl.col("parent_event").is_null() | pl.col("parent_event").ne_missing(pl.col("op_event")),
            ~(pl.col("op_event").is_null() & pl.col("parent_id").is_in(roots.implode())),
        )
    )


def _evidence(et: ExecutionTrace, timeline: Timeline, tree: pl.DataFrame, linked: pl.DataFrame) -> _Evidence:
    rows = et.nodes.select("node_id", "parent_id", "tid", "scope", "rf_id", "is_root").iter_rows()
    nodes = {
        node: _Node(parent, tid, scope, rf_id or 0, is_root)
        for node, parent, tid, scope, rf_id, is_root in rows
    }
    finished = timeline.host_ops.select("event_id", pl.col("finished").fill_null(True))
    spans = timeline.events.select(
        "event_id", "lane", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")
    )
    placed = linked.select("event_id").join(spans, on="event_id").join(finished, on="event_id", how="left")
    start = placed.get_column("ts_ns")
    in_us = ((start - start.min()) % NS_PER_US == 0).all()
    by_id = linked.filter(as_text("method").is_in(_BY_ID)).get_column("node_id")
    node_of = dict(linked.select("event_id", "node_id").iter_rows())
    marks = et.extra_attrs.filter(as_text("key") == MISSING_PARENT).get_column("node_id")
    names = et.nodes.select("node_id", as_text("name"))
    ranges = [
        name for name in names.get_column("name").unique().to_list() if rule_of(name or "", Subject.RANGE)
    ]
    return _Evidence(
        nodes=nodes,
        parent_of={node: said.parent for node, said in nodes.items()},
        node_of=node_of,
        event_of={node: event for event, node in node_of.items()},
        enclosing=dict(tree.select("event_id", "op_event").iter_rows()),
        spans={event: _Span(*rest) for event, *rest in placed.iter_rows()},
        callers={node.parent for node in nodes.values() if node.parent is not None},
        marked=set(marks),
        by_id=set(by_id),
        asynchronous=set(names.filter(pl.col("name").is_in(ranges)).get_column("node_id")),
        issuing=set(names.filter(pl.col("name").str.contains(_ISSUES)).get_column("node_id")),
        slack_ns=_ROUNDED_AWAY_NS if in_us else 0,
    )
