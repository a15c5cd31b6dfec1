"""Is the device idle because of what the host does from one step to the next, with nothing else to blame?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.idle_after import idle_after, in_stretches
from tracebraid.analysis.antipatterns.host.ranges import HostWork, ranges_of
from tracebraid.analysis.antipatterns.syncs.host_waits import host_waits
from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.event_columns import event_columns
from tracebraid.analysis.time.idle.idle_parts import MACRO_NS
from tracebraid.analysis.time.intervals import Cover, cover_of
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.answers import EVIDENCE
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["STEP_BOUNDARY"]

_TIMES = ["start_ns", "end_ns"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """What the path is idle because of the host's time from the last launch of a step to the first of the next."""
    delays = _delays(linked, annotation)
    if delays.is_empty():
        return EVIDENCE.empty()
    found = idle_after(linked, annotation, delays)
    starts, ends = (found.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    blamed = pl.Series("blamed_ns", _blamed(linked, annotation).within(starts, ends))
    # What is shorter is of the size of a few launches.
    alone = (pl.col("saving_ns") - pl.col("blamed_ns")).sum().over("event_id")
    found = found.with_columns(blamed).filter(alone >= MACRO_NS)
    return evidence_of(linked, annotation, found)


def _delays(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The host's time between the launches of two steps without loading, recording, compiling and waits.

    The event is the first work of the next step.
    """
    between = _between_steps(linked, annotation)
    known = _other_delays(linked, annotation)
    starts, ends = (known.get_column(name).to_numpy() for name in _TIMES)
    busy = cover_of(starts, np.maximum(starts, ends))
    first, last = linked.timeline.span_ns or (0, 0)
    free_from, free_to = np.r_[first, busy.ends], np.r_[busy.starts, max(first, last)]
    free = cover_of(free_from, np.maximum(free_from, free_to))
    return in_stretches(
        free, between.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns"))
    )


def _between_steps(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """From the last launch of each step to the first of the next; the event is the work that is first launched."""
    order = step_windows(linked, annotation).select("step").with_row_index("number")
    work = device_events_by_step(linked, annotation).join(order, on="step", maintain_order="left")
    launch = work.select(pl.coalesce("call_event", "op_event")).to_series()
    launched = event_columns(linked.timeline, launch, launched_ns="ts_ns")
    by_step = (
        work.with_columns(launched)
        .filter(pl.col("launched_ns").is_not_null())
        .sort("launched_ns", "event_id")
        .group_by("number")
        .agg(
            pl.col("launched_ns").first().alias("end_ns"),
            pl.col("launched_ns").last().alias("last_ns"),
            pl.col("event_id").first(),
        )
        .sort("number")
    )
    return by_step.select(
        pl.col("last_ns").cum_max().shift(1).alias("start_ns"),
        "end_ns",
        "event_id",
        pl.lit(None, dtype=pl.Int64).alias("host_event"),
        pl.lit(None, dtype=pl.String).alias("op"),
    ).filter(pl.col("start_ns") < pl.col("end_ns"))


def _other_delays(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """What other detectors find on the host: loading, recording, compiling, waits."""
    waits = host_waits(linked, annotation).select(_TIMES)
    return pl.concat([waits, *(ranges_of(linked, work).select(_TIMES) for work in HostWork)])


def _blamed(linked: LinkedTrace, annotation: str) -> Cover:
    """The moments in which the path is idle for what other detectors find, or the host does that."""
    delays = _other_delays(linked, annotation)
    found = pl.concat([delays, idle_after(linked, annotation, delays).select(_TIMES)])
    starts, ends = (found.get_column(name).to_numpy() for name in _TIMES)
    return cover_of(starts, np.maximum(starts, ends))


STEP_BOUNDARY = Detector(
    "step-boundary",
    "the device waits for what the host does from one step to the next",
    "Move what the host does between steps (Python, garbage collection, schedules, hooks) to where the device has work "
    "queued; gc.freeze() and zero_grad(set_to_none=True) help",
    _detect,
    (Need.DEVICE_WORK, Need.STEPS),
)
