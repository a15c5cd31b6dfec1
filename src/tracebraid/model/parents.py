"""Whether the parents of an Execution Trace can be those of the ops that Kineto timed, and which are proven wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import polars as pl

from tracebraid.model.execution_trace import MISSING_PARENT, ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.nearest import nearest
from tracebraid.model.timeline import Timeline
from tracebraid.model.units import NS_PER_US

__all__ = ["PROVEN_WRONG", "JudgedParent", "Verdict", "judge_parents"]

_STICKS_OUT_NS = 1000
"""How far an op may stick out of the op that called it: seen in real traces, see `linking.rounding`."""
_ROUNDED_AWAY_NS = 2 * NS_PER_US
"""How much later than written an op may end in a trace in µs, which cuts its start and its duration."""

_USER_SCOPE = 7
"""`at::RecordScope::USER_SCOPE` in PyTorch: the scope of annotations."""
_BY_ID = ("record_function_id", "external_id")


class Verdict(Enum):
    """What times say about a node whose parent is not the op that encloses its op."""

    MISSING = "its parent was never written"
    REFUTED = "its parent did not run while it ran"
    SKIPPED = "its parent did, and so did an op nearer to it, which calls what runs inside of it"
    ASYNCHRONOUS = (
        "the nearer op is a range that has no children in the Execution Trace: it may be asynchronous"
    )
    UNPROVEN = "times agree with its parent as well, or there is no proof by ids"


PROVEN_WRONG = (Verdict.MISSING, Verdict.REFUTED, Verdict.SKIPPED)
"""What proves that a node's parent is not its caller, and that the nearer one is."""


@dataclass(frozen=True)
class JudgedParent:
    """A linked node whose parent differs from the op that encloses it.

    Args:
        node_id: the node.
        by_time: the node of the innermost op that called it, as times say; None where no linked op encloses it.
        verdict: what is proven about the parent that it has.
    """

    node_id: int
    by_time: int | None
    verdict: Verdict

    @property
    def is_proven(self) -> bool:
        """Whether its parent is proven wrong, and `by_time` right."""
        return self.verdict in PROVEN_WRONG


class _Span(NamedTuple):
    """Where a host event lies; `finished` is False where the profiler stopped before it ended."""

    lane: int
    start_ns: int
    end_ns: int
    finished: bool


class _Node(NamedTuple):
    """What the Execution Trace says of a node."""

    parent: int | None
    tid: int
    scope: int
    rf_id: int
    is_root: bool


@dataclass(frozen=True)
class _Evidence:
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
    slack_ns: int

    def outer(self, node: int) -> int | None:
        """The node of the nearest linked op that encloses a linked node's op."""
        event = nearest(self.enclosing.get(self.event_of[node]), self.enclosing, self.node_of)
        return None if event is None else self.node_of[event]

    def claimed(self, node: int) -> int | None:
        """The nearest linked ancestor that the Execution Trace gives to a node."""
        return nearest(self.parent_of[node], self.parent_of, self.event_of)

    def calls(self, node: int) -> bool:
        """Whether what runs inside of a node's op on its thread is called by it: not so of asynchronous ranges."""
        return self.nodes[node].scope != _USER_SCOPE or node in self.callers

    def span(self, node: int) -> _Span:
        """Where the op of a linked node lies."""
        return self.spans[self.event_of[node]]


def judge_parents(
    et: ExecutionTrace, timeline: Timeline, tree: pl.DataFrame, host_links: pl.DataFrame
) -> list[JudgedParent]:
    """The linked nodes whose nearest linked ancestor is not that of their op; others agree.

    A node's parent is proven wrong where it was never written, where its op is on another thread or had ended, and
    where an op between the two calls what runs inside of it; all of them linked by ids. All else is left open: an
    event without length lies in each op that begins or ends at its moment, a range may be asynchronous.

    Args:
        et: the Execution Trace.
        timeline: the Kineto trace.
        tree: its `host_tree`.
        host_links: the table `host_links`.
    """
    linked = host_links.filter(pl.col("node_id").is_not_null())
    suspects = _suspects(et, tree, linked.select("event_id", "node_id"))
    if suspects.is_empty():
        return []
    evidence = _evidence(et, timeline, tree, linked)
    judged = (_judge(evidence, node) for node in suspects.get_column("node_id").sort())
    return [verdict for verdict in judged if verdict is not None]


def _judge(evidence: _Evidence, node: int) -> JudgedParent | None:
    """None where both traces agree."""
    parent, by_time, claimed = evidence.nodes[node].parent, evidence.outer(node), evidence.claimed(node)
    if parent is None or parent not in evidence.nodes or node in evidence.marked:
        return None if by_time == claimed else JudgedParent(node, by_time, Verdict.MISSING)
    if by_time == claimed and (parent == claimed or not _began_later(evidence, parent, node)):
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
    """Whether a node's op began after another's by all of their ids, which are counted up; roots began before all."""
    own, others = evidence.nodes[node], evidence.nodes[other]
    if own.is_root or others.is_root:
        return others.is_root
    return node > other and (not own.rf_id or not others.rf_id or own.rf_id > others.rf_id)


def _is_refuted(evidence: _Evidence, node: int, parent: int) -> bool:
    """Whether a node's op did not run inside of its parent's."""
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
    """Whether an op ran inside of another one, however times were rounded."""
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
        slack_ns=_ROUNDED_AWAY_NS if in_us else 0,
    )
