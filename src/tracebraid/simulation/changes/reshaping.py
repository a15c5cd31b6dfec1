"""A graph whose work changes with shapes: by op, by transfer, and by ranges of threads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.analysis.efficiency.rules import rule_of
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.answers.graph import SHAPE_BASIS, ShapeBasis
from tracebraid.model.collectives import CollectiveType
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, Point, Residual
from tracebraid.simulation.changes.communication import (
    Costs,
    communication_costs,
    is_work,
    said_latency,
    whole_ns,
    with_work,
    work_of,
)
from tracebraid.simulation.changes.move import asked_by, launched_by
from tracebraid.simulation.changes.new_collectives import (
    OF_ACTIVATIONS,
    RING_DOUBT,
    NewCollectives,
    with_collectives,
)
from tracebraid.simulation.scaling import Amount, Call, Rates, Scaled, amount_of, class_of, doubtful
from tracebraid.simulation.structure import REQUESTS, Run, Structure, numel_of

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_Floats = NDArray[np.float64]


class IntervalEnd(Enum):
    """End of the interval of work at another shape."""

    LOW = "low"
    HIGH = "high"


class Reshaped(Struct, frozen=True, eq=False):
    """A graph at another shape.

    Args:
        graph: with the predicted work.
        low_ns: work of each edge at least.
        high_ns: work of each edge at most.
        chosen: activities whose work depends on the shape.
        basis: `SHAPE_BASIS`, without the name of the change.
        of_parameters: new size of all parameters of a rank, over the old; ranks without a change are left out.
        of_activations: the same of activations, on all ranks.
        of_sizes: of each activity: new bytes of communication, over the old.
        of_amounts: the same of FLOPs, and of the bytes that ops read and write.
    """

    graph: DependencyGraph
    low_ns: _Ints
    high_ns: _Ints
    chosen: _Bools
    basis: pl.DataFrame
    of_parameters: Mapping[int, float]
    of_activations: float
    of_sizes: _Floats
    of_amounts: _Floats

    def at(self, end: IntervalEnd | None) -> DependencyGraph:
        """The graph with the predicted work, or with that at an end of its interval."""
        if end is None:
            return self.graph
        return with_work(self.graph, self.low_ns if end is IntervalEnd.LOW else self.high_ns)


@dataclass(eq=False)
class Reshaping:
    """Collects factors of work of a graph; of each edge at most once."""

    graph: DependencyGraph
    structure: Structure
    factors: _Floats = field(init=False)
    residual: _Floats = field(init=False)
    of_sizes: _Floats = field(init=False)
    of_amounts: _Floats = field(init=False)
    latency_ns: _Floats = field(init=False)
    rows: list[pl.DataFrame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.factors = np.ones((len(self.graph.edges), 3))
        self.residual = np.ones(len(self.graph.moments))
        self.of_sizes = np.ones(self.graph.activities.height)
        self.of_amounts = np.ones((self.graph.activities.height, 2))
        self.latency_ns = said_latency(self.graph)

    @classmethod
    def of(cls, graph: DependencyGraph) -> Reshaping:
        """Begin with a graph whose ops have shapes."""
        structure = Structure.of(graph)
        if not structure.calls:
            raise ArgumentError(
                "a change of shape needs the shapes of ops, which these traces lack: capture with record_shapes=True"
            )
        return cls(graph, structure)

    def scale(self, edges: _Ints, factors: _Floats, what: pl.Series | str, basis: pl.Series | str) -> None:
        """Scale the work of edges: factors are predicted, low and high."""
        self.factors[edges] = factors
        work = self.graph.edges.work_ns[edges]
        own = pl.DataFrame(
            {
                "activity": self.graph.edges.activity[edges],
                "before_ns": work,
                **{
                    name: whole_ns(work * factors[:, column])
                    for column, name in enumerate(("after_ns", "low_ns", "high_ns"))
                },
            }
        )
        columns = {
            name: value if isinstance(value, pl.Series) else pl.lit(value)
            for name, value in {"what": what, "basis": basis}.items()
        }
        self.rows.append(own.with_columns(**columns))

    def scale_ops(self, after: Callable[[Call, int], Amount], part: _Ints | None = None) -> None:
        """Scale ops by their amounts at the new shape, which the op and its part tell; 1: it updates parameters."""
        structure, graph = self.structure, self.graph
        works = work_activities(structure)
        part = structure.in_update.astype(np.int64) if part is None else part
        parts = int(part.max(initial=0)) + 1
        key = np.where(works, parts * structure.call + part, -1)
        amounts = [amount_of(call) for call in structure.calls]
        times = _median_times(structure, works)
        rates = Rates.of(
            [
                (call, amount, time_ns)
                for call, amount, time_ns in zip(structure.calls, amounts, times, strict=True)
                if time_ns > 0
            ],
            on_device=graph.activities.get_column("stream").is_not_null().any(),
        )
        keys = np.unique(key[key >= 0])
        every = np.where(structure.is_op & (structure.call >= 0), parts * structure.call + part, -1)
        becomes = {
            number: after(structure.calls[number // parts], number % parts)
            for number in np.union1d(keys, every[every >= 0]).tolist()
        }
        self._scale_amounts(
            every, {number: _ratio(amounts[number // parts], becomes[number]) for number in becomes}
        )
        found = [
            rates.scaled(
                structure.calls[number // parts],
                amounts[number // parts],
                becomes[number],
                float(times[number // parts]),
            )
            for number in keys.tolist()
        ]
        own = np.flatnonzero(is_work(graph) & works[graph.edges.activity])
        at = np.searchsorted(keys, key[graph.edges.activity[own]])
        factors = np.array([(each.factor, each.low, each.high) for each in found]).reshape(-1, 3)
        what = pl.Series(
            [class_of(structure.calls[number // parts]) for number in keys.tolist()], dtype=pl.String
        )
        basis = pl.Series([each.basis.value for each in found], dtype=pl.String)
        if len(own):
            self.scale(own, factors[at], what.gather(pl.Series(at)), basis.gather(pl.Series(at)))

    def _scale_amounts(self, key: _Ints, ratio: Mapping[int, tuple[float, float]]) -> None:
        """Scale FLOPs and bytes of ops by their keys, which ascend in `ratio`; -1: not an op with shapes."""
        factors = np.array([*ratio.values(), (1.0, 1.0)])
        at = np.searchsorted(np.array(list(ratio), dtype=np.int64), key)
        self.of_amounts *= factors[np.where(key >= 0, at, -1)]

    def scale_communication(self, ratio: _Floats, whole: _Bools) -> None:
        """Scale the part of transfers that depends on the size; of `whole` ones all of the time."""
        chosen = ratio != 1.0
        self.of_sizes *= ratio
        kinds = self.structure.kinds == ActivityKind.COMMUNICATION.value
        has_work = np.zeros(len(chosen), dtype=np.bool_)
        has_work[self.graph.edges.activity[is_work(self.graph) & (self.graph.edges.work_ns > 0)]] = True
        if not (chosen & kinds.to_numpy() & has_work).any():
            return
        costs = communication_costs(self.graph, chosen)
        activity = self.graph.edges.activity[costs.edges]
        self.scale_transfers(costs, np.where(whole, ratio, 1.0)[activity], ratio[activity])

    def scale_transfers(self, costs: Costs, of_alpha: _Floats, of_size: _Floats) -> None:
        """Scale latency and the rest of transfers."""
        self._set_latency(costs, costs.known, costs.alpha_ns * of_alpha)
        work = self.graph.edges.work_ns[costs.edges].astype(np.float64)
        factor = (costs.alpha_ns * of_alpha + (work - costs.alpha_ns) * of_size) / work
        basis = np.where(costs.known, ShapeBasis.FITTED.value, ShapeBasis.SCALED.value).tolist()
        scaled = [
            doubtful(each, ShapeBasis(known)) for each, known in zip(factor.tolist(), basis, strict=True)
        ]
        self.scale(
            costs.edges,
            np.array([(each.factor, each.low, each.high) for each in scaled]),
            costs.type.cast(pl.String).fill_null("communication"),
            pl.Series(basis, dtype=pl.String),
        )

    def scale_latency(self, activities: _Ints, factors: Sequence[float]) -> None:
        """Scale the latency of communication, whose time scales as a whole."""
        chosen = np.zeros(self.graph.activities.height, dtype=np.bool_)
        chosen[activities] = True
        if not (
            chosen[self.graph.edges.activity] & is_work(self.graph) & (self.graph.edges.work_ns > 0)
        ).any():
            return
        of_activity = np.ones(len(chosen))
        of_activity[activities] = factors
        costs = communication_costs(self.graph, chosen)
        self._set_latency(
            costs, costs.known, costs.alpha_ns * of_activity[self.graph.edges.activity[costs.edges]]
        )

    def _set_latency(self, costs: Costs, chosen: _Bools, alpha_ns: _Floats) -> None:
        self.latency_ns[self.graph.edges.activity[costs.edges[chosen]]] = alpha_ns[chosen]

    def retime_transfers(self, costs: Costs, chosen: _Bools, time_ns: _Floats, alpha_ns: _Floats) -> None:
        """Give some transfers the time that they take on a network, and their latency in it."""
        self._set_latency(costs, chosen, alpha_ns)
        edges = costs.edges[chosen]
        factor = time_ns[chosen] / self.graph.edges.work_ns[edges]
        ends = np.array([1.0, 1.0 - RING_DOUBT, 1.0 + RING_DOUBT])
        what = costs.type.cast(pl.String).fill_null("communication").filter(pl.Series(chosen))
        self.scale(edges, factor[:, None] * ends, what, ShapeBasis.GIVEN.value)

    def finished(
        self,
        of_parameters: Mapping[int, float],
        of_activations: float,
        added: NewCollectives | None = None,
    ) -> Reshaped:
        """The graph with all of it; see `Reshaped` for the sizes."""
        edges, moments = self.graph.edges, self.graph.moments
        work = [whole_ns(edges.work_ns * column) for column in self.factors.T]
        residual = whole_ns(moments.residual_ns * self.residual)
        quiet = replace(
            self.graph, moments=replace(moments, residual_ns=residual), latency_ns=self.latency_ns
        )
        found = [with_work(quiet, each) for each in work]
        chosen = np.zeros(self.graph.activities.height, dtype=np.bool_)
        changed = (self.factors != 1.0).any(axis=1) & is_work(self.graph)
        chosen[edges.activity[changed]] = True
        if added is not None:
            found = [
                with_collectives(each, added, time) for each, time in zip(found, added.time_ns, strict=True)
            ]
            self.rows.append(added.rows(self.graph.activities.height))
            chosen = np.r_[chosen, np.ones(len(added.behind), dtype=np.bool_)]
        table = SHAPE_BASIS.empty()
        if self.rows:
            sums = (
                pl.concat(self.rows)
                .group_by("what", "basis", maintain_order=True)
                .agg(
                    pl.col("activity").n_unique().cast(pl.Int64).alias("activities"),
                    pl.col("before_ns", "after_ns", "low_ns", "high_ns").sum(),
                )
            )
            most = pl.max_horizontal("before_ns", "after_ns")
            sums = sums.with_columns(change=pl.lit(None, dtype=pl.String))
            table = SHAPE_BASIS.conform(sums.sort(most, descending=True, maintain_order=True))
        graph, low, high = found
        return Reshaped(
            graph,
            low.edges.work_ns,
            high.edges.work_ns,
            chosen,
            table,
            of_parameters,
            of_activations,
            self.of_sizes,
            self.of_amounts,
        )


def _ratio(before: Amount, after: Amount) -> tuple[float, float]:
    """New FLOPs over old, and bytes; FLOPs that shapes alone do not tell follow the bytes."""
    of_bytes = after.size_bytes / before.size_bytes if before.size_bytes else 1.0
    return after.flops / before.flops if before.flops else of_bytes, of_bytes


def work_activities(structure: Structure) -> _Bools:
    """Activities that do the work of ops: of a rank with devices their work, else the ops that compute."""
    graph = structure.graph
    table = graph.activities.select("rank", on_device=pl.col("stream").is_not_null())
    on_device = table.get_column("on_device").to_numpy()
    has_device = table.select(pl.col("on_device").any().over("rank")).to_series().to_numpy()
    copies = structure.kinds.is_in([ActivityKind.KERNEL.value, ActivityKind.COPY.value]).to_numpy()
    computes = np.array([_computes(call) for call in structure.calls], dtype=np.bool_)
    unknown = np.array([_is_unknown(call) for call in structure.calls], dtype=np.bool_)
    known = structure.call >= 0
    at = np.maximum(structure.call, 0)
    on_host = structure.is_op & ~has_device & (computes[at] | (unknown[at] & structure.leaves))
    found: _Bools = known & np.where(on_device, copies, on_host)
    return found


def _computes(call: Call) -> bool:
    return call.family not in (None, OpFamily.VIEW, OpFamily.COLLECTIVE)


def _is_unknown(call: Call) -> bool:
    rule = rule_of(call.op)
    collective = rule is not None and rule.family is OpFamily.COLLECTIVE
    return call.family is None and not collective and re.match(REQUESTS, call.op) is None


def _median_times(structure: Structure, works: _Bools) -> _Floats:
    """Median time of each distinct op: of what it does itself, or of all that it launched; 0: it does nothing."""
    rows = structure.graph.activities.select("rank", "op_event").with_columns(
        pl.Series("call", structure.call), pl.Series("ns", work_of(structure.graph))
    )
    sums = rows.filter(pl.Series(works)).group_by("rank", "op_event", "call").agg(pl.col("ns").sum())
    medians = sums.group_by("call").agg(pl.col("ns").median())
    found = np.zeros(len(structure.calls))
    found[medians.get_column("call").to_numpy()] = medians.get_column("ns").to_numpy()
    return found


_SMALL_BYTES = 4096
"""Collectives up to this size hold no activations, but losses, counts and flags."""
_OF_GRADIENTS = tuple(
    each.value
    for each in (
        *(CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER, CollectiveType.ALL_GATHER),
        *(CollectiveType.REDUCE, CollectiveType.BROADCAST),
    )
)
_PASSES = (1, 2, 4, 8, 16)
"""Bytes of a parameter in the collectives of a step: its element has 1 to 8 bytes, and it may be gathered twice."""
_NEARLY = 0.06
"""Relative difference up to which collectives carry all parameters: losses and counters add little."""


def members(structure: Structure) -> _Bools:
    """Parts of ranks in communication."""
    found: _Bools = (structure.kinds == ActivityKind.COMMUNICATION.value).to_numpy()
    return found


def gradient_members(structure: Structure) -> _Bools:
    """Communication of gradients and parameters: a group and type has the bytes of all in a step."""
    numbers = pl.DataFrame(
        {
            "rank": list(structure.parameters),
            "numel": [numel_of(each) for each in structure.parameters.values()],
        },
        schema={"rank": pl.Int64, "numel": pl.Int64},
    )
    rows = (
        structure.graph.activities.select(
            "rank", "group", pl.col("type").cast(pl.String), pl.col("step").cast(pl.String), "size_bytes"
        )
        .with_row_index("activity")
        .filter(pl.Series(members(structure)))
        .filter(
            pl.col("type").is_in(list(_OF_GRADIENTS))
            & (pl.col("group") != OF_ACTIVATIONS).fill_null(value=True)
        )
    )
    key = ["rank", "group", "type"]
    sums = (
        rows.group_by(*key, "step")
        .agg(pl.col("size_bytes").sum())
        .group_by(key)
        .agg(pl.col("size_bytes").median())
    )
    share = pl.col("size_bytes") / pl.col("numel")
    whole = pl.any_horizontal((share / passes - 1).abs() <= _NEARLY for passes in _PASSES)
    own = sums.join(numbers, on="rank").filter((pl.col("numel") > 0) & whole)
    found = np.zeros(structure.graph.activities.height, dtype=np.bool_)
    found[rows.join(own, on=key, how="semi", nulls_equal=True).get_column("activity").to_numpy()] = True
    return found


ELEMENT_SIZES = (2, 4, 8)
"""Possible sizes of an element."""


def bytes_of_element(structure: Structure, gradients: NDArray[np.bool_]) -> int | None:
    """Size of an element of gradients, if all-reduces carry all of them."""
    numel = sum(numel_of(shapes) for shapes in structure.parameters.values())
    table = structure.graph.activities.filter(pl.Series(gradients))
    table = table.filter(pl.col("type").cast(pl.String) == CollectiveType.ALL_REDUCE.value)
    carried = table.group_by("rank", "step").agg(pl.col("size_bytes").sum())
    of_rank = carried.group_by("rank").agg(pl.col("size_bytes").median()).get_column("size_bytes").sum()
    near = round(of_rank / numel) if numel else 0
    return near if near in ELEMENT_SIZES else None


def activation_members(structure: Structure, gradients: _Bools) -> _Bools:
    """Communication of activations: what is not that of gradients and is large, or of unknown size."""
    large = (structure.graph.activities.get_column("size_bytes") > _SMALL_BYTES).fill_null(value=True)
    found: _Bools = members(structure) & ~gradients & large.to_numpy()
    return found


def scale_collectives(
    shaping: Reshaping, of_gradients: Mapping[int, float], of_others: float = 1.0, *, repeats: bool = False
) -> None:
    """Scale communication: of gradients and parameters by rank, all other that is large alike.

    Where a rank has several collectives of gradients in a step, their number follows the size of all parameters: so
    does their latency. Where it has one for each parameter, it does if the change repeats parameters.
    """
    structure, table = shaping.structure, shaping.graph.activities
    gradients = gradient_members(structure)
    ratio = np.where(activation_members(structure, gradients), of_others, 1.0)
    rank = table.get_column("rank").fill_null(-1).to_numpy()
    for own, factor in of_gradients.items():
        ratio[gradients & (rank == own)] = factor
    count = pl.col("own").sum().over("rank", "group", "type", "step")
    parameters = pl.DataFrame(
        {"rank": list(structure.parameters), "most": [len(each) for each in structure.parameters.values()]},
        schema={"rank": pl.Int64, "most": pl.Int64},
    )
    several = (
        table.select("rank", "group", "type", "step")
        .with_columns(pl.Series("own", gradients))
        .join(parameters, on="rank", how="left", maintain_order="left")
        .select(pl.col("own") & (count > 1) & (repeats | (count < pl.col("most")).fill_null(value=True)))
    )
    shaping.scale_communication(ratio, several.to_series().to_numpy())


class Range(Struct, frozen=True):
    """Positions of `host_moments` whose time scales, and what is launched there.

    Args:
        first: the first position.
        last: the last one.
        scaled: by how much.
        what: name of its row.
        host: whether the thread's time scales, too.
    """

    first: int
    last: int
    scaled: Scaled
    what: str
    host: bool = True


def range_of(structure: Structure, part: Run | slice, scaled: Scaled, what: str, host: bool = True) -> Range:
    """The range of some outermost ops."""
    outer = structure.outer
    return Range(int(outer.first[part.start]), int(outer.last[part.stop - 1]), scaled, what, host)


def scale_ranges(shaping: Reshaping, ranges: list[Range]) -> None:
    """Scale the time of threads in ranges, of the device work launched there, and of the gaps between that.

    Communication that is requested there scales as a whole, but for that of gradients and parameters.
    """
    graph, structure = shaping.graph, shaping.structure
    edges, after, moments = graph.edges, graph.after, structure.moments
    starts = graph.moments.point[moments] == Point.START
    of_moment = np.full(len(graph.moments), -1, dtype=np.int64)
    of_activity = np.full(graph.activities.height, -1, dtype=np.int64)
    for number, each in enumerate(ranges):
        of_moment[moments[each.first + 1 : each.last + 1]] = number
        part = slice(each.first, each.last + 1)
        of_activity[graph.moments.activity[moments[part][starts[part]]]] = number
    by = launched_by(graph)
    of_work = np.where((by >= 0) & ~members(structure), of_activity[np.maximum(by, 0)], -1)
    own = np.flatnonzero(members(structure) & ~gradient_members(structure))
    requests = asked_by(graph)[own]
    of_work[own] = of_activity[np.where(requests >= 0, requests, graph.ops_around(own))]
    inside = own[of_work[own] >= 0]
    shaping.scale_latency(inside, [ranges[number].scaled.factor for number in of_work[inside].tolist()])
    on_host = np.array([each.host for each in ranges], dtype=np.bool_)
    of_moment[(of_moment >= 0) & ~on_host[of_moment]] = -1
    factors = np.array([(each.scaled.factor, each.scaled.low, each.scaled.high) for each in ranges])
    shaping.of_amounts[of_activity >= 0] *= factors[of_activity[of_activity >= 0], :1]
    shaping.of_sizes[own] *= np.where(of_work[own] >= 0, factors[of_work[own], 0], 1.0)
    what, basis = (
        pl.Series(values, dtype=pl.String)
        for values in ([each.what for each in ranges], [each.scaled.basis.value for each in ranges])
    )
    of_edge = np.select(
        [edges.kind == EdgeKind.HOST, np.isin(edges.kind, (EdgeKind.DEVICE, EdgeKind.TRANSFER))],
        [of_moment[after], of_work[edges.activity]],
        -1,
    )
    scaled = np.flatnonzero(of_edge >= 0)
    at = pl.Series(of_edge[scaled])
    shaping.scale(scaled, factors[of_edge[scaled]], what.gather(at), basis.gather(at))
    behind, ahead = of_work[graph.moments.activity[after]], of_work[graph.moments.activity[edges.before]]
    gaps = np.flatnonzero((edges.kind == EdgeKind.STREAM_ORDER) & (behind >= 0) & (behind == ahead))
    shaping.factors[gaps] = factors[behind[gaps]]
    late = np.maximum(of_moment, of_work[graph.moments.activity])
    late = np.where(graph.moments.residual == Residual.BEFORE, -1, late)
    shaping.residual[late >= 0] = factors[late[late >= 0], 0]
