"""Collectives by operation, process group, type and size, the most exposed first: `EXPOSED_COLLECTIVES`."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.time.breakdown import Cover, compute_cover, cover_of, owned, spans_apart
from tracebraid.analysis.time.collective_events import collective_events
from tracebraid.analysis.time.step_windows import in_order_of_steps, windows_of
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers.time import EXPOSED_COLLECTIVES
from tracebraid.model.linked_trace import LinkedTrace

_KEY = ["device", "name", "process_group", "description", "dtype", "message_bytes"]


@analysis(
    EXPOSED_COLLECTIVES,
    Family.TIME,
    needs=(Need.COMMUNICATION,),
    uses=(Need.DEVICE_WORK, Need.KNOWN_OPS, Need.STEPS, Need.COLLECTIVES),
    shown="name exposed_ns share total_ns count message_bytes dtype process_group description",
    when_empty="no collective is in the steps",
    formula=(
        "A moment in which a device communicates and computes nothing counts once, for the collective "
        "that began first; the rows of a step add up to its exposed communication."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("exposed_ns",)),
    stored=Stored.ALWAYS,
)
def exposed_collectives(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """Which collectives are not hidden behind compute?

    Collectives by operation, process group, type and size, the most exposed first: `EXPOSED_COLLECTIVES`.

    A moment is exposed where some collective runs on a device that computes nothing. It counts once: for the
    collective that began first of those that run, of equal starts for that which the file has first. So the exposed
    times of a device add up to `exposed_communication_ns` of `breakdown`, for the whole and for each step, to the
    nanosecond. In a trace without device work, a host op that asks a backend to communicate (`c10d::allreduce_`)
    has exposed time only while no backend (`gloo:all_reduce`) communicates, and is a collective of its own only where
    its process group has no ranges of a backend.

    Args:
        linked: one rank.
        per_step: rows for each step, by what runs in its time, instead of over the whole trace.
    """
    events = collective_events(linked)
    windows = spans_apart(linked) if per_step else windows_of(linked, per_step=False)
    if events.is_empty() or windows.is_empty():
        return EXPOSED_COLLECTIVES.empty()
    devices = events.get_column("device").unique().to_list()
    frames = [
        _with_exposed(events.filter(pl.col("device") == device), compute_cover(linked, device), windows)
        for device in devices
    ]
    exposed = pl.col("exposed_ns")
    of_device = exposed.sum().over("step", "device")
    return (
        pl.concat(frames)
        .group_by("step", *_KEY)
        .agg(pl.col("counts").sum().alias("count"), pl.col("total_ns").sum(), exposed.sum())
        .with_columns(pl.when(of_device > 0).then(exposed / of_device).alias("share"))
        .sort("exposed_ns", "total_ns", *_KEY, descending=[True, True] + [False] * len(_KEY), nulls_last=True)
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(EXPOSED_COLLECTIVES, frame, linked))
    )


def _with_exposed(events: pl.DataFrame, compute: Cover, windows: pl.DataFrame) -> pl.DataFrame:
    """The collectives of a device in each window in which they run: step, the key, total_ns, exposed_ns."""
    backends = events.filter(~pl.col("asks"))
    asking = events.filter("asks")
    starts, ends = (backends.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    either = cover_of(np.r_[compute.starts, starts], np.r_[compute.ends, ends])
    return pl.concat([_of_level(backends, compute, windows), _of_level(asking, either, windows)])


def _of_level(events: pl.DataFrame, hides: Cover, windows: pl.DataFrame) -> pl.DataFrame:
    """The same for collectives of which each moment counts for the first, unless another cover hides it."""
    starts, ends = (events.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    first, last = owned(starts, ends)
    # One without length runs where it begins.
    stop = np.maximum(ends, starts + 1)
    pairs = events.with_columns(
        pl.Series("stop", stop), pl.Series("first", first), pl.Series("last", last)
    ).join_where(
        windows.select("step", "start_ns", pl.col("end_ns").alias("until_ns")),
        pl.col("ts_ns") < pl.col("until_ns"),
        pl.col("stop") > pl.col("start_ns"),
    )

    def clipped(name: str) -> pl.Expr:
        return pl.col(name).clip(pl.col("start_ns"), pl.col("until_ns")).alias(name)

    clip = pairs.select(clipped(name) for name in ("ts_ns", "end_ns", "first", "last"))
    a, b = (clip.get_column(name).to_numpy() for name in ("first", "last"))
    return pairs.select(
        "step",
        *_KEY,
        "counts",
        clip.select(pl.col("end_ns") - pl.col("ts_ns")).to_series().alias("total_ns"),
        pl.Series("exposed_ns", b - a - hides.within(a, b)),
    )
