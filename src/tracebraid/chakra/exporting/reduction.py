"""Transitive reduction of a graph that is in topological order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heappop, heappush

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.chakra.codes import NodeType
from tracebraid.chakra.exporting.tasks import DELAY
from tracebraid.chakra.schema import CHAKRA_NODES, ChakraRank, NodeDeps
from tracebraid.errors import ArgumentError
from tracebraid.model.expressions import as_text
from tracebraid.model.quantities import NS_PER_US
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_CLOCK_ENTRIES = 1 << 24
"""Maximum memory for clocks: 64 MiB of 32-bit rows. Wider graphs take several passes."""
_MOST_PASSES = 64
"""Over all nodes. 64 passes are 5,000 chains at once in a graph of 200,000 nodes; threads and streams of real ranks
are some ten."""


class Reduction(Struct, frozen=True, eq=False):
    """Return the transitively reduced edges.

    Args:
        before: row of each dependency that remains, by the row that waits, then by itself.
        after: the row that waits.
        implied: dependencies that others imply, which were left out; those that were there twice among them.
        untested: dependencies that remain without having been tested, for the graph is too wide: they do no harm.
    """

    before: _Ints
    after: _Ints
    implied: int
    untested: int


def reduced(before: _Ints, after: _Ints, lane: _Ints) -> Reduction:
    """The dependencies without those that others imply: of a graph without cycles, there is exactly one such set.

    A chain is a path of dependencies. For each node and chain, the latest node of the chain that it waits for, over
    any others, is known from those that it depends on: a vector clock. A dependency is implied where another one of
    the same node has waited for it or for a later node of its chain. Chains that are not tested at the same time
    share an entry of the clocks.
    """
    order = np.lexsort((-before, after))
    before, after = before[order], after[order]
    new = np.ones(len(before), dtype=np.bool_)
    new[1:] = (before[1:] != before[:-1]) | (after[1:] != after[:-1])
    before, after = before[new], after[new]
    first = np.zeros(len(lane) + 1, dtype=np.int64)
    np.cumsum(np.bincount(after, minlength=len(lane)), out=first[1:])
    # The latest dependency of a node is never implied: what implied it would lie behind it.
    tested = np.ones(len(before), dtype=np.bool_)
    tested[first[:-1][first[:-1] < first[1:]]] = False
    chain: _Ints = _chains(first, before, lane)
    entry, entries = _clock_entries(chain, before[tested], after[tested])
    at_once = max(1, _CLOCK_ENTRIES // max(1, len(lane)))
    implied = np.zeros(len(before), dtype=np.bool_)
    for low in range(0, min(entries, _MOST_PASSES * at_once), at_once):
        _mark_implied((first, before), tested, entry - low, min(at_once, entries - low), implied)
    untested = int(np.sum(entry[before[tested]] >= _MOST_PASSES * at_once))
    back = np.flatnonzero(~implied)
    back = back[np.lexsort((before[back], after[back]))]
    return Reduction(before[back], after[back], len(new) - len(back), untested)


@native_loop
def _chains(first: _Ints, before: _Ints, lane: _Ints) -> _Ints:
    """The chain of each row: that of a dependency which ends one, on the same lane if possible; else a new one."""
    chain = np.empty(len(lane), dtype=np.int64)
    is_end = np.ones(len(lane), dtype=np.bool_)
    chains = 0
    for row in range(len(lane)):
        found = -1
        # By descending row: the earliest is taken, for the latest is the call that a thread goes on from.
        for edge in range(first[row], first[row + 1]):
            other = before[edge]
            if is_end[other] and (found < 0 or lane[found] != lane[row] or lane[other] == lane[row]):
                found = other
        if found >= 0:
            is_end[found] = False
            chain[row] = chain[found]
        else:
            chain[row] = chains
            chains += 1
    return chain


def _clock_entries(chain: _Ints, before: _Ints, after: _Ints) -> tuple[_Ints, int]:
    """The clocks' entry of each row that a dependency under test waits for, else -1; and how many entries there are.

    An entry passes to another chain when no node of the former is tested any more: rows of the next are higher.
    """
    entry = np.full(len(chain), -1, dtype=np.int64)
    if not len(before):
        return entry, 0
    tested = np.unique(chain[before])
    begins = np.full(len(tested), len(chain), dtype=np.int64)
    ends = np.zeros(len(tested), dtype=np.int64)
    number = np.searchsorted(tested, chain[before])
    np.minimum.at(begins, number, before)
    np.maximum.at(ends, number, after)
    order = np.argsort(begins, kind="stable")
    held: list[tuple[int, int]] = []
    given = np.empty(len(tested), dtype=np.int64)
    entries = 0
    for at, begin, end in zip(order.tolist(), begins[order].tolist(), ends[order].tolist(), strict=True):
        # A node that is tested last may begin the next chain: its own row is not yet in its clock then.
        if held and held[0][0] <= begin:
            own = heappop(held)[1]
        else:
            own, entries = entries, entries + 1
        given[at] = own
        heappush(held, (end, own))
    entry[before] = given[number]
    return entry, entries


@native_loop
def _mark_implied(
    deps: tuple[_Ints, _Ints], tested: _Flags, entry: _Ints, entries: int, implied: _Flags
) -> None:
    """Mark the dependencies under test, on the chains of these entries, that are implied.

    A clock's entry is the latest row under test on the chain that holds the entry, and -1 if there is none.
    """
    first, before = deps
    nodes = len(first) - 1
    clocks = np.full((nodes, entries), -1, dtype=np.int32)
    for row in range(nodes):
        clock = clocks[row]
        for edge in range(first[row], first[row + 1]):
            other = before[edge]
            own = entry[other]
            is_held = 0 <= own < entries
            if is_held and tested[edge] and clock[own] >= other:
                implied[edge] = True
                continue
            for at in range(entries):
                if clocks[other, at] > clock[at]:
                    clock[at] = clocks[other, at]
            if is_held and other > clock[own]:
                clock[own] = other


_COMMUNICATES = tuple(
    kind.name for kind in (NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)
)


class LaneBorders(Struct, frozen=True, eq=False):
    """Starts and ends of lanes.

    Args:
        first: of each node whether it waits for no other one of its lane, over any others.
        last: of each node whether no other one of its lane waits for it.
    """

    first: _Flags
    last: _Flags


def node_lanes(nodes: pl.DataFrame) -> tuple[_Ints, int]:
    """The lane of each node, from 0 up, and how many there are: all communication of the rank is one."""
    communicates = as_text("type").is_in(_COMMUNICATES)
    keys = nodes.select(
        communicates.alias("communicates"),
        *(pl.when(~communicates).then(pl.col(name)).alias(name) for name in ("thread", "stream")),
    )
    rank = keys.select(pl.struct(keys.columns).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    return rank, int(rank.max(initial=-1)) + 1


def lane_borders(first: _Ints, before: _Ints, lane: _Ints, lanes: int) -> LaneBorders:
    """The first and the last nodes of each lane: nothing of it is before them, or behind them."""
    no_first, no_last = np.zeros(len(lane), dtype=np.bool_), np.zeros(len(lane), dtype=np.bool_)
    for number in range(lanes):
        _mark(first, before, lane == number, no_first, no_last)
    return LaneBorders(~no_first, ~no_last)


@native_loop
def _mark(first: _Ints, before: _Ints, own: _Flags, no_first: _Flags, no_last: _Flags) -> None:
    """Mark the nodes of a lane that have a predecessor, and those that have a successor."""
    count = len(own)
    reached = np.zeros(count, dtype=np.bool_)
    for row in range(count):
        for edge in range(first[row], first[row + 1]):
            if own[before[edge]] or reached[before[edge]]:
                reached[row] = True
        if own[row] and reached[row]:
            no_first[row] = True
    reached[:] = False
    for back in range(count):
        row = count - 1 - back
        if own[row] and reached[row]:
            no_last[row] = True
        if own[row] or reached[row]:
            for edge in range(first[row], first[row + 1]):
                reached[before[edge]] = True


_HALF_US_NS = NS_PER_US // 2
OUTSIDE_STEPS = "dependencies_outside_steps"
"""Metadata attribute that counts dependencies outside the selected steps."""


class Beginning(Struct, frozen=True, eq=False):
    """State of a rank at the start of the chosen steps: what lies before them and is still waited for, or goes on.

    Args:
        begins_ns: the start of the steps, on the rank's clock.
        row: chosen nodes that wait for something before the steps which ends after they begin.
        release_ns: when it ends.
        cut_ns: the part of each chosen node that lies before the start of the steps.
    """

    begins_ns: int
    row: _Ints
    release_ns: _Ints
    cut_ns: _Ints


def in_chosen_steps(rank: ChakraRank, steps: Sequence[str], left_out: Collection[str] = ()) -> ChakraRank:
    """Keep the nodes issued in some steps and between them, renumbered; earlier dependencies are dropped.

    What lies between them but belongs to an earlier or later step, which a step may overlap, is a delay.

    Where a chosen step waited for another one over nodes between them, it still does, lane by lane: its nodes wait for
    the last node of each thread, stream or communication that they waited for so.
    """
    kept = _chosen(rank, steps, left_out)
    lane, lanes = node_lanes(rank.nodes)
    first, before = rank.data_deps.first, rank.data_deps.node_id
    after = rank.data_deps.rows()
    outside = int(np.count_nonzero(kept[after] & ~kept[before]))
    inside = kept[after] & kept[before]
    pairs = [(before[inside], after[inside])]
    for number in range(lanes if outside else 0):
        latest: _Ints = _latest_over(first, before, (kept, lane == number))
        rows = np.flatnonzero(kept & (latest >= 0))
        pairs.append((latest[rows], rows))
    row = np.cumsum(kept) - 1
    pair = [row[np.concatenate(part)] for part in zip(*pairs, strict=True)]
    found = reduced(pair[0], pair[1], lane[kept])
    count = int(np.count_nonzero(kept))
    return replace(
        rank,
        attributes=(*rank.attributes, ("steps", ", ".join(steps)), (OUTSIDE_STEPS, outside)),
        nodes=_delays_of_others(rank.nodes.filter(pl.Series(kept)), steps),
        data_deps=NodeDeps.of_pairs(found.before, found.after, np.arange(count)),
        ctrl_deps=NodeDeps.none(count),
        spans_ns=None if rank.spans_ns is None else (rank.spans_ns[0][kept], rank.spans_ns[1][kept]),
    )


def _delays_of_others(nodes: pl.DataFrame, steps: Sequence[str]) -> pl.DataFrame:
    """Number the kept nodes, those of steps that are not chosen as delays."""
    is_other = ~as_text("step").is_in(list(steps)).fill_null(value=True)
    delay = {"name": DELAY, "kind": DELAY}
    kept = ("type", "duration_micros", "duration_ns", "start_time_micros", "is_cpu_op", "stream", "thread")
    return nodes.with_columns(
        pl.when(~is_other).then(pl.col(name)).otherwise(pl.lit(delay.get(name), dtype=dtype)).alias(name)
        for name, dtype in nodes.schema.items()
        if name not in kept
    ).with_columns(node_id=pl.int_range(pl.len(), dtype=pl.Int64))


def _chosen(rank: ChakraRank, steps: Sequence[str], left_out: Collection[str]) -> _Flags:
    """Boolean mask of the nodes of some steps, and of others between them but for those of steps left out there."""
    step = as_text("step")
    flags = rank.nodes.select(
        step.is_in(list(steps)).fill_null(value=False).alias("chosen"),
        (~step.is_in([*steps, *left_out])).fill_null(value=True).alias("free"),
    )
    chosen, free = (flags.get_column(name).to_numpy() for name in ("chosen", "free"))
    found: _Flags = chosen | _between(rank.data_deps.first, rank.data_deps.node_id, chosen, free)
    return found


@native_loop
def _between(first: _Ints, before: _Ints, chosen: _Flags, free: _Flags) -> _Flags:
    """Mark free nodes that lie behind a chosen node and before another, with nothing but free nodes between."""
    count = len(chosen)
    behind, ahead = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    for row in range(count):
        for edge in range(first[row], first[row + 1]):
            if free[row] and (chosen[before[edge]] or behind[before[edge]]):
                behind[row] = True
    for back in range(count):
        row = count - 1 - back
        for edge in range(first[row], first[row + 1]):
            if free[before[edge]] and (chosen[row] or ahead[row]):
                ahead[before[edge]] = True
    return behind & ahead


def beginning_of_steps(
    rank: ChakraRank, steps: Sequence[str], begins_ns: int, left_out: Collection[str] = ()
) -> Beginning:
    """Find what of a whole rank lies before the chosen steps and matters to them."""
    assert rank.spans_ns is not None, "nodes that were made of a trace have their times"
    kept, (start_ns, end_ns) = _chosen(rank, steps, left_out), rank.spans_ns
    release_ns = _releases(rank.data_deps.first, rank.data_deps.node_id, kept, end_ns)[kept]
    row = np.flatnonzero(release_ns > begins_ns)
    communicates = rank.nodes.select(as_text("type").is_in(_COMMUNICATES)).to_series().to_numpy()
    lasts_ns = rank.nodes.get_column("duration_ns").to_numpy()
    cut_ns = np.where(communicates, 0, np.clip(begins_ns - start_ns, 0, lasts_ns))
    return Beginning(begins_ns, row, release_ns[row], cut_ns[kept])


@native_loop
def _releases(first: _Ints, before: _Ints, kept: _Flags, end_ns: _Ints) -> _Ints:
    """Latest end of what a kept node waits for before all kept ones, if it ends last of all that it waits for."""
    count = len(kept)
    follows = np.zeros(count, dtype=np.bool_)
    found = np.full(count, np.iinfo(np.int64).min, dtype=np.int64)
    for row in range(count):
        latest = found[row]
        for edge in range(first[row], first[row + 1]):
            other = before[edge]
            if kept[other] or follows[other]:
                follows[row] = True
                latest = max(latest, end_ns[other])
            else:
                found[row] = max(found[row], end_ns[other])
        if latest >= found[row]:
            found[row] = np.iinfo(np.int64).min
    return found


def begun(rank: ChakraRank, beginning: Beginning) -> ChakraRank:
    """Put delays before the chosen steps, which end when what lies before the steps does, and cut what goes on.

    Those of a thread, stream or communication follow each other, so that each has a lane for itself in a simulator,
    too. Of repeated nodes the first time has them.
    """
    nodes, row = rank.nodes, beginning.row
    lane, _ = node_lanes(nodes)
    order = np.lexsort((row, beginning.release_ns, lane[row]))
    row, release_ns = row[order], beginning.release_ns[order]
    same_lane = np.r_[False, lane[row][1:] == lane[row][:-1]][: len(row)]
    start_ns = np.where(same_lane, np.r_[0, release_ns[:-1]][: len(row)], beginning.begins_ns)
    count, number = len(row), np.arange(len(row))
    delays = (
        nodes[pl.Series(row)]
        .select("step", "is_cpu_op", "thread", "stream")
        .with_columns(
            pl.lit(DELAY).alias("name"),
            pl.lit(DELAY).alias("kind"),
            pl.lit(NodeType.COMP_NODE.name).alias("type"),
            duration_ns=pl.Series(release_ns - start_ns),
        )
    )
    cut = pl.Series(np.r_[beginning.cut_ns, np.zeros(nodes.height - len(beginning.cut_ns), dtype=np.int64)])
    shorter = nodes.with_columns(duration_ns=pl.col("duration_ns") - cut)
    micros = (pl.col("duration_ns") + _HALF_US_NS) // NS_PER_US
    both = pl.concat(
        [
            CHAKRA_NODES.conform(
                delays.with_columns(duration_micros=micros, start_time_micros=0), fill_missing=True
            ),
            shorter.with_columns(duration_micros=pl.when(cut > 0).then(micros).otherwise("duration_micros")),
        ]
    )
    deps, chained = rank.data_deps, number[same_lane]
    before = np.r_[chained - 1, number, deps.node_id + count]
    after = np.r_[chained, row + count, deps.rows() + count]
    spans_ns = rank.spans_ns
    return replace(
        rank,
        nodes=both.with_columns(node_id=pl.int_range(both.height, dtype=pl.Int64)),
        data_deps=NodeDeps.of_pairs(before, after, np.arange(both.height)),
        ctrl_deps=NodeDeps.none(both.height),
        spans_ns=None if spans_ns is None else (np.r_[start_ns, spans_ns[0]], np.r_[release_ns, spans_ns[1]]),
    )


@native_loop
def _latest_over(first: _Ints, before: _Ints, chosen: tuple[_Flags, _Flags]) -> _Ints:
    """Latest kept node of a lane that each node depends on through dropped nodes; else -1."""
    kept, on_lane = chosen
    count = len(kept)
    found = np.full(count, -1, dtype=np.int64)
    for row in range(count):
        for edge in range(first[row], first[row + 1]):
            other = before[edge]
            if kept[other]:
                # What is kept is waited for as it is, but by those that are not.
                if not kept[row] and on_lane[other] and other > found[row]:
                    found[row] = other
            elif found[other] > found[row]:
                found[row] = found[other]
    return found


_HIGHEST_TAG = 2**31 - 1
"""Tags are read as 32 bits by older readers."""


def repeated(rank: ChakraRank, times: int) -> ChakraRank:
    """Repeat the nodes: each thread, stream and communication continues after its previous repetition.

    Steps of the second time are named `ProfilerStep#3 (2)`, and so on. Tags of sends and receives are other ones each
    time, by the same rule on all ranks.
    """
    if times < 1:
        raise ArgumentError(f"{times} is not a valid number of repeats; give 1 or more")
    if times == 1:
        return rank
    nodes = rank.nodes
    _check_tags(nodes, times)
    count, number = nodes.height, np.repeat(np.arange(times), nodes.height)
    found = pl.concat([nodes] * times).with_columns(
        pl.Series("_time", number),
        node_id=pl.int_range(times * count, dtype=pl.Int64),
    )
    span_us = _span_micros(nodes)
    again = pl.col("_time") > 0
    named = pl.format("{} ({})", as_text("step"), pl.col("_time") + 1)
    found = found.with_columns(
        pl.when(again).then(named).otherwise(as_text("step")).cast(nodes.schema["step"]).alias("step"),
        comm_tag=pl.col("comm_tag") * times + pl.col("_time"),
        start_time_micros=pl.col("start_time_micros") + pl.col("_time") * span_us,
    )
    return replace(
        rank,
        attributes=(*rank.attributes, ("repeat", times)),
        nodes=found.select(nodes.columns),
        data_deps=_deps(rank, times),
        ctrl_deps=NodeDeps.none(times * count),
        spans_ns=None,
    )


def _check_tags(nodes: pl.DataFrame, times: int) -> None:
    highest = nodes.get_column("comm_tag").drop_nulls().to_numpy().max(initial=0)
    if (int(highest) + 1) * times - 1 > _HIGHEST_TAG:
        raise ArgumentError(
            f"tag {highest} times {times} is more than {_HIGHEST_TAG}, the highest tag of a send; repeat it less often"
        )


def _span_micros(nodes: pl.DataFrame) -> int:
    """Return how long the nodes take, by their starts."""
    ends = nodes.select(pl.col("start_time_micros") + pl.col("duration_micros")).to_series().drop_nulls()
    return int(ends.to_numpy().max(initial=0))


def _deps(rank: ChakraRank, times: int) -> NodeDeps:
    """The dependencies of each time, and those of the first nodes of a lane on its last ones of the time before."""
    count, deps = rank.nodes.height, rank.data_deps
    lane, lanes = node_lanes(rank.nodes)
    borders = lane_borders(deps.first, deps.node_id, lane, lanes)
    before, after = [deps.node_id], [deps.rows()]
    firsts, lasts = np.flatnonzero(borders.first), np.flatnonzero(borders.last)
    between = [
        (np.repeat(last, len(first)), np.tile(first + count, len(last)))
        for last, first in (
            (lasts[lane[lasts] == each], firsts[lane[firsts] == each]) for each in range(lanes)
        )
    ]
    before += [pair[0] for pair in between]
    after += [pair[1] for pair in between]
    # Twice is enough to see what implies what; it is the same from each time to the next.
    twice = reduced(
        np.r_[np.concatenate(before), deps.node_id + count],
        np.r_[np.concatenate(after), deps.rows() + count],
        np.r_[lane, lane],
    )
    again = twice.after >= count
    own_before, own_after = twice.before[~again], twice.after[~again]
    shift = np.repeat(np.arange(times - 1) * count, int(np.count_nonzero(again)))
    return NodeDeps.of_pairs(
        np.r_[own_before, np.tile(twice.before[again], times - 1) + shift],
        np.r_[own_after, np.tile(twice.after[again], times - 1) + shift],
        np.arange(times * count),
    )
