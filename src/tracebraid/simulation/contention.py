"""Ops of threads that share the cores of a host: how much slower they are where more threads compute than it has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind
from tracebraid.simulation.replay import replayed_times

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]

_COMPUTES = (ActivityKind.OP.value, ActivityKind.CALL.value)
_KIND = pl.col("kind").cast(pl.String)
_COMMUNICATES = (ActivityKind.COMMUNICATION.value == _KIND) & pl.col("stream").is_null()
_ALIKE = ("rank", "name", "op", "module", "shapes")
_LEAST_NS = 20_000
"""Ops that take less vary by more than sharing explains."""
_LEAST_SAMPLES = 8
"""Minimum ops to compare, each with its like in other steps."""
_ROUNDS = 30
"""Rounds of the fit of the slowdown and of what each op takes alone, in turn."""
EQUAL_SHARES, _DOUBT = 1.0, 0.5
"""Slowdown if threads share cores in equal parts, and its standard error before the trace is asked: with twice as many
threads as cores, work takes twice as long; less, where threads that count as computing wait. Chosen, not measured."""
OTHERS_DIFFER = 0.7
"""Standard deviation of the time that threads wait for cores because of other programs, from run to run, as a share:
chosen, not measured."""
_MOST_PASSES = 5
"""Maximum replays of a graph: each moves ops, which changes how many compute at a time."""
_SAME = 0.01
"""Change of a share of threads without a core that does not count as one."""


class Contention(Struct, frozen=True, eq=False):
    """Slowdown of ops by sharing cores.

    Args:
        slowdown: by how many times longer work takes for each thread per core beyond the first.
        error: its standard error.
        excess: of each activity, threads per core beyond the first while it worked, on average.
        others: share of its time that a rank's threads waited for a core because other programs used it; of the rank
            with the most.
    """

    slowdown: float
    error: float
    excess: _Floats
    others: float


def contention_of(graph: DependencyGraph) -> Contention:
    """The slowdown of equal shares of the cores, weighed with that of the trace by their errors.

    The latter is fitted to the durations of equal ops in steps in which more or fewer threads computed beside them.
    """
    own = _own(graph)
    excess = _excess(graph, own, _loads(graph)[own], graph.moments.time_ns)
    others = _waits_for_others(graph, own, excess)
    unknown = Contention(EQUAL_SHARES, _DOUBT, excess, others)
    if not (excess > 0).any():
        return unknown
    work = np.bincount(graph.edges.activity[own], graph.edges.work_ns[own], minlength=graph.activities.height)
    rows = graph.activities.select(*_ALIKE, "step", "start_ns", _KIND).with_columns(
        pl.Series("work_ns", work), pl.Series("excess", excess)
    )
    rows = rows.filter(pl.col("kind").is_in(_COMPUTES) & (pl.col("work_ns") >= _LEAST_NS)).drop_nulls("step")
    rows = rows.sort("start_ns", maintain_order=True).with_columns(
        pl.int_range(pl.len()).over(*_ALIKE, "step").alias("order")
    )
    like = (*_ALIKE, "order")
    rows = rows.filter(pl.len().over(like) > 2).with_columns(pl.struct(like).rank("dense").alias("like") - 1)
    x, work, key = (rows.get_column(name).to_numpy() for name in ("excess", "work_ns", "like"))
    within = x - (np.bincount(key, x) / np.maximum(np.bincount(key), 1))[key]
    squares = float(within @ within)
    if len(x) < _LEAST_SAMPLES or squares <= 0:
        return unknown
    slope, factor = 0.0, np.ones(len(x))
    for _ in range(_ROUNDS):
        factor = work / (np.bincount(key, work) / np.bincount(key, 1 + slope * x))[key]
        slope = min(max(float(within @ factor) / squares, 0.0), EQUAL_SHARES)
    error = float(np.sqrt((((factor - 1 - slope * x) * within) ** 2).sum())) / squares
    weight = _DOUBT**2 / (_DOUBT**2 + error**2)
    return replace(
        unknown, slowdown=EQUAL_SHARES + weight * (slope - EQUAL_SHARES), error=error * weight**0.5
    )


def with_contention(graph: DependencyGraph, contention: Contention) -> DependencyGraph:
    """Adjust the work of ops to how many threads compute beside them in a replay."""
    added = graph.activities.height - len(contention.excess)
    was = np.pad(contention.excess, (0, added))
    edges = graph.edges
    own = _own(graph)
    if len(own):
        activity, load = edges.activity[own], _loads(graph)[own]
        before = 1 + contention.slowdown * load * was[activity]
        last, found = was, graph
        for _ in range(_MOST_PASSES - 1):
            now = _excess(found, own, load, replayed_times(found))
            if np.abs(now - last).max(initial=0) < _SAME:
                break
            work = edges.work_ns.copy()
            work[own] = np.rint(work[own] * (1 + contention.slowdown * load * now[activity]) / before)
            found, last = replace(graph, edges=replace(edges, work_ns=work)), now
        return found
    return graph


def _own(graph: DependencyGraph) -> _Ints:
    """Numbers of edges in which a thread of the host computes: ops, calls, and transfers of its backend."""
    edges = graph.edges
    computes = graph.activities.select(_KIND.is_in(_COMPUTES) | _COMMUNICATES).to_series().to_numpy()
    kinds = np.isin(edges.kind, (EdgeKind.HOST, EdgeKind.TRANSFER))
    return np.flatnonzero(kinds & (edges.work_ns > 0) & computes[edges.activity])


def _waits_for_others(graph: DependencyGraph, own: _Ints, excess: _Floats) -> float:
    """Share of the window that a rank's main thread waited for a core, less what threads of the job explain.

    Other threads do not count: those of gloo that poll take cores from each other however quiet the machine is.
    """
    activity, span_ns = graph.edges.activity[own], max(int(np.ptp(graph.moments.time_ns)), 1)
    waited = graph.edges.work_ns[own] * excess[activity] / (1 + excess[activity])
    explained = graph.activities.select("rank")[activity].with_columns(pl.Series("ns", waited))
    of_rank = dict(explained.group_by("rank").agg(pl.col("ns").sum()).iter_rows())
    shares = [
        min(facts.of_threads, key=lambda thread: thread.tid).run_queue_wait_ns / facts.window_ns
        - of_rank.get(rank, 0.0) / span_ns
        for rank, facts in graph.captures.items()
        if facts.of_threads and facts.window_ns
    ]
    return max(0.0, *shares) if shares else 0.0


_BACKEND = "gloo"
"""In the names of the threads that communicate for a host."""


def _loads(graph: DependencyGraph) -> _Floats:
    """The share of a core that a thread takes on each edge: in communication of the host as its backend's threads did.

    That is their time on cores in the window over that of all communication; 1 where either is unknown.
    """
    table = graph.activities.select("rank", "start_ns", "end_ns", own=_COMMUNICATES)
    lasted = table.filter("own").group_by("rank").agg((pl.col("end_ns") - pl.col("start_ns")).sum())
    share = {}
    for rank, lasted_ns in lasted.iter_rows():
        threads = graph.captures[rank].of_threads if rank in graph.captures else ()
        busy_ns = sum(thread.cpu_ns for thread in threads if _BACKEND in thread.name)
        if busy_ns and lasted_ns:
            share[rank] = min(busy_ns / lasted_ns, 1.0)
    known = pl.col("rank").replace_strict(share, default=1.0, return_dtype=pl.Float64)
    found: _Floats = table.select(pl.when("own").then(known).otherwise(1.0)).to_series().to_numpy()
    return found[graph.edges.activity]


def _excess(graph: DependencyGraph, own: _Ints, load: _Floats, times_ns: _Ints) -> _Floats:
    """Threads per core beyond the first, on average while each activity computes; 0 where cores are unknown."""
    found = np.zeros(graph.activities.height)
    cores = {rank: facts.cores for rank, facts in graph.captures.items() if facts.cores}
    if not cores or not len(own):
        return found
    clocks = graph.ranks.clocks
    hosts = dict(clocks.select("rank", "host").iter_rows())
    ranks = graph.activities.get_column("rank").gather(graph.edges.activity[own])
    host = ranks.replace_strict(
        {rank: hosts.get(rank) or f"#{rank}" for rank in cores}, default=None, return_dtype=pl.String
    )
    ends = times_ns[graph.after[own]] - graph.moments.residual_ns[graph.after[own]]
    starts = ends - graph.edges.work_ns[own]
    for name in host.drop_nulls().unique().sort().to_list():
        rows = np.flatnonzero((host == name).fill_null(value=False).to_numpy())
        most = max(cores[rank] for rank in ranks.gather(rows).unique().to_list())
        activity = graph.edges.activity[own[rows]]
        if graph.activities.select("rank", "lane")[pl.Series(activity)].n_unique() <= most:
            continue
        total = _accumulated(starts[rows], ends[rows], load[rows], most)
        spent = total(ends[rows]) - total(starts[rows])
        weights = np.bincount(activity, graph.edges.work_ns[own[rows]], minlength=len(found))
        sums = np.bincount(activity, spent, minlength=len(found))
        found += np.divide(sums, weights, out=np.zeros(len(found)), where=weights > 0)
    return found


def _accumulated(starts: _Ints, ends: _Ints, load: _Floats, cores: int) -> Callable[[_Ints], _Floats]:
    """Threads per core beyond the first, summed over time up to a moment."""
    moments, number = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    change = np.bincount(number, np.concatenate([load, -load]))
    rate = np.maximum(np.cumsum(change)[:-1] / cores - 1.0, 0.0)
    # Times since the epoch have more digits than a float.
    total, since = np.concatenate([[0.0], np.cumsum(np.diff(moments) * rate)]), moments - moments[0]
    return lambda times: np.interp(times - moments[0], since, total)
