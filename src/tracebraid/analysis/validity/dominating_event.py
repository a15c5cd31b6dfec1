"""Which single device event makes nearly all device time, unlike all others?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.validity.confirmed_ends import with_confirmed_end
from tracebraid.analysis.validity.doubts import about_events, device_work
from tracebraid.model.answers import Doubt
from tracebraid.model.device_kind import COMMUNICATION, WAIT
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["dominating_events"]

_SHARE = 0.95
"""Share of the device time from which on an event dominates. In sound traces of training and inference the longest
event was seen with up to 0.7; the malformed ones that were reported had 0.95 and more."""
_SHARE_OF_COMMUNICATION = 0.99
"""The same for communication, which may wait for another rank as long as that takes."""
_COPY_GB_PER_S = 0.1
"""A copy that is at least so fast is long because it is large; pageable memory is copied at 1 GB/s and more."""
_OTHERS = 10
"""Other events, at least: of a few events a longest is no surprise."""
_TIMES_NEXT = 20
"""How many times as long as the next longest it is, at least."""
_TIMES_ITS_NAME = 10
"""How many times as long as the (lower) median of its name it is, at least, where there are others of that name."""


def dominating_events(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Events that make nearly all of the device time that a step launched, or of the whole trace.

    An event whose end is confirmed by what waited for it is long, and not malformed: see `confirmed_ends`.
    """
    work = device_work(linked, annotation).filter(pl.col("kind") != WAIT)
    by_step = work.group_by("step").agg(
        pl.len().alias("events"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.when(pl.len() > 1).then(pl.col("dur_ns").top_k(2).min()).otherwise(0).alias("next_ns"),
        pl.col("dur_ns").max(),
        pl.col("event_id", "kind", "name").get(pl.col("dur_ns").arg_max()),
    )
    whole = by_step.select(
        pl.col("events", "total_ns").sum(),
        pl.col("dur_ns").append(pl.col("next_ns")).top_k(2).min().alias("next_ns"),
        pl.col("dur_ns").max(),
        pl.col("event_id", "kind", "name").get(pl.col("dur_ns").arg_max()),
    )
    longest = pl.concat([by_step.drop("step"), whole.select(by_step.drop("step").columns)])
    share = pl.when(pl.col("kind") == COMMUNICATION).then(_SHARE_OF_COMMUNICATION).otherwise(_SHARE)
    suspects = longest.filter(
        (pl.col("events") > _OTHERS)
        & (pl.col("dur_ns") >= share * pl.col("total_ns"))
        & (pl.col("dur_ns") >= _TIMES_NEXT * pl.col("next_ns"))
        & (pl.col("dur_ns") > 0)
    ).unique("event_id")
    alike = (
        work.join(suspects.select("name"), on="name", how="semi")
        .group_by("name")
        .agg(pl.col("dur_ns").quantile(0.5, "lower").alias("usual_ns"), pl.len().alias("of_name"))
        .filter(pl.col("of_name") > 1)
    )
    unlike = suspects.join(alike, on="name", how="left").filter(
        pl.col("dur_ns") >= _TIMES_ITS_NAME * pl.col("usual_ns").fill_null(0)
    )
    copies = linked.timeline.device_work.select("event_id", "size_bytes")
    found = (
        work.join(unlike.select("event_id"), on="event_id", how="semi")
        .join(copies, on="event_id", how="left")
        .filter((pl.col("size_bytes") >= _COPY_GB_PER_S * pl.col("dur_ns")).ne_missing(other=True))
    )
    if not found.is_empty():
        sound = with_confirmed_end(found, work, linked, annotation)
        found = found.join(sound, on="event_id", how="anti", maintain_order="left")
    events = found.select("event_id", "ts_ns", "end_ns", "step", pl.col("dur_ns").alias("time_ns"))
    return about_events(Doubt.EVENT_DOMINATES, events, linked, annotation)
