"""The ranks' parts as one graph: collectives, order, residuals, steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import polars as pl
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.collective_edges import Collectives, collective_edges, with_communication
from tracebraid.graph.edge_order import Rows, edge_rows, in_order, order_of
from tracebraid.graph.latencies import LONGEST_NS
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph import (
    ActivityKind,
    DependencyGraph,
    EdgeKind,
    EdgeList,
    Edges,
    Moments,
    RankGraph,
    Residual,
)
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.links import ACTIVITIES, GRAPH_STEPS, LATENCIES
from tracebraid.model.step import PROFILER_STEP, is_step_name, some_steps
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]
_Ids = NDArray[np.int32]
_Codes = NDArray[np.uint8]
_Flags = NDArray[np.bool_]

_MOST_MOMENTS = 2**31 - 1
"""Moments are numbered in 32 bits."""


def join_ranks(
    parts: Sequence[RankGraph], ranks: LinkedRanks, steps: Sequence[str] | None = None
) -> DependencyGraph:
    """Join the parts of all ranks: their clocks aligned, their collectives waiting for all members."""
    ordered = sorted(parts, key=lambda part: part.rank)
    annotation = ordered[0].annotation if ordered else PROFILER_STEP
    activities, times_ns = _before_joining(ordered, ranks)
    collectives = collective_edges(activities, times_ns, _before_end(ordered), ranks)
    activities, times_ns = _with_collectives(activities, times_ns, collectives)
    firsts = np.cumsum([0, *(part.activities.height for part in ordered)])[:-1].tolist()
    lists = [
        _on_aligned_clock(part, times_ns[2 * first :]) for part, first in zip(ordered, firsts, strict=True)
    ]
    rows = edge_rows([*lists, collectives.edges], [*firsts, 0], times_ns)
    kinds = (rows.kind, int(EdgeKind.DEVICE), int(EdgeKind.HOST))
    _drop_waiting(rows.first, rows.before, rows.work_ns, kinds, _waits(collectives, times_ns))
    order = order_of(times_ns, rows.first, rows.before)
    dropped, rows = rows.backward, in_order(rows, order.moments, order.position)
    times_ns = times_ns[order.moments]
    residual_ns, residual = residuals(rows, times_ns)
    moment_of = order.position.reshape(-1, 2)
    moments = Moments(
        (order.moments // 2).astype(np.int64),
        (order.moments % 2).astype(np.uint8),
        times_ns,
        residual_ns,
        residual,
    )
    return DependencyGraph(
        activities,
        moments,
        Edges(rows.first, rows.before, rows.work_ns, rows.kind, rows.activity),
        moment_of,
        graph_steps(activities, moment_of, annotation, steps),
        pl.concat([LATENCIES.empty(), *(part.latencies for part in ordered)]),
        ranks,
        _findings(ordered, ranks, collectives, dropped + rows.backward),
        is_whole=steps is None,
        annotation=annotation,
        captures={part.rank: part.capture for part in ordered},
    )


def _before_joining(parts: Sequence[RankGraph], ranks: LinkedRanks) -> tuple[pl.DataFrame, _Ints]:
    """Activities and times of all parts, on aligned clocks; numbers go on from rank to rank."""
    heights = [part.activities.height for part in parts]
    if 2 * sum(heights) > _MOST_MOMENTS:
        raise ArgumentError(
            f"a graph has at most {_MOST_MOMENTS:,} moments, and these traces have {2 * sum(heights):,}: "
            "choose fewer steps or ranks"
        )
    activities = pl.concat([ACTIVITIES.empty(), *(part.activities for part in parts)])
    # Of these columns alone: the others would be copied.
    spans = ranks.aligned(activities.select("rank", "start_ns", "end_ns"), "start_ns", "end_ns")
    activities = activities.with_columns(spans.get_column("start_ns"), spans.get_column("end_ns"))
    rank = np.repeat([part.rank for part in parts], 2 * np.array(heights, dtype=np.int64))
    times = np.concatenate([np.empty(0, dtype=np.int64), *(part.times_ns for part in parts)])
    moments = pl.DataFrame({"rank": rank, "time_ns": times}, schema={"rank": pl.Int64, "time_ns": pl.Int64})
    aligned = ranks.aligned(moments, "time_ns").get_column("time_ns").to_numpy()
    return with_communication(ACTIVITIES.conform(activities), ranks), aligned


def _on_aligned_clock(part: RankGraph, aligned_ns: _Ints) -> EdgeList:
    """The edges of a part, whose work is longer or shorter by as much as the part's clock drifts."""
    edges = part.edges
    own_ns, there_ns = (times[edges.after] - times[edges.before] for times in (part.times_ns, aligned_ns))
    drifted = (own_ns != there_ns) & (edges.work_ns <= own_ns)
    if not drifted.any():
        return edges
    scale = np.divide(there_ns, own_ns, out=np.ones(len(edges)), where=drifted)
    return replace(edges, work_ns=np.rint(edges.work_ns * scale).astype(np.int64))


def _before_end(parts: Sequence[RankGraph]) -> _Ints:
    """The moment that the end of each activity follows on its thread or stream, else any that it waits for.

    -1 where it waits for nothing: such activities stand for what lies outside the steps.
    """
    found, first = [np.empty(0, dtype=np.int64)], 0
    for part in parts:
        before = np.full(2 * part.activities.height, -1, dtype=np.int64)
        own = np.isin(part.edges.kind, (EdgeKind.HOST, EdgeKind.DEVICE))
        for edges in (part.edges[~own], part.edges[own]):
            before[edges.after] = first + edges.before
        found.append(before[1::2])
        first += len(before)
    return np.concatenate(found)


def _with_collectives(
    activities: pl.DataFrame, times_ns: _Ints, collectives: Collectives
) -> tuple[pl.DataFrame, _Ints]:
    """All activities and times, those of collectives last."""
    return (
        pl.concat([activities, collectives.activities]),
        np.concatenate([times_ns, collectives.times_ns]),
    )


def _waits(collectives: Collectives, times_ns: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """The ends of members that wait, until when each waits, and the times of all moments."""
    return 2 * collectives.waiting + 1, collectives.until_ns, times_ns


@native_loop
def _drop_waiting(
    first: _Ints,
    before: NDArray[np.int32],
    work_ns: _Ints,
    kinds: tuple[NDArray[np.uint8], int, int],
    waits: tuple[_Ints, _Ints, _Ints],
) -> None:
    """Let the time in which a member waited for others be no work of its own."""
    kind, device, host = kinds
    ends, until_ns, times_ns = waits
    for member, end in enumerate(ends):
        for edge in range(first[end], first[end + 1]):
            own = kind[edge] == device or kind[edge] == host
            if own and times_ns[before[edge]] <= until_ns[member]:
                work_ns[edge] = 0


def _findings(
    parts: Sequence[RankGraph], ranks: LinkedRanks, collectives: Collectives, dropped: int
) -> tuple[Finding, ...]:
    contradicted = [Finding.of(FindingCode.GRAPH_EDGES_CONTRADICTED, count=dropped)] if dropped else []
    of_parts = (finding for part in parts for finding in part.findings)
    return (*ranks.findings, *of_parts, *collectives.findings, *contradicted)


_RESIDUAL = {
    EdgeKind.LAUNCH: Residual.LAUNCH,
    EdgeKind.STREAM_ORDER: Residual.STREAM,
    EdgeKind.STREAM_OVERLAP: Residual.STREAM,
    EdgeKind.STREAM_END: Residual.STREAM,
    EdgeKind.EVENT_WAIT: Residual.EVENT_WAIT,
    EdgeKind.SYNC: Residual.SYNC,
    EdgeKind.QUEUE: Residual.SYNC,
    EdgeKind.THREAD: Residual.THREAD,
    EdgeKind.FORWARD_BACKWARD: Residual.THREAD,
    EdgeKind.COMMUNICATION_WAIT: Residual.COMMUNICATION,
    EdgeKind.ARRIVAL: Residual.COMMUNICATION,
    EdgeKind.TRANSFER: Residual.COMMUNICATION,
}

_LATENCIES = (Residual.LAUNCH, Residual.STREAM, Residual.EVENT_WAIT, Residual.SYNC)
"""Residuals that are a latency which is longer than usual."""

_FAR_TIMES = 10
"""Multiple of the usual latency that latencies rarely exceed."""

_RESIDUAL_BY_KIND = np.array([_RESIDUAL.get(kind, Residual.UNEXPLAINED) for kind in EdgeKind], dtype=np.uint8)
"""`Residual` by the `EdgeKind` of the latest edge."""


def residuals(rows: Rows, times_ns: _Ints) -> tuple[_Ints, _Codes]:
    """The residual of each moment in ns, and its `Residual`.

    It has the name of the edge that the moment waited for the longest, if it can be a latency of that kind: one
    above `LONGEST_NS` and above 10 times the usual is unexplained; and work that waits for its launch alone, the first
    on its stream, waited for what is not in the graph.
    """
    earliest = int(times_ns.min()) if len(times_ns) else 0
    residual_ns, latest = _residuals((rows.first, rows.before, rows.work_ns), times_ns, earliest)
    has_edges = latest >= 0
    if not len(rows.kind):
        return residual_ns, np.where(residual_ns == 0, Residual.NONE, Residual.BEFORE).astype(np.uint8)
    kind = rows.kind[np.maximum(latest, 0)]
    residual = _RESIDUAL_BY_KIND[kind]
    far = (residual_ns > LONGEST_NS) & (residual_ns > _FAR_TIMES * rows.work_ns[np.maximum(latest, 0)])
    residual[far & np.isin(residual, _LATENCIES)] = Residual.UNEXPLAINED
    launched_alone = (np.diff(rows.first) == 1) & (kind == EdgeKind.LAUNCH)
    residual[~has_edges | (far & launched_alone)] = Residual.BEFORE
    residual[residual_ns == 0] = Residual.NONE
    return residual_ns, residual


@native_loop
def _residuals(edges: tuple[_Ints, _Ids, _Ints], times_ns: _Ints, earliest: int) -> tuple[_Ints, _Ints]:
    """The residual of each moment, and the edge that it waited for the longest; -1: it waits for nothing."""
    first, before, work_ns = edges
    residual_ns, found = np.empty(len(times_ns), dtype=np.int64), np.empty(len(times_ns), dtype=np.int64)
    for moment in range(len(times_ns)):
        latest, found[moment] = earliest, -1
        for edge in range(first[moment], first[moment + 1]):
            ready = times_ns[before[edge]] + work_ns[edge]
            if found[moment] < 0 or ready > latest:
                latest, found[moment] = ready, edge
        residual_ns[moment] = times_ns[moment] - latest
    return residual_ns, found


_ON_DEVICE = [ActivityKind.KERNEL.value, ActivityKind.COPY.value, ActivityKind.COMMUNICATION.value]


def graph_steps(
    activities: pl.DataFrame,
    moment_of: NDArray[np.int32],
    annotation: str,
    steps: Sequence[str] | None = None,
) -> pl.DataFrame:
    """`GRAPH_STEPS`."""
    # Those of collectives stand last. Of all activities, text and whole rows would be copies as large as the graph.
    of_ranks = activities.height - activities.get_column("rank").null_count()
    rows = activities.select("rank", "kind", "name", "step", "start_ns", "end_ns", "stream").head(of_ranks)
    rows = rows.with_columns(
        pl.Series("start_moment", moment_of[: rows.height, 0], dtype=pl.Int64),
        pl.Series("end_moment", moment_of[: rows.height, 1], dtype=pl.Int64),
    )
    marks = _step_marks(rows, annotation).filter(pl.col("kind").is_in(["annotation", "op"]))
    # Marks of another profiler of the program hold nothing: what they mark lies in the steps of this one.
    held = rows.select("rank", as_text("step").alias("name")).unique()
    marks = marks.join(held, on=["rank", "name"], how="semi", maintain_order="left")
    if steps is not None:
        marks = marks.filter(pl.col("name").is_in(list(steps)))
    if marks.is_empty():
        return _whole_span(rows)
    ends = _last_on_device(rows, "rank", "step")
    found = (
        marks.sort("start_ns", "rank", maintain_order=True)
        .unique(["name", "rank"], keep="first", maintain_order=True)
        .select("rank", "start_ns", "start_moment", step="name", host_end_moment="end_moment")
        .join(ends, on=["rank", "step"], how="left", maintain_order="left")
    )
    order = found.group_by("step", maintain_order=True).agg(pl.col("start_ns").min().alias("first_ns"))
    found = found.join(order, on="step", maintain_order="left").sort("first_ns", "step", "rank")
    return GRAPH_STEPS.conform(found)


def _step_marks(rows: pl.DataFrame, annotation: str) -> pl.DataFrame:
    """The rows with the name of a step."""
    names = rows.get_column("name").unique()
    steps = names.to_frame().filter(is_step_name(as_text("name"), annotation)).get_column("name")
    return rows.filter(pl.col("name").is_in(steps.implode())).with_columns(as_text("kind", "name", "step"))


def _whole_span(rows: pl.DataFrame) -> pl.DataFrame:
    host = rows.filter(pl.col("stream").is_null())
    begun = rows.sort("start_ns", maintain_order=True).group_by("rank", maintain_order=True).first()
    ended = host.sort("end_ns", maintain_order=True).group_by("rank", maintain_order=True).last()
    found = begun.select("rank", "start_moment").join(
        ended.select("rank", host_end_moment="end_moment"), on="rank", how="left", maintain_order="left"
    )
    found = found.join(_last_on_device(rows, "rank"), on="rank", how="left", maintain_order="left")
    return GRAPH_STEPS.conform(found.sort("rank").with_columns(pl.lit(None).alias("step")))


def _last_on_device(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    works = rows.filter(pl.col("stream").is_not_null()).select(*by, "kind", "end_ns", "end_moment")
    work = works.with_columns(as_text("kind", "step") if "step" in by else as_text("kind")).filter(
        pl.col("kind").is_in(_ON_DEVICE)
    )
    last = work.sort("end_ns", maintain_order=True).group_by(by, maintain_order=True).last()
    return last.select(*by, device_end_moment="end_moment")


Steps: TypeAlias = int | str | Iterable[int | str]
"""A step by its number or name, or several of them, such as `range(3, 6)`."""


def step_names(steps: Steps, seen: Sequence[str], annotation: str) -> tuple[str, ...]:
    """The names of the chosen steps, in the order in which they were seen."""
    chosen = [steps] if isinstance(steps, int | str) else list(steps)
    have = some_steps(seen) or f"none: no annotation {annotation}"
    if not chosen:
        raise ArgumentError(f"no step is selected; there are: {have}")
    names: set[str] = set()
    for step in chosen:
        found = {str(step), f"{annotation}#{step}"} & set(seen)
        if not found:
            raise ArgumentError(f"there is no step {step}; there are: {have}")
        names |= found
    return tuple(name for name in dict.fromkeys(seen) if name in names)


def in_steps(part: RankGraph, names: Sequence[str], windows: pl.DataFrame) -> RankGraph:
    """The moments of some steps: those of threads in the windows of the steps, and of the device work issued in them.

    What they waited for outside these is kept without what it waited for itself: it happens when it did.
    """
    inside = _inside(part, names, windows.filter(pl.col("step").is_in(list(names))))
    edges = part.edges[inside[part.edges.after]]
    kept = inside[::2] | inside[1::2]
    for moments in (edges.before, edges.after):
        kept[moments // 2] = True
    kept[edges.activity] = True
    number = np.cumsum(kept) - 1
    return replace(
        part,
        activities=part.activities.filter(pl.Series(kept)),
        times_ns=part.times_ns[np.repeat(kept, 2)],
        edges=EdgeList(
            2 * number[edges.before // 2] + edges.before % 2,
            2 * number[edges.after // 2] + edges.after % 2,
            edges.work_ns,
            edges.kind,
            number[edges.activity],
        ),
    )


def _inside(part: RankGraph, names: Sequence[str], windows: pl.DataFrame) -> _Flags:
    """Boolean mask of moments in the steps."""
    of_step = part.activities.select(as_text("step").is_in(list(names)).fill_null(value=False)).to_series()
    on_device = part.activities.get_column("stream").is_not_null().to_numpy()
    in_window = np.zeros(len(part.times_ns), dtype=np.bool_)
    for start, end in windows.select("start_ns", "end_ns").iter_rows():
        in_window |= (part.times_ns >= start) & (part.times_ns <= end)
    found: _Flags = np.where(np.repeat(on_device, 2), np.repeat(of_step.to_numpy(), 2), in_window)
    return found
