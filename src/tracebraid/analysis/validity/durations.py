"""Which durations does the file have that cannot be: negative, wrapped around, missing?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.validity.doubts import DOUBTS, about_events
from tracebraid.model.answers import Doubt
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["unusable_durations"]

_JUDGED = (Role.OP, Role.ANNOTATION, Role.CALL, Role.PYTHON, Role.DEVICE_WORK)


def unusable_durations(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Events of host and device whose duration the reader had to replace by 0, see `UNUSABLE_DURATIONS`.

    A reader that does not say which events they are (that of Nsight Systems) has its doubt in no step.
    """
    timeline = linked.timeline
    damaged = timeline.tables["unusable_durations"]
    counted = sum(
        finding.count for finding in timeline.findings if finding.code is FindingCode.EVENT_DURATION
    )
    unlocated = pl.DataFrame(
        [(None, Doubt.DURATION_OVERFLOWS.value, counted - damaged.height, None, None)],
        schema=DOUBTS,
        orient="row",
    ).filter(pl.col("count") > 0)
    if damaged.is_empty():
        return unlocated
    work = device_events_by_step(linked, annotation).select("event_id", "step")
    events = (
        timeline.events.join(damaged, on="event_id", how="semi")
        .filter(as_text("category").is_in(categories_of(*_JUDGED)))
        .join(work, on="event_id", how="left")
        .select(
            "event_id",
            "ts_ns",
            pl.col("ts_ns").alias("end_ns"),
            pl.lit(None, dtype=pl.Int64).alias("time_ns"),
            "step",
        )
    )
    located = about_events(Doubt.DURATION_OVERFLOWS, events, linked, annotation)
    return pl.concat([located, unlocated])
