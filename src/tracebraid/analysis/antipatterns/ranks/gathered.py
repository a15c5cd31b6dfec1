"""What detectors between ranks take of each: what its steps compute, and where its collectives are."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.time.intervals import cover_of
from tracebraid.analysis.time.step_windows import step_windows, windows_of
from tracebraid.analysis.time.work_events import HOST, compute_cover
from tracebraid.model.answers import EVIDENCE
from tracebraid.model.device_kind import COMPUTE
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["collective_sites", "step_compute"]


def step_compute(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """One row per step; without steps one of the whole trace: rank, step, length_ns, compute_ns.

    `compute_ns` is the time in which something computes that was launched in the step; without device work, in which
    an op computes on the host.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    has_steps = not step_windows(linked, annotation).is_empty()
    windows = windows_of(linked, annotation, per_step=has_steps)
    first, last = linked.timeline.span_ns or (0, 0)
    starts = np.maximum(windows.get_column("start_ns").to_numpy(), min(first, last))
    ends = np.minimum(windows.get_column("end_ns").to_numpy(), max(first, last))
    work = device_events_by_step(linked, annotation).filter(pl.col("kind") == COMPUTE)
    if linked.timeline.has_device:
        own = [
            work.filter(pl.col("step").eq_missing(pl.lit(step, dtype=pl.String))) if has_steps else work
            for step in windows.get_column("step").to_list()
        ]
        compute = [_length(rows) for rows in own]
    else:
        compute = compute_cover(linked, HOST).within(starts, np.maximum(starts, ends)).tolist()
    return windows.select(
        pl.lit(linked.rank, dtype=pl.Int64).alias("rank"),
        "step",
        pl.Series("length_ns", np.maximum(ends - starts, 0), dtype=pl.Int64),
        pl.Series("compute_ns", compute, dtype=pl.Int64),
    )


def _length(work: pl.DataFrame) -> int:
    starts, durations = (work.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    return cover_of(starts, starts + durations).length


def collective_sites(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """One row of `EVIDENCE` per member of a collective that has a length, on the rank's own clock.

    `saving_ns` is its duration, for a detector to lessen; `subject` is null.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    found = members(linked, annotation).select(
        "start_ns", "end_ns", (pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns"), "event_id"
    )
    events = device_events_by_step(linked, annotation).select("event_id", host_event="op_event")
    found = found.join(events, on="event_id", how="left", maintain_order="left")
    found = found.with_columns(pl.coalesce("host_event", "event_id"))
    return EVIDENCE.conform(evidence_of(linked, annotation, found))
