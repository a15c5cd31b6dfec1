"""Change communication: alpha and beta of each group and type, from the trace, and their new values."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.latencies import communication_latency
from tracebraid.model.collectives import CollectiveType
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, Residual, Ring
from tracebraid.simulation.changes.verbs import On, Value, verb

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_Floats = NDArray[np.float64]

WORK = (EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.TRANSFER)
"""Edges whose work belongs to an activity; the work of all others is a latency."""
BETWEEN_RANKS = (EdgeKind.ARRIVAL, EdgeKind.TRANSFER)
"""Edges by which communication meets other ranks."""

_MOST_NS = 2.0**62
"""Maximum total work of a graph, about 146 years, so that times in a replay fit in 64 bits."""


def is_work(graph: DependencyGraph) -> _Bools:
    """Return whether the work of each edge is what an activity does itself."""
    return np.isin(graph.edges.kind, WORK)


def work_of(graph: DependencyGraph) -> _Ints:
    """Return how long each activity works itself, in ns: of a host event without what it calls, and without waiting."""
    own = is_work(graph)
    sums = np.zeros(graph.activities.height, dtype=np.int64)
    np.add.at(sums, graph.edges.activity[own], graph.edges.work_ns[own])
    return sums


def whole_ns(times_ns: _Floats) -> _Ints:
    """Times of work, rounded to ns."""
    _check_length(float(times_ns.max(initial=0.0)))
    return np.rint(times_ns).astype(np.int64)


def _check_length(longest_ns: float) -> None:
    if not longest_ns < _MOST_NS:
        raise ArgumentError("the work would exceed 146 years, the limit of a graph: give less")


def with_work(graph: DependencyGraph, work_ns: _Ints) -> DependencyGraph:
    """Replace the work of edges."""
    _check_length(float(work_ns.sum(dtype=np.float64)))
    return replace(graph, edges=replace(graph.edges, work_ns=np.maximum(work_ns, 0)))


@verb("scale", Value.FACTOR, from_zero=True)
def scaled(graph: DependencyGraph, chosen: _Bools, factor: float) -> DependencyGraph:
    """Multiply the duration of each event."""
    edges = graph.edges
    own = is_work(graph) & chosen[edges.activity]
    work = edges.work_ns.copy()
    work[own] = whole_ns(work[own] * factor)
    return with_work(graph, work)


@verb("split", Value.COUNT)
def split(graph: DependencyGraph, chosen: _Bools, parts: float) -> DependencyGraph:
    """Divide each event into N equal parts that run at once and do not slow each other."""
    found: DependencyGraph = scaled.apply(graph, chosen, 1.0 / parts)
    return found


@verb("set", Value.TIME, from_zero=True)
def set_to(graph: DependencyGraph, chosen: _Bools, duration_ns: float) -> DependencyGraph:
    """Give each event a duration."""
    totals = np.full(graph.activities.height, duration_ns)
    return with_totals(graph, chosen, totals)


def with_totals(graph: DependencyGraph, chosen: _Bools, totals_ns: _Floats) -> DependencyGraph:
    """Set the total work of each selected activity: edges in proportion, or equally if none has work."""
    edges = graph.edges
    own = np.flatnonzero(is_work(graph) & chosen[edges.activity])
    if not len(own):
        raise ArgumentError("the selected events have no own time in the graph")
    own = own[np.argsort(edges.activity[own], kind="stable")]
    activity = edges.activity[own].astype(np.int64)
    before = work_of(graph)[activity]
    share = np.where(before > 0, edges.work_ns[own] / np.maximum(before, 1), 1.0)
    share /= np.bincount(activity, share, minlength=graph.activities.height)[activity]
    # Whole ns of the running sum, so that the parts of an activity add up to its total.
    running = np.cumsum(share * totals_ns[activity])
    begins = np.r_[True, activity[1:] != activity[:-1]]
    offset = np.maximum.accumulate(np.where(begins, running - share * totals_ns[activity], 0.0))
    reached = np.rint(running - offset)
    part = np.diff(np.r_[0.0, reached])
    part[begins] = reached[begins]
    work = edges.work_ns.copy()
    work[own] = whole_ns(part)
    return with_work(graph, work)


def drop_residuals(graph: DependencyGraph, moments: _Bools) -> DependencyGraph:
    """The graph in which some moments are no later than all that they wait for."""
    moment = graph.moments
    residual_ns = np.where(moments, 0, moment.residual_ns)
    residual = np.where(moments, Residual.NONE, moment.residual).astype(np.uint8)
    return replace(graph, moments=replace(moment, residual_ns=residual_ns, residual=residual))


_KEY = ["group", "type"]
_T = CollectiveType
_RING = (_T.ALL_REDUCE, _T.ALL_GATHER, _T.REDUCE_SCATTER, _T.ALL_TO_ALL)
"""Types of which each rank moves (n - 1) / n of the size, once or twice, in a number of turns that grows with n - 1."""
_PIPELINED = (_T.BROADCAST, _T.REDUCE)
"""Types of which each rank moves the whole size, after n - 1 turns of latency."""


class Costs(Struct, frozen=True, eq=False):
    """Latency and size parts of communication transfers.

    Args:
        edges: the edges that hold them.
        alpha_ns: of each, its latency: fitted, at most the edge's work.
        size_ns: of each, what its size takes by the fitted line; 0 if that is unknown.
        known: whether alpha is known from a fit of its group and type; else it is 0.
        size: ranks of the group; 0: unknown.
        size_bytes: bytes that it moves; 0: unknown.
        type: `CollectiveType` of each.
    """

    edges: _Ints
    alpha_ns: NDArray[np.float64]
    size_ns: NDArray[np.float64]
    known: _Bools
    size: _Ints
    size_bytes: _Floats
    type: pl.Series


def communication_costs(graph: DependencyGraph, chosen: _Bools) -> Costs:
    """The transfers of the chosen members."""
    kinds = graph.activities.get_column("kind").cast(pl.String)
    member = chosen & (kinds == ActivityKind.COMMUNICATION.value).to_numpy()
    edges = np.flatnonzero(is_work(graph) & member[graph.edges.activity] & (graph.edges.work_ns > 0))
    if not len(edges):
        raise ArgumentError("no selected event communicates; add kind=communication")
    activity = pl.Series(graph.edges.activity[edges])
    rows = graph.activities.select(pl.col("rank", "event_id", "group", "size_bytes")).with_columns(
        pl.col("group").cast(pl.String)
    )
    members = graph.ranks.members.select("rank", "event_id", "type", "group_size")
    rows = rows[activity].join(
        members.unique(["rank", "event_id"]), on=["rank", "event_id"], how="left", maintain_order="left"
    )
    rows = rows.join(communication_latency(graph.ranks), on=_KEY, how="left", maintain_order="left")
    work_ns = graph.edges.work_ns[edges]
    said = said_latency(graph)[graph.edges.activity[edges]]
    fitted, rate = (rows.get_column(name) for name in ("alpha_ns", "ns_per_byte"))
    alpha_ns = np.where(np.isnan(said), fitted.fill_null(0.0).to_numpy(), said)
    alpha_ns = np.minimum(alpha_ns, work_ns)
    size_ns = (rows.get_column("size_bytes") * rate).fill_null(0.0).to_numpy()
    of_size = ~np.isnan(said) & rate.is_null().to_numpy()
    return Costs(
        edges,
        alpha_ns,
        np.where(of_size, work_ns - alpha_ns, size_ns),
        ~np.isnan(said) | fitted.is_not_null().to_numpy(),
        rows.get_column("group_size").fill_null(0).to_numpy(),
        rows.get_column("size_bytes").fill_null(0).cast(pl.Float64).to_numpy(),
        rows.get_column("type"),
    )


@verb("bandwidth", Value.FACTOR, on=On.TRANSFERS, error=0.2)
def with_bandwidth(graph: DependencyGraph, chosen: _Bools, factor: float) -> DependencyGraph:
    """Multiply the bandwidth of communication: what its size takes by the fitted line is divided by it."""
    costs = communication_costs(graph, chosen)
    return _recosted(graph, costs, np.ones(len(costs.edges)), np.full(len(costs.edges), 1.0 / factor))


@verb("latency", Value.FACTOR, from_zero=True, on=On.TRANSFERS, error=0.2)
def with_latency(graph: DependencyGraph, chosen: _Bools, factor: float) -> DependencyGraph:
    """Multiply the latency of communication: `alpha * factor + (time - alpha)`."""
    costs = communication_costs(graph, chosen)
    if not costs.known.any():
        raise ArgumentError(
            "the latency of the selected events is unknown: a fit needs collectives of one group and type in "
            "several sizes, see tracebraid analyze collective-fit"
        )
    return _recosted(graph, costs, np.full(len(costs.edges), factor), np.ones(len(costs.edges)))


@verb(
    "ranks",
    Value.COUNT,
    on=On.TRANSFERS,
    error=0.2,
    unexported="groups keep their ranks; data-parallel FROM->TO adds some",
)
def of_group_size(graph: DependencyGraph, chosen: _Bools, ranks: float) -> DependencyGraph:
    """Give process groups N ranks; added ones are as fast as the others.

    Ring formulas: alpha grows with n - 1, the rest with (n - 1) / n, of broadcasts and reduces not at all; one rank
    does not communicate. Sizes stay, as those of data parallel replicas do; sends and receives stay.
    """
    costs = communication_costs(graph, chosen)
    return _recosted(graph, costs, *ring_factors(costs, ranks))


def ring_factors(costs: Costs, ranks: float) -> tuple[_Floats, _Floats]:
    """Factors of latency and of the rest of each transfer, if its group had N ranks, by ring formulas."""
    ring, pipelined = (
        costs.type.is_in([kind.value for kind in kinds]).fill_null(value=False).to_numpy()
        for kinds in (_RING, _PIPELINED)
    )
    applies = (costs.size > 1) & (ring | pipelined)
    if not applies.any():
        raise ArgumentError("no selected event is a collective of a group of known size")
    size = np.maximum(costs.size, 2)
    of_alpha = np.where(applies, (ranks - 1) / (size - 1), 1.0)
    of_size = np.where(applies & ring, ((ranks - 1) / ranks) / ((size - 1) / size), 1.0)
    return of_alpha, np.where(applies & (ranks == 1), 0.0, of_size)


def ring_ns(network: Ring, ranks: float, size_bytes: _Floats, turns: float | _Floats = 2.0) -> _Floats:
    """Time of collectives of N ranks round a ring: in each turn all data, in N parts, passes N - 1 links.

    An all-reduce takes two turns, of which the first reduces; others take one.
    """
    found: _Floats = (
        turns * (ranks - 1) * (network.latency_ns + 1e9 * size_bytes / ranks / network.bytes_per_s)
    )
    return found


def collective_ns(costs: Costs, network: Ring, ranks: int, size_bytes: _Floats) -> _Floats:
    """Time of each transfer on a network, if its group had N ranks; a broadcast or reduce passes all links at once."""
    turns = np.where(costs.type == CollectiveType.ALL_REDUCE.value, 2.0, 1.0)
    pipelined = costs.type.is_in([kind.value for kind in _PIPELINED]).fill_null(value=False).to_numpy()
    on_ring = ring_ns(network, ranks, size_bytes, turns)
    whole = (ranks - 1) * network.latency_ns + 1e9 * size_bytes / network.bytes_per_s
    return np.where(pipelined, whole, on_ring)


def said_latency(graph: DependencyGraph) -> _Floats:
    """Latency of the transfers of each activity, where a change said it; NaN: as fitted."""
    return np.pad(
        graph.latency_ns, (0, graph.activities.height - len(graph.latency_ns)), constant_values=np.nan
    )


def _recosted(
    graph: DependencyGraph, costs: Costs, of_alpha: NDArray[np.float64], of_size: NDArray[np.float64]
) -> DependencyGraph:
    """The graph in which latency, and what sizes take, are multiplied; delays stay, unless both of them vanish."""
    work = graph.edges.work_ns.copy()
    behind_ns = work[costs.edges] - costs.alpha_ns
    size_ns = np.where(costs.known, np.minimum(costs.size_ns, behind_ns), behind_ns)
    delays_ns = np.where((of_alpha == 0) & (of_size == 0), 0, behind_ns - size_ns)
    found = costs.alpha_ns * of_alpha + size_ns * of_size + delays_ns
    work[costs.edges] = whole_ns(found)
    latency = said_latency(graph)
    latency[graph.edges.activity[costs.edges[costs.known]]] = (costs.alpha_ns * of_alpha)[costs.known]
    return replace(with_work(graph, work), latency_ns=latency)
