"""Which sequences of kernels come back, and could be fused or put into a graph?"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device.launch_calls import launch_calls
from tracebraid.analysis.device.stream_gaps import stream_gaps
from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.analysis.kernels.sequences.repeats import Repeats, maximal_repeats, separated
from tracebraid.analysis.kernels.sequences.selection import disjoint_sequences, sequence_of
from tracebraid.analysis.kernels.work import device_work_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import KERNEL_SEQUENCES
from tracebraid.model.device_kind import COMMUNICATION
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP, is_step_name

__all__ = ["LONGEST_GAP_NS", "MOST_NAMES", "MOST_SEQUENCES", "kernel_sequences", "pattern_text"]

LONGEST_GAP_NS = 1_000_000
"""A stream that is empty for longer than this, in ns, ends a sequence.

An eager op takes some 10 us on the host, a slow one 100 us: behind 1 ms is a wait or other work, which no fusion saves.
"""
MOST_SEQUENCES = 200
"""Sequences that are said, per step: of those with the most launches to save."""
_MOST_CANDIDATES = 1_000
"""Repeats of which times are computed to find these: some are others several times over."""
MOST_NAMES = 32
"""Names that are written of a sequence."""

_Ints = NDArray[np.int64]


def kernel_sequences(
    linked: LinkedTrace,
    op: str | None = None,
    min_length: int = 2,
    per_step: bool = False,
    annotation: str = PROFILER_STEP,
) -> pl.DataFrame:
    """Sequences of device events that come back on a stream, one after the other: `model.answers.KERNEL_SEQUENCES`.

    A sequence is left out where a longer one contains it at every occurrence, and where it is another one several times
    over; of one kernel in a row only whole runs count. No device event lies in two occurrences: the sequence with the
    most time between its kernels counts first, each further only where those before it left its kernels. Sequences end
    at a collective, and where the stream is empty for longer than `LONGEST_GAP_NS`; at most `MOST_SEQUENCES` are said.

    Args:
        linked: one rank.
        op: only what ops or annotations of this name launched, each on its own, with or without a `#` and number behind
            the name; None: anything.
        min_length: kernels in a sequence, at least 2.
        per_step: sequences of each step in which they were launched, instead of over all.
        annotation: what marks a step, see `steps`.
    """
    work = _in_stream_order(linked, op, StepOptions(annotation, per_step))
    rows: list[dict[str, object]] = []
    for part in work.partition_by("step", maintain_order=True):
        rows += _rows_of(part, max(min_length, 2))
    if not rows:
        return KERNEL_SEQUENCES.empty()
    return (
        pl.DataFrame(rows, infer_schema_length=None)
        .with_columns(pl.col("step").cast(pl.String), pl.lit(op, dtype=pl.String).alias("op"))
        .sort("gap_ns", "launch_ns", "length", "first_event", descending=[True, True, True, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(KERNEL_SEQUENCES, frame, linked, annotation))
    )


def pattern_text(names: list[str]) -> str:
    """The names of a sequence as they are written: a JSON list of at most `MOST_NAMES`."""
    return json.dumps(names[:MOST_NAMES], ensure_ascii=False)


@dataclass(frozen=True)
class _Stretches:
    """Device events of a step by stream and start, and the sequence in which repeats are searched.

    Args:
        sequence: names as numbers, with a border before each stretch and behind the last.
        rows: the event of each element of it; -1 for borders.
        event_id: of each event.
        names: of each event.
        instance: the op that was asked for, of each event; -1 for any.
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
    """Device events in the order of their streams, with `instance`: the op that was asked for, -1 for any."""
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
    """The repeats that can save the most launches, were none to overlap; of one kernel in a row only those of runs."""
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
    """What decides which of two sequences that overlap counts first: the greater.

    Of an op that was asked for, what its runs launched as a whole, the longest first; then by time.
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
    """The host time of the ops of some events, each once; None where none was asked for."""
    if stretches.instance[events[0]] < 0:
        return None
    _, once = np.unique(stretches.instance[events], return_index=True)
    return int(stretches.instance_ns[events[once]].sum())
