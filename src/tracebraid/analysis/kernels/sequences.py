"""Sequences of kernels that come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from heapq import heapify, heappop, heapreplace

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.answering import StepOptions, answer
from tracebraid.analysis.device import event_columns, launch_calls, stream_gaps
from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.analysis.kernels.kernels import device_work_of
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.analysis import Family, Need, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.device_peaks import COMMUNICATION
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import is_step_name

_Ints = NDArray[np.int64]


class Repeats(Struct, frozen=True):
    """The maximal repeats of a sequence.

    Args:
        suffixes: positions in the sequence, in the order of the suffixes that begin there.
        length: elements of each repeat.
        first: with `last`: the repeat occurs at `suffixes[first : last + 1]`.
        last: see there.
    """

    suffixes: _Ints
    length: _Ints
    first: _Ints
    last: _Ints

    @property
    def count(self) -> _Ints:
        """Occurrences of each, those that overlap too."""
        found: _Ints = self.last - self.first + 1
        return found

    def positions(self, repeat: int) -> _Ints:
        """Starts of a repeat, ascending."""
        found: _Ints = np.sort(self.suffixes[self.first[repeat] : self.last[repeat] + 1])
        return found


def separated(elements: _Ints, opens: NDArray[np.bool_]) -> tuple[_Ints, _Ints]:
    """A sequence in which nothing comes back across a border."""
    rows = np.r_[np.flatnonzero(opens), len(elements)]
    sequence = np.insert(elements, rows, -1 - np.arange(len(rows)))
    return sequence, np.insert(np.arange(len(elements)), rows, -1)


def maximal_repeats(sequence: _Ints, shortest: int) -> Repeats:
    """Find the maximal repeats with at least `shortest` >= 1 elements."""
    ranks = _ranks(sequence)
    suffixes = np.argsort(ranks[-1], kind="stable")
    common = _common_prefixes(suffixes, ranks)
    rows = np.flatnonzero(common >= max(shortest, 1))
    first, last = _intervals(common, rows)
    before = np.where(suffixes > 0, ranks[0][suffixes - 1], -1)
    changes = np.cumsum(np.r_[False, before[1:] != before[:-1]]) if len(before) else before
    keys = first * (len(sequence) + 1) + last
    _, chosen = np.unique(keys, return_index=True)
    chosen = chosen[changes[last[chosen]] > changes[first[chosen]]]
    return Repeats(suffixes, common[rows[chosen]], first[chosen], last[chosen])


def without_overlap(positions: _Ints, length: int) -> _Ints:
    """Select non-overlapping positions greedily from ascending ones."""
    if len(positions) < 2 or int(np.diff(positions).min()) >= length:
        return positions
    kept, at = [], 0
    while at < len(positions):
        kept.append(at)
        at = int(np.searchsorted(positions, positions[at] + length))
    return positions[np.array(kept, dtype=np.int64)]


def _ranks(sequence: _Ints) -> list[_Ints]:
    """The rank of the 1, 2, 4, ... elements from each position on, till no two positions have the same."""
    size = len(sequence)
    _, rank = np.unique(sequence, return_inverse=True)
    ranks = [rank.astype(np.int64)]
    width = 1
    while size and int(ranks[-1].max()) < size - 1:
        behind = np.r_[ranks[-1][width:] + 1, np.zeros(min(width, size), dtype=np.int64)]
        _, rank = np.unique(ranks[-1] * (size + 1) + behind, return_inverse=True)
        ranks.append(rank.astype(np.int64))
        width *= 2
    return ranks


def _common_prefixes(suffixes: _Ints, ranks: list[_Ints]) -> _Ints:
    """Return how many elements each suffix begins with as the one before it does; -1 for the first."""
    size = len(suffixes)
    left, right = suffixes[:-1].copy(), suffixes[1:].copy()
    common = np.zeros(max(size - 1, 0), dtype=np.int64)
    for level in range(len(ranks) - 1, -1, -1):
        inside = (left < size) & (right < size)
        rank = np.r_[ranks[level], -1]
        same = inside & (rank[np.minimum(left, size)] == rank[np.minimum(right, size)])
        step = same.astype(np.int64) << level
        common, left, right = common + step, left + step, right + step
    return np.r_[-1, common] if size else common


def _intervals(common: _Ints, rows: _Ints) -> tuple[_Ints, _Ints]:
    """For some rows the widest interval of suffixes around them that begin with as many common elements."""
    minima = [np.r_[common, -1]]
    while 1 << len(minima) <= len(common):
        half, below = 1 << (len(minima) - 1), minima[-1]
        minima.append(np.minimum(below, np.r_[below[half:], np.full(half, -1)]))
    wanted = common[rows]
    first, last = rows.copy(), rows.copy()
    for level in range(len(minima) - 1, -1, -1):
        width = 1 << level
        start = first - width
        first = np.where((start >= 0) & (minima[level][np.maximum(start, 0)] >= wanted), start, first)
        fits = last + width < len(common)
        above = minima[level][np.minimum(last + 1, len(common))]
        last = np.where(fits & (above >= wanted), last + width, last)
    return first - 1, last


_Sequence = tuple[_Ints, int]
"""Starts of a sequence, ascending, and its number of elements."""


def sequence_of(sequence: _Ints, positions: _Ints, length: int, shortest: int) -> _Sequence | None:
    """Return the sequence of a repeat; None if it repeats a shorter one.

    Of one element in a row whole runs count. A repeat that begins again before it ends is cut to where it does: of
    `abababa` the repeat `aba` becomes `ab`, which comes three times.
    """
    part = sequence[positions[0] : positions[0] + length]
    if (part == part[0]).all():
        whole = (sequence[positions - 1] != part[0]) & (sequence[positions + length] != part[0])
        return positions[whole], length
    if 2 * _multiple(_period(part), shortest) <= length:
        return None
    again = _multiple(int(np.diff(positions).min()), shortest)
    return positions, min(again, length)


def disjoint_sequences(
    candidates: list[_Sequence], at_stake: Callable[[_Ints, int], tuple[int, ...]], most: int
) -> list[_Sequence]:
    """Select non-overlapping occurrences of sequences greedily."""
    size = max((int(positions[-1]) + length for positions, length in candidates if len(positions)), default=0)
    taken = np.zeros(size, dtype=np.int64)
    free = [(number, without_overlap(*candidate)) for number, candidate in enumerate(candidates)]
    heap = [_entry(at_stake, number, at, candidates[number][1]) for number, at in free if len(at) > 1]
    heapify(heap)
    chosen: list[_Sequence] = []
    before = _sums(taken)
    while heap and len(chosen) < most:
        number = heap[0][1]
        positions, length = candidates[number]
        left = without_overlap(positions[before[positions + length] == before[positions]], length)
        entry = _entry(at_stake, number, left, length) if len(left) > 1 else None
        if entry is not None and entry > heap[0]:
            heapreplace(heap, entry)
            continue
        heappop(heap)
        if entry is not None:
            chosen.append((left, length))
            taken[(left[:, None] + np.arange(length)).ravel()] = 1
            before = _sums(taken)
    return chosen


def _entry(
    at_stake: Callable[[_Ints, int], tuple[int, ...]], number: int, positions: _Ints, length: int
) -> tuple[tuple[int, ...], int]:
    """Heap key: most time first."""
    return tuple(-value for value in at_stake(positions, length)), number


def _sums(taken: _Ints) -> _Ints:
    found: _Ints = np.r_[0, np.cumsum(taken)]
    return found


def _period(part: _Ints) -> int:
    """Return the period of a sequence, at most half its length; else its length."""
    text, size = part.tobytes(), part.itemsize
    half = text[: (len(part) - len(part) // 2) * size]
    at = text.find(half, 1)
    while at >= 0:
        if at % size == 0 and text[at:] == text[:-at]:
            return at // size
        at = text.find(half, at + 1)
    return len(part)


def _multiple(distance: int, least: int) -> int:
    """Return the smallest multiple of a distance above a minimum."""
    return -(-least // distance) * distance


LONGEST_GAP_NS = 1_000_000
"""A stream that is empty for longer than this, in ns, ends a sequence.

Longest gap in a sequence: an eager op takes about 10 us on the host, a slow one 100 us; 1 ms is a wait or other work.
"""
MOST_SEQUENCES = 200
"""Sequences that are said, per step: of those with the most launches to save."""
_MOST_CANDIDATES = 1_000
"""Maximum repeats with computed times; some are multiples of others."""
MOST_NAMES = 32
"""Names that are written of a sequence."""


_PATTERN = "names of its kernels, as a JSON list; of more than 32 the first 32"

KERNEL_SEQUENCES = Table(
    "kernel_sequences",
    "One row per sequence of kernels that comes back on a stream; the most time between its kernels first. "
    "No kernel lies in two of the occurrences: the rows of a step can be added.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("op", Kind.TEXT, "the op or annotation that launched it, as asked for; null: any"),
        Column("length", Kind.INT, "kernels in the sequence"),
        Column("pattern", Kind.TEXT, _PATTERN),
        Column("first_event", Kind.INT, "the first kernel of its first occurrence: its row in `events`"),
        Column(
            "count", Kind.INT, "occurrences that overlap no other of it, nor any of a sequence chosen before"
        ),
        Column(
            "complete",
            Kind.INT,
            "occurrences that no other kernel precedes or follows within the op or the stretch",
        ),
        Column("device_ns", Kind.INT, "duration of the kernels of all occurrences"),
        Column(
            "gap_ns",
            Kind.INT,
            "time between them in which their stream was empty: what a fused kernel would save",
        ),
        Column(
            "launch_ns",
            Kind.INT,
            "host time in the calls that launched them, without the first of each occurrence: what a graph would save",
        ),
        Column(
            "op_ns",
            Kind.INT,
            "host time of the ops that launched the occurrences; null where no op was asked for",
        ),
        DOUBTFUL,
    ),
)


@analysis(
    KERNEL_SEQUENCES,
    Family.KERNELS,
    needs=(Need.DEVICE_WORK,),
    uses=(Need.LAUNCHES, Need.HOST_OPS),
    shown="op pattern length count gap_ns! launch_ns device_ns complete op_ns",
    when_empty="no sequence of kernels comes back",
)
def kernel_sequences(
    linked: LinkedTrace, op: str | None = None, min_length: int = 2, per_step: bool = False
) -> pl.DataFrame:
    """Which kernel sequences repeat, and could be fused?

    Sequences of device events that come back on a stream, in turn.

    A sequence is left out where a longer one contains it at every occurrence, and where it is another one several
    times
    over; of one kernel in a row only whole runs count. No device event lies in two occurrences: the sequence with the
    most time between its kernels counts first, each further only where those before it left its kernels. Sequences
    end
    at a collective, and where the stream is empty for longer than `LONGEST_GAP_NS`; at most `MOST_SEQUENCES` are
    said.

    Args:
        linked: one rank.
        op: only what ops or annotations of this name launched, each on its own, with or without a `#` and number
        behind
            the name; None: anything.
        min_length: kernels in a sequence, at least 2.
        per_step: sequences of each step in which they were launched, instead of over all.
    """
    work = _in_stream_order(linked, op, StepOptions(per_step))
    rows: list[dict[str, object]] = []
    for part in work.partition_by("step", maintain_order=True):
        rows += _rows_of(part, max(min_length, 2))
    if not rows:
        return KERNEL_SEQUENCES.empty()
    return (
        pl.DataFrame(rows, infer_schema_length=None)
        .with_columns(pl.col("step").cast(pl.String), pl.lit(op, dtype=pl.String).alias("op"))
        .sort("gap_ns", "launch_ns", "length", "first_event", descending=[True, True, True, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(KERNEL_SEQUENCES, frame, linked))
    )


def pattern_text(names: list[str]) -> str:
    """The names of a sequence as they are written: a JSON list of at most `MOST_NAMES`."""
    return json.dumps(names[:MOST_NAMES], ensure_ascii=False)


class _Stretches(Struct, frozen=True):
    """Device events of a step by stream and start, and the sequence in which repeats are searched.

    Args:
        sequence: names as numbers, with a separator before each stretch and after the last.
        rows: the event of each element of it; -1 for borders.
        event_id: of each event.
        names: of each event.
        instance: the requested op of each event; -1 for any.
        instance_ns: how long that took on the host.
        sums: of durations, gaps and launch calls before each event.
    """

    sequence: _Ints
    rows: _Ints
    event_id: _Ints
    names: list[str]
    instance: _Ints
    instance_ns: _Ints
    sums: dict[str, _Ints]


def _in_stream_order(linked: LinkedTrace, op: str | None, options: StepOptions) -> pl.DataFrame:
    """Return device events in stream order, with `instance`: the requested op, -1 for any."""
    communicates = pl.col("kind") == COMMUNICATION
    found = device_work_of(linked, options).select("event_id", "name", "kind", "step", "op_event")
    calls = launch_calls(linked).select("event_id", "launch_ns")
    work = (
        stream_gaps(linked)
        .join(found, on="event_id", how="left", maintain_order="left")
        .join(calls, on="event_id", how="left", maintain_order="left")
        .with_columns(communicates.shift(1, fill_value=False).alias("after_collective"))
        .filter(~communicates)
    )
    if op is None:
        return work.with_columns(
            pl.lit(-1, dtype=pl.Int64).alias("instance"), pl.lit(None, dtype=pl.Int64).alias("instance_ns")
        )
    instances = _instances(linked, op)
    return work.join(instances, on="op_event", how="left", maintain_order="left").filter(
        pl.col("instance").is_not_null()
    )


def _instances(linked: LinkedTrace, op: str) -> pl.DataFrame:
    """For each op in one of that name, itself included: the outermost such, and how long that took on the host."""
    walk = host_ops(linked)
    named = linked.timeline.events.filter(is_step_name(pl.col("name").cast(pl.String), op)).select("event_id")
    tree = linked.host_tree.filter(pl.col("op_exclusive_ns").is_not_null())
    events = named.join(tree, on="event_id", how="semi").get_column("event_id").to_numpy()
    rows = walk.rows(events)
    rows = rows[walk.outermost(rows, np.zeros(len(rows), dtype=np.int64))]
    wanted = np.zeros(len(walk.event_id), dtype=np.bool_)
    wanted[rows] = True
    nearest = walk.nearest(wanted)
    inside = np.flatnonzero(nearest >= 0)
    took = linked.host_tree.select(
        pl.col("event_id").alias("instance"), pl.col("inclusive_ns").alias("instance_ns")
    )
    found = pl.DataFrame({"op_event": walk.event_id[inside], "instance": walk.event_id[nearest[inside]]})
    return found.join(took, on="instance", how="left", maintain_order="left")


def _rows_of(work: pl.DataFrame, shortest: int) -> list[dict[str, object]]:
    """The rows of the answer for the events of one step."""
    step = work.get_column("step")[0]
    stretches = _stretches(work)
    repeats = maximal_repeats(stretches.sequence, shortest)
    found = (
        sequence_of(stretches.sequence, repeats.positions(repeat), int(repeats.length[repeat]), shortest)
        for repeat in _candidates(repeats, stretches.sequence)
    )
    return [
        {"step": step, **_row(stretches, positions, length)}
        for positions, length in disjoint_sequences(
            [sequence for sequence in found if sequence is not None],
            lambda positions, length: _at_stake(stretches, positions, length),
            MOST_SEQUENCES,
        )
    ]


def _candidates(repeats: Repeats, sequence: _Ints) -> list[int]:
    """Select the repeats that could save the most launches; for a single repeated kernel only whole runs."""
    start = repeats.suffixes[repeats.first] if len(repeats.first) else repeats.first
    changes = np.cumsum(np.r_[True, sequence[1:] != sequence[:-1]]) if len(sequence) else sequence
    is_run = changes[start + repeats.length - 1] == changes[start]
    runs = np.bincount(changes) if len(changes) else changes
    lengths = np.unique(runs) if len(runs) else runs
    possible = ~is_run | np.isin(repeats.length, lengths)
    saved = np.minimum(repeats.count, len(sequence) // np.maximum(repeats.length, 1)) * (repeats.length - 1)
    order = np.lexsort((repeats.first, -repeats.length, -saved))
    return [int(row) for row in order[possible[order]][:_MOST_CANDIDATES]]


def _stretches(work: pl.DataFrame) -> _Stretches:
    gap = work.get_column("gap_before_ns").fill_null(LONGEST_GAP_NS + 1).to_numpy()
    opens = (gap > LONGEST_GAP_NS) | work.get_column("after_collective").to_numpy()
    opens[:1] = True
    for column in ("lane", "instance"):
        values = work.get_column(column).to_numpy()
        opens[1:] |= values[1:] != values[:-1]
    names = work.get_column("name").fill_null("")
    columns = {"device_ns": "dur_ns", "gap_ns": "gap_before_ns", "launch_ns": "launch_ns"}
    return _Stretches(
        *separated(names.rank("dense").to_numpy().astype(np.int64), opens),
        event_id=work.get_column("event_id").to_numpy(),
        names=names.to_list(),
        instance=work.get_column("instance").to_numpy(),
        instance_ns=work.get_column("instance_ns").fill_null(0).to_numpy(),
        sums={
            name: np.r_[0, np.cumsum(work.get_column(column).fill_null(0).to_numpy())]
            for name, column in columns.items()
        },
    )


def _at_stake(stretches: _Stretches, positions: _Ints, length: int) -> tuple[int, ...]:
    """Sort key of overlapping sequences: the greater counts first.

    Sequences of whole runs of the requested op, longest first; then by time.
    """
    whole = int(_complete(stretches, positions, length).sum()) if stretches.instance[0] >= 0 else 0
    sums, first = stretches.sums, stretches.rows[positions]
    times = (
        int((sums[name][first + length] - sums[name][first + 1]).sum()) for name in ("gap_ns", "launch_ns")
    )
    return (length if whole > 1 else 0, *times, length)


def _complete(stretches: _Stretches, positions: _Ints, length: int) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (stretches.rows[positions - 1] < 0) & (stretches.rows[positions + length] < 0)
    return found


def _row(stretches: _Stretches, positions: _Ints, length: int) -> dict[str, object]:
    first = stretches.rows[positions]
    stop = first + length
    sums = stretches.sums
    return {
        "length": length,
        "pattern": pattern_text(stretches.names[int(first[0]) : int(stop[0])]),
        "first_event": int(stretches.event_id[first.min()]),
        "count": len(positions),
        "complete": int(_complete(stretches, positions, length).sum()),
        "device_ns": int((sums["device_ns"][stop] - sums["device_ns"][first]).sum()),
        "gap_ns": int((sums["gap_ns"][stop] - sums["gap_ns"][first + 1]).sum()),
        "launch_ns": int((sums["launch_ns"][stop] - sums["launch_ns"][first + 1]).sum()),
        "op_ns": _op_ns(stretches, first),
    }


def _op_ns(stretches: _Stretches, events: _Ints) -> int | None:
    """Return the host time of the ops of some events, each once; None without a requested op."""
    if stretches.instance[events[0]] < 0:
        return None
    _, once = np.unique(stretches.instance[events], return_index=True)
    return int(stretches.instance_ns[events[once]].sum())


_KEY = ["step", "op_name", "op_category", "sequence"]


OP_KERNEL_SEQUENCES = Table(
    "op_kernel_sequences",
    "One row per op and sequence of kernels that it launched itself, the most device time first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("op", Kind.TEXT, "the op's name"),
        Column("op_category", Kind.TEXT, "`cpu_op` or `user_annotation`"),
        Column("length", Kind.INT, "device events that it launches"),
        Column("pattern", Kind.TEXT, _PATTERN),
        Column("count", Kind.INT, "runs of the op with this sequence"),
        Column("device_ns", Kind.INT, "duration of all their kernels"),
        Column(
            "op_launch_delay_ns",
            Kind.FLOAT,
            "mean time from the op's start to its first launch; null: no launch is known",
        ),
        Column(
            "runtime_delay_ns",
            Kind.FLOAT,
            "mean time from the first launch's start to the start of its kernel; null: no launch is known",
        ),
        DOUBTFUL,
    ),
)


@analysis(
    OP_KERNEL_SEQUENCES,
    Family.KERNELS,
    needs=(Need.DEVICE_WORK, Need.LAUNCHES, Need.HOST_OPS),
    shown="op pattern length count device_ns op_launch_delay_ns runtime_delay_ns",
    when_empty="no work is joined with an op that launched it",
)
def op_kernel_sequences(
    linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False
) -> pl.DataFrame:
    """Which kernels does each op launch, and in what order?

    What each op launched itself, in the order of the launches.

    Kernels belong to the innermost op around their launch call, on the call's thread.

    Args:
        linked: one rank.
        per_step: rows for each step in which they were launched, instead of over all.
        with_doubtful: count the ops of doubtful steps in the mean delays, too.
    """
    runs = _runs(linked, StepOptions(per_step, with_doubtful))
    if runs.is_empty():
        return OP_KERNEL_SEQUENCES.empty()
    counted = pl.col("in_means")
    found = (
        runs.group_by(_KEY)
        .agg(
            pl.col("names").first(),
            pl.col("length").first(),
            pl.len().alias("count"),
            pl.col("device_ns").sum(),
            (pl.col("call_ns") - pl.col("op_ns")).filter(counted).mean().alias("op_launch_delay_ns"),
            (pl.col("start_ns") - pl.col("call_ns")).filter(counted).mean().alias("runtime_delay_ns"),
        )
        .rename({"op_name": "op"})
    )
    patterns = [pattern_text(names) for names in found.get_column("names").to_list()]
    return (
        found.with_columns(pl.Series("pattern", patterns, dtype=pl.String))
        .sort(
            "device_ns",
            "op",
            "op_category",
            "pattern",
            "length",
            descending=[True, False, False, False, False],
        )
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(OP_KERNEL_SEQUENCES, frame, linked))
    )


def _runs(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """One row per op that launched something itself."""
    work = (
        device_work_of(linked, options)
        .with_columns(launch_calls(linked).get_column("call_ns"))
        .filter(pl.col("op_event").is_not_null())
        .sort(pl.coalesce("call_ns", "ts_ns"), "ts_ns", "event_id")
        .with_columns(pl.col("name").rank("dense").fill_null(0).cast(pl.String).alias("number"))
    )
    found = work.group_by("op_event", maintain_order=True).agg(
        pl.col("step", "op_name", "op_category", "in_means", "call_ns").first(),
        pl.col("ts_ns").first().alias("start_ns"),
        pl.col("number").str.join(",").alias("sequence"),
        pl.col("name").fill_null("").head(MOST_NAMES).alias("names"),
        pl.len().alias("length"),
        pl.col("dur_ns").sum().alias("device_ns"),
    )
    return found.with_columns(event_columns(linked.timeline, found.get_column("op_event"), op_ns="ts_ns"))
