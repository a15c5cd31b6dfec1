"""Many small collectives of a group, back to back: each pays the latency that a few large ones would pay once."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.communication.exposed import computed_between, exposed_events
from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.time.work_events import compute_cover
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector
from tracebraid.model.units import NS_PER_MS

__all__ = [
    "DETECTOR",
    "LEAST_COLLECTIVES",
    "MOST_BETWEEN",
    "SMALL_BYTES",
    "SMALL_NS",
    "STALL_NS",
    "small_collectives",
]

SMALL_BYTES = 256 * 1024
"""Up to this size latency, not bandwidth, is most of a collective's time: 20 us at 12.5 GB/s."""

SMALL_NS = 50_000
"""The same where the size is unknown, by duration: a few latencies of NCCL between hosts (10 to 20 us)."""

LEAST_COLLECTIVES = 4
"""Collectives of a run at least."""

MOST_BETWEEN = 2
"""Events that compute between two collectives of a run at most: such as a division by the number of ranks."""

STALL_NS = NS_PER_MS
"""From such a gap between two of them on, something else holds the program up: the run ends."""

_Ints = NDArray[np.int64]
_KEY = ["device", "lane", "process_group", "operation", "dtype"]


def small_collectives(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Runs of small collectives of the same operation, type and group, with next to nothing computed between them.

    Of n collectives, (n - 1) times the shortest one's duration is latency that a single one would not have; so are the
    gaps between them. What is hidden behind compute saves nothing: the saving is that sum, or the time of the run
    without compute, whichever is less. Waiting for late ranks is no part of it.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    size, duration = pl.col("message_bytes"), pl.col("end_ns") - pl.col("ts_ns")
    is_small = (size <= SMALL_BYTES).fill_null(duration <= SMALL_NS)
    events = exposed_events(linked, annotation).sort(*_KEY[:3], "ts_ns", "event_id", nulls_last=True)
    gap = pl.col("ts_ns") - pl.col("end_ns").shift(1)
    same = [pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*_KEY, "step", "is_small")]
    events = events.with_columns(is_small.alias("is_small"), pl.Series("between", _between(linked, events)))
    goes_on = pl.all_horizontal(gap < STALL_NS, pl.col("between") <= MOST_BETWEEN, *same)
    runs = (
        events.with_columns(
            (~goes_on.fill_null(value=False)).cum_sum().alias("run"), duration.alias("dur_ns")
        )
        .filter("is_small")
        .group_by("run", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            pl.col("ts_ns").first().alias("start_ns"),
            pl.col("end_ns").max(),
            pl.col("event_id", "host_event", "device", "operation").first(),
            (gap.clip(lower_bound=0)).slice(1).sum().alias("gaps_ns"),
            pl.col("dur_ns").min(),
        )
        .filter(pl.col("count") >= LEAST_COLLECTIVES)
    )
    latency = (pl.col("count") - 1) * pl.col("dur_ns") + pl.col("gaps_ns")
    runs = runs.with_columns(pl.Series("alone_ns", _without_compute(linked, runs)))
    return evidence_of(
        linked,
        annotation,
        runs.with_columns(
            pl.min_horizontal(latency, "alone_ns").alias("saving_ns"), pl.col("operation").alias("subject")
        ),
    )


def _between(linked: LinkedTrace, events: pl.DataFrame) -> _Ints:
    """How many events begin to compute between each collective and the row before it."""
    found = np.zeros(events.height, dtype=np.int64)
    starts, ends = (events.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    before = np.r_[starts[:1], ends[:-1]]
    for device in events.get_column("device").unique().to_list():
        rows = (events.get_column("device") == device).to_numpy()
        found[rows] = computed_between(linked, device, before[rows], starts[rows])
    return found


def _without_compute(linked: LinkedTrace, runs: pl.DataFrame) -> _Ints:
    found = np.zeros(runs.height, dtype=np.int64)
    starts, ends = (runs.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    for device in runs.get_column("device").unique().to_list():
        rows = (runs.get_column("device") == device).to_numpy()
        found[rows] = (
            ends[rows] - starts[rows] - compute_cover(linked, device).within(starts[rows], ends[rows])
        )
    return found


DETECTOR = Detector(
    "small-collectives",
    "many small collectives, back to back",
    "reduce one flat tensor or a bucket (DDP, dist.all_reduce_coalesced) instead of each tensor alone",
    small_collectives,
    (Need.COMMUNICATION,),
)
