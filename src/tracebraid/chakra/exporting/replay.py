"""Replay the nodes of a job, and compare them with the measured times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.codes import NodeType
from tracebraid.chakra.schema import ChakraRank
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import as_text
from tracebraid.native.loops import native_loop

MOST_ERROR_NS = 20_000
"""Error bound of a rank's step: ten times the effect of rounding to microseconds on captured jobs."""
MOST_ERROR_SHARE = 0.001
"""Error bound as a share of the measured time, if that is more."""
CHAKRA_REPLAY = Table(
    "chakra_replay",
    "One row per step of a simulated rank, and one for all of it: what its nodes take by themselves. Each starts when "
    "all that it waits for has ended, and takes its `duration_ns`; members of a collective begin when the last is "
    "there.",
    (
        Column("rank", Kind.INT, "the simulated rank"),
        Column("step", Kind.NAME, "the step, from the end of the one before it; null: all of the rank"),
        Column("measured_ns", Kind.INT, "measured time in the trace; null: no such step was measured"),
        Column("replayed_ns", Kind.INT, "time in the replay; null: it never ends"),
    ),
)


class NotCompared(str, Enum):
    """Why a step has no replay error."""

    NOT_MEASURED = "not-measured"
    """Steps that are not exported lie between it and others that are, or a stage of a pipeline was not traced."""
    NEVER_ENDS = "never-ends"


class ReplayedStep(Struct, frozen=True):
    """A step of a rank, or all of a rank.

    Args:
        rank: the simulated rank.
        step: its name; None: all of the rank.
        measured_ns: measured time in the trace; None: no such step was measured.
        replayed_ns: what it takes in the replay; None: it never ends.
    """

    rank: int
    step: str | None
    measured_ns: int | None
    replayed_ns: int | None

    @property
    def not_compared(self) -> NotCompared | None:
        """Return why there is no error; None: there is."""
        if self.replayed_ns is None:
            return NotCompared.NEVER_ENDS
        return NotCompared.NOT_MEASURED if self.measured_ns is None else None

    @property
    def error_ns(self) -> int | None:
        """Return the error of the replay in ns; None: see `not_compared`."""
        if self.replayed_ns is None or self.measured_ns is None:
            return None
        return self.replayed_ns - self.measured_ns

    @property
    def error_share(self) -> float | None:
        """The error as a share of the measured time; None: there is no error, or it took no time."""
        if self.error_ns is None or self.measured_ns is None or self.measured_ns <= 0:
            return None
        return self.error_ns / self.measured_ns

    @property
    def is_within(self) -> bool:
        """Return whether the error is at most `MOST_ERROR_NS`, or `MOST_ERROR_SHARE` of the measured time.

        What ends and cannot be compared is not beyond it.
        """
        most = max(MOST_ERROR_NS, MOST_ERROR_SHARE * (self.measured_ns or 0))
        if self.error_ns is None:
            return self.replayed_ns is not None
        return abs(self.error_ns) <= most


class ChakraReplay(Struct, frozen=True, eq=False):
    """The replay of an exported Chakra trace, held against the run that it was made of.

    Args:
        steps: `CHAKRA_REPLAY`.
    """

    steps: pl.DataFrame

    def __repr__(self) -> str:
        """Return a short description."""
        return f"ChakraReplay(worst={self.worst}, is_within={self.is_within})"

    @property
    def rows(self) -> Sequence[ReplayedStep]:
        """The rows as objects."""
        return [ReplayedStep(*row) for row in self.steps.cast({"step": pl.String}).iter_rows()]

    @property
    def worst(self) -> ReplayedStep | None:
        """The step of a rank with the largest error, one that never ends before all; None: nothing is compared."""
        known = [row for row in self.rows if row.not_compared is not NotCompared.NOT_MEASURED]
        return max(known, key=_badness, default=None)

    @property
    def beyond(self) -> Sequence[ReplayedStep]:
        """The rows with an error beyond its bound, the worst first."""
        return sorted((row for row in self.rows if not row.is_within), key=_badness, reverse=True)

    @property
    def is_within(self) -> bool:
        """Return whether each error is within its bound."""
        return not self.beyond

    def facts(self) -> dict[str, object]:
        """The same for `export.json`."""
        worst = self.worst
        return {
            "most_error_ns": MOST_ERROR_NS,
            "most_error_share": MOST_ERROR_SHARE,
            "is_within": self.is_within,
            "worst": None if worst is None else _fact(worst),
            "steps": [_fact(row) for row in self.rows],
        }


def _badness(row: ReplayedStep) -> tuple[bool, bool, int]:
    """Sort key: errors beyond the bound are worse than others, whatever the error in ns."""
    return row.error_ns is None, not row.is_within, abs(row.error_ns or 0)


def _fact(row: ReplayedStep) -> dict[str, object]:
    return {
        "rank": row.rank,
        "step": row.step,
        "measured_ns": row.measured_ns,
        "replayed_ns": row.replayed_ns,
        "error_ns": row.error_ns,
        "error_share": row.error_share,
        "not_compared": None if row.not_compared is None else row.not_compared.value,
    }


_Ints = NDArray[np.int64]
_Ids = NDArray[np.int32]
_FOREVER = np.iinfo(np.int64).max
_COLLECTIVE, _SEND, _RECEIVE = 0, 1, 2
_ROLES = {
    NodeType.COMM_COLL_NODE.name: _COLLECTIVE,
    NodeType.COMM_SEND_NODE.name: _SEND,
    NodeType.COMM_RECV_NODE.name: _RECEIVE,
}


class ReplayPart(Struct, frozen=True, eq=False):
    """Node data for a replay; arrays have an entry for each node, except `before`.

    Args:
        rank: the simulated rank.
        duration_ns: its duration.
        first: where what it waits for begins in `before`; one entry more than there are nodes.
        before: the nodes that are waited for, which stand before those that wait.
        end_ns: its measured end, since the rank begins; None: it was not measured.
        step: its place in `steps`; -1: none.
        steps: the names of the steps.
        communication: `node`, `role`, `pg_name`, `comm_src`, `comm_dst`, `comm_tag`, `comm_size` of the nodes that
            communicate, by node.
    """

    rank: int
    duration_ns: _Ints
    first: _Ids
    before: _Ids
    end_ns: _Ints | None
    step: _Ids
    steps: tuple[str, ...]
    communication: pl.DataFrame


def replay_part(rank: ChakraRank, begins_ns: int | None = None) -> ReplayPart:
    """Extract a rank's data for a replay, which begins with its first node or at another time of its clock."""
    nodes, deps = rank.nodes, rank.data_deps
    measured_ns = None
    if rank.spans_ns is not None:
        start_ns, end_ns = rank.spans_ns
        measured_ns = end_ns - (start_ns.min(initial=_FOREVER) if begins_ns is None else begins_ns)
    names = nodes.get_column("step").drop_nulls().cast(pl.String).unique(maintain_order=True).to_list()
    codes = as_text("step").replace_strict(names, list(range(len(names))), default=-1, return_dtype=pl.Int32)
    communication = (
        nodes.select(
            pl.int_range(pl.len()).alias("node"),
            as_text("type").replace_strict(_ROLES, default=None, return_dtype=pl.Int64).alias("role"),
            as_text("pg_name").fill_null("0"),
            *("comm_src", "comm_dst", "comm_tag", "comm_size"),
        )
        .drop_nulls("role")
        .with_columns(pl.lit(rank.rank, dtype=pl.Int64).alias("rank"))
    )
    return ReplayPart(
        rank.rank,
        nodes.get_column("duration_ns").to_numpy(),
        deps.first.astype(np.int32),
        deps.node_id.astype(np.int32),
        measured_ns,
        nodes.select(codes).to_series().to_numpy() if names else np.full(nodes.height, -1, dtype=np.int32),
        tuple(names),
        communication,
    )


def replayed(
    parts: Sequence[ReplayPart],
    groups: Mapping[str, Sequence[int]],
    single_lane: bool,
    behind_gap: Collection[str] = (),
) -> ChakraReplay:
    """The times of steps in a replay, held against measured ones but for those behind steps that are not there."""
    communication = _slots(parts, groups)
    begin = np.cumsum([0, *(len(part.duration_ns) for part in parts)])
    deps = np.cumsum([0, *(len(part.before) for part in parts)])
    by_rank = np.searchsorted(communication.get_column("rank").to_numpy(), np.arange(len(parts) + 1))
    columns = ("node", "role", "slot", "expected")
    node_of, role, slot, expected = (communication.get_column(name).to_numpy() for name in columns)
    ends = _ends(
        (begin, deps, by_rank),
        (
            np.concatenate([part.duration_ns for part in parts]),
            np.concatenate([part.first[:-1] for part in parts]),
            np.concatenate([part.before for part in parts]),
        ),
        (node_of, role, slot, expected),
        single_lane,
    )
    rows = [
        row
        for part, first, last in zip(parts, begin[:-1].tolist(), begin[1:].tolist(), strict=True)
        for row in _steps(part, ends[first:last], behind_gap)
    ]
    return ChakraReplay(
        CHAKRA_REPLAY.conform(pl.DataFrame(rows, schema=[*CHAKRA_REPLAY.polars_schema()], orient="row"))
    )


def _slots(parts: Sequence[ReplayPart], groups: Mapping[str, Sequence[int]]) -> pl.DataFrame:
    """Return the communication of all ranks, by rank and node, with `slot`, whose members meet, and `expected` members.

    The nth collective of a rank in a group meets the nth ones of the others, the nth send the nth receive.
    """
    sizes = {"0": len(parts), **{name: len(ranks) for name, ranks in groups.items()}}
    found = pl.concat([part.communication for part in parts])
    is_collective = pl.col("role") == _COLLECTIVE
    channel = (
        pl.when(is_collective).then("pg_name"),
        pl.when(is_collective).then(-1).when(pl.col("role") == _SEND).then("rank").otherwise("comm_src"),
        pl.when(is_collective).then(-1).when(pl.col("role") == _SEND).then("comm_dst").otherwise("rank"),
        pl.when(~is_collective).then("comm_tag"),
        pl.when(~is_collective).then("comm_size"),
    )
    names = [f"channel_{number}" for number in range(len(channel))]
    found = found.with_columns(each.alias(name) for each, name in zip(channel, names, strict=True))
    return (
        found.with_columns(nth=pl.int_range(pl.len()).over(*names, "rank", "role"))
        .with_columns(
            slot=pl.struct(*names, "nth").rank("dense").cast(pl.Int64) - 1,
            expected=pl.col("pg_name").replace_strict(sizes, default=1, return_dtype=pl.Int64),
        )
        .sort("rank", "node")
    )


@native_loop
def _ends(
    bounds: tuple[_Ints, _Ints, _Ints],
    nodes: tuple[_Ints, _Ids, _Ids],
    communication: tuple[_Ints, _Ints, _Ints, _Ints],
    single_lane: bool,
) -> _Ints:
    """Compute the end of each node; -1: never. A rank runs until communication whose other members are missing."""
    begin, deps, by_rank = bounds
    duration, first, before = nodes
    node_of, role, slot, expected = communication
    ranks = len(begin) - 1
    end = np.full(len(duration), -1, dtype=np.int64)
    at, next_of, lane = np.zeros(ranks, dtype=np.int64), by_rank[:-1].copy(), np.zeros(ranks, dtype=np.int64)
    slots = 0
    for number in slot:
        slots = max(slots, number + 1)
    # Of each slot when its members meet (-1: not known), the latest that came, how many, and the rank that waits last.
    meets, latest = np.full(slots, -1, dtype=np.int64), np.zeros(slots, dtype=np.int64)
    come, waiting = np.zeros(slots, dtype=np.int64), np.full(slots, -1, dtype=np.int64)
    behind = np.full(ranks, -1, dtype=np.int64)
    is_there = np.zeros(len(slot), dtype=np.bool_)
    ready = np.arange(ranks)[::-1].copy()
    count = ranks
    while count > 0:
        count -= 1
        rank = ready[count]
        offset = begin[rank]
        nodes_of_rank = begin[rank + 1] - offset
        while at[rank] < nodes_of_rank:
            own = at[rank]
            row = offset + own
            low = deps[rank] + first[row]
            high = deps[rank] + first[row + 1] if own + 1 < nodes_of_rank else deps[rank + 1]
            start = np.int64(0)
            for index in range(low, high):
                start = max(start, end[offset + before[index]])
            number = next_of[rank]
            if number == by_rank[rank + 1] or node_of[number] != own:
                end[row] = start + duration[row]
                at[rank] += 1
                continue
            met_at, kind = slot[number], role[number]
            if single_lane and kind != 2:
                start = max(start, lane[rank])
            if kind == 1:
                meets[met_at] = start
                end[row] = start + duration[row]
            else:
                if kind == 0 and not is_there[number]:
                    is_there[number] = True
                    come[met_at] += 1
                    latest[met_at] = max(latest[met_at], start)
                    if come[met_at] == expected[number]:
                        meets[met_at] = latest[met_at]
                if meets[met_at] < 0:
                    behind[rank], waiting[met_at] = waiting[met_at], rank
                    break
                end[row] = max(start, meets[met_at]) + duration[row]
            if kind != 2:
                lane[rank] = end[row]
            while waiting[met_at] >= 0:
                other = waiting[met_at]
                waiting[met_at] = behind[other]
                ready[count] = other
                count += 1
            at[rank] += 1
            next_of[rank] += 1
    return end


def _steps(
    part: ReplayPart, ends: _Ints, behind_gap: Collection[str]
) -> list[tuple[int, str | None, int | None, int | None]]:
    """The rows of a rank: its steps by their ends, and all of it."""
    never = bool((ends < 0).any())
    rows: list[tuple[int, str | None, int | None, int | None]] = []
    known = part.step >= 0
    measured, replays = np.zeros(len(part.steps), dtype=np.int64), np.zeros(len(part.steps), dtype=np.int64)
    # Without measured times the order of steps is that of their ends.
    end_ns = ends if part.end_ns is None else part.end_ns
    np.maximum.at(measured, part.step[known], end_ns[known])
    np.maximum.at(replays, part.step[known], ends[known])
    stuck = np.zeros(len(part.steps), dtype=np.bool_)
    stuck[part.step[known & (ends < 0)]] = True
    before = before_replayed = 0
    for step in np.argsort(measured, kind="stable").tolist():
        lasts = None if stuck[step] else int(replays[step]) - before_replayed
        name = part.steps[step]
        took = None if part.end_ns is None or name in behind_gap else int(measured[step]) - before
        rows.append((part.rank, name, took, lasts))
        before, before_replayed = int(measured[step]), int(replays[step])
    whole = None if never else int(ends.max(initial=0))
    took = None if part.end_ns is None or behind_gap else int(part.end_ns.max(initial=0))
    rows.append((part.rank, None, took, whole))
    return rows
