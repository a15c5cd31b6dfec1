"""What did a rank do before it arrived at each collective, since the collective before it of the same group?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.ranks.lateness.labelled_time import LabelledTime, labelled_time
from tracebraid.analysis.ranks.lateness.segment_kinds import SegmentKind
from tracebraid.model.collectives.codes import BETWEEN_TWO
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["GROUP", "MOST_NAMES", "MOST_ROWS", "NO_SEGMENTS", "rank_segments"]

_Ints = NDArray[np.int64]

MOST_NAMES = 12
"""Names that are kept of a segment at least, those with most time. What is left out is less on this rank than any of
them, so a name that another rank lacks took it at most the least that is kept."""

MOST_ROWS = 32_768
"""Names that are kept of a rank, where it has few segments: about 2 MB; a chosen value."""

_BETWEEN_TWO = [kind.value for kind in BETWEEN_TWO]
_OF_PAIRS = pl.when(pl.col("type").is_in(_BETWEEN_TWO)).then(pl.lit(" between two")).otherwise(pl.lit(""))

GROUP = pl.concat_str(pl.coalesce("process_group", "communicator", pl.lit("")), _OF_PAIRS.fill_null(""))
"""What names the group of a member on its rank. Ids of communicators may differ from collective to collective:
PyTorch's `Comms Id` is a hash with the sequence number in it. Sends and receives are apart: before a collective of all
ranks of a group, ranks do the same only since the last one of all."""

_SCHEMA = pl.Schema(
    {
        "rank": pl.Int64,
        "event_id": pl.Int64,
        "kind": pl.Int8,
        "name": pl.String,
        "merged": pl.Boolean,
        "communication": pl.Int64,
        "time_ns": pl.Int64,
        "count": pl.Int64,
    }
)

NO_SEGMENTS = _SCHEMA.to_frame()
"""What `rank_segments` gives of a rank without collectives. Alone no rank is late, so that needs no segments."""


def rank_segments(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The segment before each collective: from the arrival at the last collective of its group (`GROUP`) to its own.

    The first of a group begins with the trace. Rows of an `event_id` add up to the length of its segment. Columns:

    rank, event_id: the member.
    kind: a number of `SegmentKind`.
    name: of the kernel, op, call, function, annotation or collective; "" for none.
    merged: the sum of the names beyond those that are kept; `name` is "".
    communication: the event of the collective that ran; null for other kinds.
    time_ns, count: time, and how many events it is of.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    found = members(linked, annotation).select("event_id", "start_ns", GROUP.alias("group"))
    if found.is_empty():
        return NO_SEGMENTS
    time = labelled_time(linked, annotation)
    groups = found.sort("start_ns", "event_id").partition_by("group", maintain_order=True)
    names = max(MOST_NAMES, MOST_ROWS // found.height)
    kept = pl.concat(_most(_segments(time, group), names) for group in groups)
    return (
        kept.with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias("rank"))
        .select(_SCHEMA.names())
        .cast(_SCHEMA)
    )


def _segments(time: LabelledTime, members_of_group: pl.DataFrame) -> pl.DataFrame:
    """Time and count of each label in each segment of a group."""
    arrivals = members_of_group.get_column("start_ns").to_numpy()
    starts, lengths = time.moments[:-1], np.diff(time.moments)
    segment = np.searchsorted(arrivals, starts, side="right")
    before = int(np.searchsorted(starts, arrivals[-1], side="left"))
    segment, label, event = segment[:before], time.label[:before], time.event[:before]
    order = np.lexsort((event, label, segment))
    segment, label, event = segment[order], label[order], event[order]
    changed = np.ones(len(order), dtype=np.bool_)
    changed[1:] = (segment[1:] != segment[:-1]) | (label[1:] != label[:-1])
    another = changed.copy()
    another[1:] |= event[1:] != event[:-1]
    first = np.flatnonzero(changed)
    if not len(first):
        return _frame(time, members_of_group, first, (first, first, first))
    sums = np.add.reduceat(lengths[order], first)
    counts = np.add.reduceat(another.astype(np.int64), first)
    return _frame(time, members_of_group, segment[first], (label[first], sums, counts))


def _frame(
    time: LabelledTime, members_of_group: pl.DataFrame, segment: _Ints, values: tuple[_Ints, _Ints, _Ints]
) -> pl.DataFrame:
    label, sums, counts = values
    return pl.DataFrame(
        [
            members_of_group.get_column("event_id").gather(segment),
            *time.labels[label].get_columns(),
            pl.Series("time_ns", sums),
            pl.Series("count", counts),
        ]
    )


def _most(segments: pl.DataFrame, names: int) -> pl.DataFrame:
    """With the names beyond that number as one row for each kind; collectives are all kept."""
    is_kept = (pl.col("kind") == SegmentKind.COMMUNICATION) | (
        pl.col("time_ns").rank("ordinal", descending=True).over("event_id", pl.col("communication").is_null())
        <= names
    )
    marked = segments.with_columns(is_kept.alias("kept"))
    kept = marked.filter("kept").with_columns(pl.lit(value=False).alias("merged")).drop("kept")
    rest = (
        marked.filter(~pl.col("kept"))
        .group_by("event_id", "kind", maintain_order=True)
        .agg(
            pl.lit("").alias("name"),
            pl.col("communication").first(),
            pl.col("time_ns").sum(),
            pl.col("count").sum(),
            pl.lit(value=True).alias("merged"),
        )
    )
    return pl.concat([kept, rest.select(kept.columns)])
