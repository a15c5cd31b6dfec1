"""Answers about the ranks of a job against each other: steps, waiting, and who is late and why."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import RANK
from tracebraid.model.column import Column, Kind, Table

__all__ = ["LATE_ARRIVALS", "RANK_STEPS", "RANK_WAITS", "STRAGGLERS", "LateCause"]


class LateCause(Enum):
    """What made a rank late at a collective."""

    LONGER_KERNEL = "longer-kernel"
    """A kernel, copy or fill took longer."""
    MORE_KERNELS = "more-kernels"
    """It ran more of them, or some that the others did not run."""
    LONGER_HOST_OP = "longer-host-op"
    """An op or call of the host took longer, was called more often, or only here."""
    HOST_WITHOUT_EVENTS = "host-without-events"
    """The host was in nothing that is recorded: it slept, was not scheduled, or ran Python without stacks."""
    DATA_LOADER = "data-loader"
    """The host waited for its data loader."""
    GARBAGE_COLLECTION = "garbage-collection"
    """Python collected garbage, as its stack says."""
    PYTHON = "python"
    """A Python function, outside of ops."""
    QUEUE_DELAY = "queue-delay"
    """Work was launched, and did not start though the device was free."""
    LONGER_TRANSFER = "longer-transfer"
    """Collectives transferred longer, or more of them."""
    INHERITED = "inherited"
    """It was late at an earlier collective, or had waited for a rank that was late at another."""
    BEFORE_RECORDING = "before-recording"
    """It was late when its recording began."""
    PIPELINE_ORDER = "pipeline-order"
    """A send or receive whose partner waits by the order of the pipeline: nothing took longer than elsewhere."""
    UNEXPLAINED = "unexplained"
    """Nothing explains enough of it."""


_STEP = Column("step", Kind.TEXT, "the step in which the collective was issued; null: in none")
_CAUSE = Column("cause", Kind.TEXT, "a code of `LateCause`")
_INHERITED = "; null: it did not inherit its lateness, or from whom is unknown"

RANK_STEPS = Table(
    "rank_steps",
    "One row per step and rank, steps in the order in which they begin on any rank, then ranks.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step, by its annotation's name"),
        Column("ranks", Kind.INT, "how many ranks have a step of that name"),
        Column("start_ns", Kind.INT, "its start, on aligned clocks"),
        Column("span_ns", Kind.INT, "its length on the host"),
        Column("compute_ns", Kind.INT, "something computes, as in `breakdown`; null: nothing works"),
        Column("idle_ns", Kind.INT, "nothing works, as in `breakdown`; null: nothing works at all"),
        Column("transfer_ns", Kind.INT, "its collectives transfer"),
        Column("waiting_ns", Kind.INT, "its collectives wait for another rank; overlaps count once"),
        Column("caused_ns", Kind.INT, "sum over the other ranks: how long they waited for this one"),
        Column("late_ns", Kind.INT, "sum, over the collectives at which it was last, of its lateness"),
        Column("late_count", Kind.INT, "collectives at which it was last, and somebody waited"),
        Column("collectives", Kind.INT, "its collectives that are matched with another rank's"),
    ),
)

RANK_WAITS = Table(
    "rank_waits",
    "One row per rank and rank that it waited for, and with `per_step` per step; in the order of both.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step in which the collective was issued; null: all, or in none"),
        Column("waited_for", Kind.INT, "the rank that it waited for"),
        Column("waiting_ns", Kind.INT, "how long; what several collectives wait for at once counts once"),
        Column("count", Kind.INT, "in how many collectives"),
        Column("longest_ns", Kind.INT, "the longest of them"),
        Column("share", Kind.FLOAT, "of all that the rank waited, in the step or over all, 0 to 1"),
    ),
)

LATE_ARRIVALS = Table(
    "late_arrivals",
    "One row per collective at which a rank's lateness made others wait, most waiting first.",
    (
        RANK,
        _STEP,
        Column("collective", Kind.INT, "the row of `matched_collectives`"),
        Column("type", Kind.TEXT, "what is communicated (`CollectiveType`)"),
        Column("group", Kind.TEXT, "the group"),
        Column("start_ns", Kind.INT, "its arrival, on aligned clocks"),
        Column("lateness_ns", Kind.INT, "how much later than the median of the other ranks"),
        Column("margin_ns", Kind.INT, "how much later than the last of them"),
        Column("caused_ns", Kind.INT, "sum over the other ranks: how long they waited for this one"),
        _CAUSE,
        Column(
            "name",
            Kind.TEXT,
            "the kernel, op, call, function or annotation that differs most; null: it has no name, or is many",
        ),
        Column("time_ns", Kind.INT, "its time on this rank since the last collective; null: no such thing"),
        Column("others_ns", Kind.INT, "median of its time on the other ranks, in the same segment"),
        Column("difference_ns", Kind.INT, "`time_ns` less `others_ns`"),
        Column("explained_ns", Kind.INT, "how much of the lateness the cause explains, all names together"),
        Column("explained_share", Kind.FLOAT, "of the lateness, 0 to 1"),
        Column("origin_rank", Kind.INT, "whose lateness it inherited, in the first place" + _INHERITED),
        Column("origin_collective", Kind.INT, "at which collective" + _INHERITED),
        Column("event_id", Kind.INT, "the rank's event of the collective"),
    ),
)

STRAGGLERS = Table(
    "stragglers",
    "One row per rank that was late by a cause of its own, the most waiting caused first.",
    (
        RANK,
        Column("systematic", Kind.BOOL, "whether it is late more often than chance would have it"),
        Column("p_value", Kind.FLOAT, "probability of that by chance, corrected for the number of ranks"),
        Column("late_count", Kind.INT, "collectives at which it was late by a cause of its own"),
        Column("blocks", Kind.INT, "steps, or collectives, in which any rank was late by its own cause"),
        Column("worst_count", Kind.INT, "in how many of them it was the latest"),
        Column("share", Kind.FLOAT, "`worst_count` of `blocks`, 0 to 1"),
        Column(
            "lateness_ns",
            Kind.INT,
            "sum of its lateness by causes of its own, at collectives of all its groups",
        ),
        Column("mean_ns", Kind.FLOAT, "mean lateness of a collective at which it was late"),
        Column("mean_low_ns", Kind.FLOAT, "that mean's 95 % interval, low; null: late only once"),
        Column("mean_high_ns", Kind.FLOAT, "that mean's 95 % interval, high; null: late only once"),
        Column("caused_ns", Kind.INT, "how long others waited for it, or for who inherited its lateness"),
        Column(
            "time_share",
            Kind.FLOAT,
            "when it was late, of the time from the first collective to the last, 0 to 1",
        ),
        Column("cause", Kind.TEXT, "the cause that explains most of it: a code of `LateCause`"),
        Column("name", Kind.TEXT, "of that the name with most; null: none"),
        Column("cause_share", Kind.FLOAT, "what the cause explains of `lateness_ns`, 0 to 1"),
    ),
)
