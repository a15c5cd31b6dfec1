"""Between which moments the path of a step lies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.analysis.time.breakdown import first_start_of_job, step_starts
from tracebraid.model.answers.graph import PATH_SEGMENTS, SegmentKind
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, Residual
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]


class StepBounds(Struct, frozen=True, eq=False):
    """Start and end of a step.

    Args:
        step: its name; None: the whole trace, which has no steps.
        start_ns: the end of the step before; where that runs on some host, the earliest start; of the first, the latest
            start on any rank: recordings of ranks begin apart.
        ends: the moments at which its ranks' hosts and devices end: by rank, the host first.
        end: the latest of these; of equal ones the first.
        end_ns: when that is.
    """

    step: str | None
    start_ns: int
    ends: _Ints
    end: int
    end_ns: int


def step_bounds(graph: DependencyGraph, rank: int | None = None) -> list[StepBounds]:
    """The bounds of each step, in the order of the steps; of a step without any moment there are none."""
    rows = graph.steps if rank is None else graph.steps.filter(pl.col("rank") == rank)
    times_ns = graph.moments.time_ns
    found: list[StepBounds] = []
    overlaps: list[bool] = []
    host_ends: dict[int, int] = {}
    for step, of_step in _by_step(rows).items():
        starts = [row.start for row in of_step if row.start is not None]
        moments = np.array([end for row in of_step for end in row.ends], dtype=np.int64)
        if starts and len(moments):
            end = int(moments[np.argmax(times_ns[moments])])
            begin = (
                int(times_ns[starts].min()) if found else _first_start(_by_step(graph.steps)[step], times_ns)
            )
            found.append(StepBounds(step, begin, moments, end, int(times_ns[end])))
            overlaps.append(_overlaps(of_step, times_ns, host_ends))
    first, last = (
        np.array([getattr(bound, name) for bound in found], dtype=np.int64) for name in ("start_ns", "end_ns")
    )
    begins = step_starts(first, last, np.array(overlaps, dtype=np.bool_))
    return [replace(bound, start_ns=int(begin)) for bound, begin in zip(found, begins, strict=True)]


class _StepOfRank(NamedTuple):
    """The moments at which a rank begins and ends a step; None: it has none."""

    rank: int
    start: int | None
    host_end: int | None
    device_end: int | None

    @property
    def ends(self) -> list[int]:
        return [end for end in (self.host_end, self.device_end) if end is not None]


def _by_step(steps: pl.DataFrame) -> dict[str | None, list[_StepOfRank]]:
    """The rows of `GRAPH_STEPS` of each step, in their order."""
    found: dict[str | None, list[_StepOfRank]] = {}
    columns = ("step", "rank", "start_moment", "host_end_moment", "device_end_moment")
    for step, *row in steps.select(columns).iter_rows():
        found.setdefault(step, []).append(_StepOfRank(*row))
    return found


def _first_start(of_step: list[_StepOfRank], times_ns: _Ints) -> int:
    starts = times_ns[[row.start for row in of_step if row.start is not None]]
    ends = [max(int(times_ns[end]) for end in row.ends) for row in of_step if row.ends]
    return int(first_start_of_job(starts, np.array(ends, dtype=np.int64)))


def _overlaps(of_step: list[_StepOfRank], times_ns: _Ints, host_ends: dict[int, int]) -> bool:
    """Whether a step begins on the host of some rank while one before it runs there; notes when its hosts end."""
    found = False
    for rank, start, end, _ in of_step:
        if start is None or end is None:
            continue
        before = host_ends.get(rank, int(times_ns[start]))
        found |= int(times_ns[start]) < before
        host_ends[rank] = max(before, int(times_ns[end]))
    return found


_Flags = NDArray[np.bool_]

_NEVER_READY = -(2**63)
"""The ready time of a moment that waits for nothing that the path may take."""


class Way(Struct, frozen=True, eq=False):
    """The stretches of a path, from the start of a step to its end; each begins where the one before ends.

    Args:
        moment: the moment that each leads to.
        edge: the edge that the moment waited for the longest; -1: it waits for nothing.
        is_gap: whether the stretch lies behind that edge: the moment is later than all that it may wait for.
        start_ns: its start.
        end_ns: its end.
    """

    moment: _Ints
    edge: _Ints
    is_gap: _Flags
    start_ns: _Ints
    end_ns: _Ints


def moment_ranks(graph: DependencyGraph) -> _Ints:
    """The rank of each moment; -1: it belongs to several, as a collective does."""
    ranks = graph.activities.get_column("rank").fill_null(-1).to_numpy()
    found: _Ints = ranks[graph.moments.activity]
    return found


def allowed_edges(graph: DependencyGraph, rank: int) -> _Flags:
    """The edges that a path within a rank may take: none comes from another rank."""
    ranks = moment_ranks(graph)
    before, after = ranks[graph.edges.before], ranks[graph.after]
    allowed: _Flags = (before == rank) | ((before == -1) & (after == rank))
    return allowed


def way_back(graph: DependencyGraph, bounds: StepBounds, ranks: _Ints, rank: int | None) -> Way:
    """The critical path of a step, over edges that `allowed_edges` has for the rank; None: over all.

    From the latest end of the step back over the latest edge of each moment. Of equally late edges it takes the first
    of the moment's edges; these stand in the order in which `join_ranks` got them: a thread's own order first, then
    the duration of device work, then what linking found, then collectives. So the choice is the same in every run.

    Args:
        ranks: `moment_ranks`.
    """
    edges, times_ns = graph.edges, graph.moments.time_ns
    rows = (edges.first, edges.before, edges.work_ns, times_ns, ranks)
    stretches = _walk(*rows, -1 if rank is None else rank, int(bounds.end), int(bounds.start_ns))
    return Way(*(found[::-1].copy() for found in stretches))


@native_loop
def _walk(
    first: _Ints,
    before: NDArray[np.int32],
    work_ns: _Ints,
    times_ns: _Ints,
    ranks: _Ints,
    rank: int,
    end: int,
    start_ns: int,
) -> tuple[_Ints, _Ints, _Flags, _Ints, _Ints]:
    """The stretches from the last to the first; those without duration are left out."""
    stretches = []
    current = end
    while times_ns[current] > start_ns:
        latest, latest_ns = -1, _NEVER_READY
        for edge in range(first[current], first[current + 1]):
            source = before[edge]
            allowed = rank < 0 or ranks[source] == rank or (ranks[source] == -1 and ranks[current] == rank)
            if allowed and times_ns[source] + work_ns[edge] > latest_ns:
                latest, latest_ns = edge, times_ns[source] + work_ns[edge]
        latest_ns = max(latest_ns, start_ns)
        begun = latest_ns if latest < 0 else max(times_ns[before[latest]], start_ns)
        for is_gap, from_ns, to_ns in ((True, latest_ns, times_ns[current]), (False, begun, latest_ns)):
            if from_ns < to_ns:
                stretches.append((current, latest, is_gap, from_ns, to_ns))
        if latest < 0 or latest_ns == start_ns:
            break
        current = before[latest]
    moments, edges, gaps, starts, ends = np.array(stretches, dtype=np.int64).reshape(-1, 5).T
    return moments, edges, gaps.astype(np.bool_), starts, ends


_Codes = NDArray[np.uint8]

_KINDS = tuple(SegmentKind)
_CODE = {kind: code for code, kind in enumerate(_KINDS)}
_KIND_NAMES = pl.Series([kind.value for kind in _KINDS], dtype=pl.Categorical())
_RESIDUAL_NAMES = pl.Series(
    [None if code is Residual.NONE else code.name.lower() for code in sorted(Residual)],
    dtype=pl.Categorical(),
)

_BY_ACTIVITY = {
    ActivityKind.OP: SegmentKind.HOST_OP,
    ActivityKind.ANNOTATION: SegmentKind.ANNOTATION,
    ActivityKind.CALL: SegmentKind.CALL,
    ActivityKind.PYTHON: SegmentKind.PYTHON,
    ActivityKind.THREAD: SegmentKind.THREAD,
    ActivityKind.KERNEL: SegmentKind.KERNEL,
    ActivityKind.COPY: SegmentKind.COPY,
    ActivityKind.COMMUNICATION: SegmentKind.TRANSFER,
    ActivityKind.COLLECTIVE: SegmentKind.TRANSFER,
}
_BY_EDGE = {
    EdgeKind.TRANSFER: SegmentKind.TRANSFER,
    EdgeKind.ARRIVAL: SegmentKind.MEMBER_WAIT,
    EdgeKind.LAUNCH: SegmentKind.LAUNCH_LATENCY,
    EdgeKind.STREAM_ORDER: SegmentKind.STREAM_GAP,
    EdgeKind.STREAM_OVERLAP: SegmentKind.STREAM_GAP,
    EdgeKind.STREAM_END: SegmentKind.STREAM_GAP,
    EdgeKind.EVENT_WAIT: SegmentKind.EVENT_WAIT,
    EdgeKind.SYNC: SegmentKind.SYNC,
    EdgeKind.QUEUE: SegmentKind.QUEUE,
    EdgeKind.THREAD: SegmentKind.HANDOVER,
    EdgeKind.FORWARD_BACKWARD: SegmentKind.HANDOVER,
    EdgeKind.COMMUNICATION_WAIT: SegmentKind.HANDOVER,
}
"""Of the edges whose work is none of an activity's own; of others the activity says what happens."""


class ActivityColumns(Struct, frozen=True, eq=False):
    """Columns of activities that every path needs.

    Args:
        table: what segments show of an activity: columns of `PATH_SEGMENTS`.
        kind: the code of the segment in which its own work is done.
    """

    table: pl.DataFrame
    kind: _Codes


def activity_columns(graph: DependencyGraph) -> ActivityColumns:
    """Shown columns of activities, computed once for all paths of a graph."""
    threads = graph.activities.filter(as_text("kind") == ActivityKind.THREAD.value).select(
        "rank", "lane", pl.col("name").alias("thread")
    )
    named = (
        graph.activities.join(
            threads.unique(["rank", "lane"], keep="first"),
            on=["rank", "lane"],
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.when(pl.col("stream").is_null()).then("thread").alias("thread"))
        .select(
            "rank",
            "thread",
            "stream",
            "lane",
            "family",
            "name",
            "op",
            "module",
            "annotation",
            "frames",
            "host_work",
            "node_id",
            "shapes",
            "event_id",
        )
    )
    codes = {kind.value: _CODE[segment] for kind, segment in _BY_ACTIVITY.items()}
    kind = graph.activities.select(
        as_text("kind").replace_strict(codes, default=_CODE[SegmentKind.OTHER], return_dtype=pl.UInt8)
    )
    return ActivityColumns(named, kind.to_series().to_numpy())


def segments(graph: DependencyGraph, columns: ActivityColumns, way: Way, step: str | None) -> pl.DataFrame:
    """`PATH_SEGMENTS` of a step; neighbours of the same activity and kind are one."""
    way = _with_waits_apart(graph, way)
    kind, activity = _kinds(graph, columns, way)
    is_residual = kind == _CODE[SegmentKind.RESIDUAL]
    residual = np.where(is_residual, graph.moments.residual[way.moment], Residual.NONE)
    changes = np.ones(len(kind), dtype=np.bool_)
    changes[1:] = np.any(np.diff(np.stack([kind, activity, residual]).astype(np.int64), axis=1), axis=0)
    begun = np.flatnonzero(changes)
    last = np.append(begun[1:], len(kind))[: len(begun)] - 1
    duration = way.end_ns[last] - way.start_ns[begun]
    own = columns.table[activity[begun]]
    found = own.with_columns(
        pl.lit(step, dtype=pl.String).alias("step"),
        pl.Series("order", np.arange(len(begun))),
        _KIND_NAMES.gather(kind[begun]).alias("kind"),
        pl.Series("start_ns", way.start_ns[begun]),
        pl.Series("duration_ns", duration),
        pl.Series("work_ns", np.where(is_residual[begun], 0, duration)),
        pl.Series("residual_ns", np.where(is_residual[begun], duration, 0)),
        _RESIDUAL_NAMES.gather(residual[begun]).alias("residual"),
        pl.Series("activity", activity[begun], dtype=pl.Int64),
        pl.lit(None, dtype=pl.Float64).alias("on_path"),
    )
    return PATH_SEGMENTS.conform(found)


def _kinds(graph: DependencyGraph, columns: ActivityColumns, way: Way) -> tuple[_Codes, _Ints]:
    """The kind of each stretch, and whose it is."""
    edge = np.maximum(way.edge, 0)
    if not len(graph.edges):
        activity = graph.moments.activity[way.moment]
        return np.full(len(edge), _CODE[SegmentKind.RESIDUAL], dtype=np.uint8), activity
    is_wait = way.is_gap & (way.edge >= 0) & (way.end_ns <= _ready(graph, way.moment))
    before = graph.moments.activity[graph.edges.before[edge]]
    activity = np.where(way.is_gap, graph.moments.activity[way.moment], graph.edges.activity[edge])
    activity = np.where(is_wait, before, activity).astype(np.int64)
    by_edge = np.full(len(EdgeKind), len(_KINDS), dtype=np.uint8)
    for edge_kind, segment in _BY_EDGE.items():
        by_edge[edge_kind] = _CODE[segment]
    kind = by_edge[graph.edges.kind[edge]]
    kind = np.where(kind == len(_KINDS), columns.kind[activity], kind)
    gap = np.where(is_wait, _CODE[SegmentKind.MEMBER_WAIT], _CODE[SegmentKind.RESIDUAL])
    return np.where(way.is_gap, gap, kind).astype(np.uint8), activity


def _with_waits_apart(graph: DependencyGraph, way: Way) -> Way:
    """The path with each gap cut where the moment's latest edge of all lies: before it the moment waited for a rank
    that the path must not go to, behind it nothing explains the gap."""
    until = np.clip(_ready(graph, way.moment), way.start_ns, way.end_ns)
    cut = way.is_gap & (way.edge >= 0) & (until > way.start_ns) & (until < way.end_ns)
    if not cut.any():
        return way
    rows = np.repeat(np.arange(len(cut)), 1 + cut)
    is_second = np.zeros(len(rows), dtype=np.bool_)
    is_second[1:] = rows[1:] == rows[:-1]
    is_first = np.zeros(len(rows), dtype=np.bool_)
    is_first[:-1] = is_second[1:]
    return Way(
        way.moment[rows],
        way.edge[rows],
        way.is_gap[rows],
        np.where(is_second, until[rows], way.start_ns[rows]),
        np.where(is_first, until[rows], way.end_ns[rows]),
    )


def _ready(graph: DependencyGraph, moments: _Ints) -> _Ints:
    """Ready time of each moment's latest edge; `_NEVER_READY` without edges."""
    first = graph.edges.first
    waits = first[moments + 1] > first[moments]
    ready = graph.moments.time_ns[moments] - graph.moments.residual_ns[moments]
    return np.where(waits, ready, _NEVER_READY)
