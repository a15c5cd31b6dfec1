"""Is memory that is not pinned copied to the device?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.idle_after import idle_after
from tracebraid.analysis.launches.copies.copied import copied
from tracebraid.analysis.time.intervals import cover_of
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.answers import Direction
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["PAGEABLE_COPY"]

_WHAT = ["start_ns", "end_ns", "saving_ns", "event_id", "host_event", "subject"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    pageable = (pl.col("direction") == Direction.HOST_TO_DEVICE.value) & ~pl.col("pinned")
    copies = copied(linked, annotation).filter(pageable.fill_null(value=False))
    named = copies.with_columns(
        pl.coalesce("call_event", "event_id").alias("host_event"), pl.col("name").alias("subject")
    )
    calls = named.filter(pl.col("call_event").is_not_null()).with_columns(
        pl.col("called_ns").alias("start_ns"), pl.col("returned_ns").alias("end_ns")
    )
    waited = idle_after(linked, annotation, calls).select(_WHAT)
    return evidence_of(linked, annotation, pl.concat([waited, _exposed(linked, named).select(_WHAT)]))


def _exposed(linked: LinkedTrace, copies: pl.DataFrame) -> pl.DataFrame:
    """The copies themselves: what of each nothing else that works on a device hides."""
    others = work_events(linked).join(copies.select("event_id"), on="event_id", how="anti")
    starts = others.get_column("ts_ns").to_numpy()
    hidden = cover_of(starts, starts + others.get_column("dur_ns").to_numpy())
    starts, ends = (copies.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    return copies.with_columns(
        pl.col("ts_ns").alias("start_ns"),
        pl.Series("saving_ns", ends - starts - hidden.within(starts, ends)),
    )


PAGEABLE_COPY = Detector(
    "pageable-copy",
    "memory that is not pinned is copied to the device: the host waits, and nothing overlaps",
    "pin_memory=True in the DataLoader, or tensor.pin_memory(), and to(device, non_blocking=True)",
    _detect,
    (Need.DEVICE_WORK,),
)
