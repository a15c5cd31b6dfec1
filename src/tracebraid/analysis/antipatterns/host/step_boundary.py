"""Is the device idle from one step to the next, with nothing else to blame?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.idle_after import device_idle, idle_after
from tracebraid.analysis.antipatterns.host.ranges import HostWork, ranges_of
from tracebraid.analysis.antipatterns.syncs.host_waits import host_waits
from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.time.idle.idle_parts import MACRO_NS
from tracebraid.analysis.time.intervals import Cover, cover_of
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["STEP_BOUNDARY"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    found = _between_steps(linked, annotation)
    starts, ends = (found.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    idle = device_idle(linked)
    blamed = idle.shared_within(_blamed(linked, annotation), starts, ends)
    saving = pl.Series("saving_ns", idle.within(starts, ends) - blamed)
    # What is shorter is of the size of a few launches.
    found = found.with_columns(saving).filter(pl.col("saving_ns") >= MACRO_NS)
    return evidence_of(linked, annotation, found)


def _between_steps(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """From the end of the work of each step to the first work of the next; the event is that work."""
    order = step_windows(linked, annotation).select("step").with_row_index("number")
    work = device_events_by_step(linked, annotation).join(order, on="step")
    by_step = (
        work.sort("ts_ns", "event_id")
        .group_by("number")
        .agg(
            pl.col("ts_ns", "event_id").first(),
            (pl.col("ts_ns") + pl.col("dur_ns")).max().alias("busy_until_ns"),
        )
        .sort("number")
    )
    return by_step.select(
        pl.col("busy_until_ns").cum_max().shift(1).alias("start_ns"),
        pl.col("ts_ns").alias("end_ns"),
        "event_id",
        pl.lit(None, dtype=pl.Int64).alias("host_event"),
        pl.lit(None, dtype=pl.String).alias("op"),
    ).filter(pl.col("start_ns") < pl.col("end_ns"))


def _blamed(linked: LinkedTrace, annotation: str) -> Cover:
    """The moments in which the device is idle for what other detectors find: loading, recording, compiling, waits."""
    times = ["start_ns", "end_ns"]
    delays = pl.concat(
        [
            host_waits(linked, annotation).select(times),
            *(ranges_of(linked, work).select(times) for work in HostWork),
        ]
    )
    found = pl.concat([delays, idle_after(linked, annotation, delays).select(times)])
    starts, ends = (found.get_column(name).to_numpy() for name in times)
    return cover_of(starts, np.maximum(starts, ends))


STEP_BOUNDARY = Detector(
    "step-boundary",
    "the device is idle from one step to the next",
    "Move what the host does between steps (Python, garbage collection, schedules, hooks) to where the device has work "
    "queued; gc.freeze() and zero_grad(set_to_none=True) help",
    _detect,
    (Need.DEVICE_WORK, Need.STEPS),
)
