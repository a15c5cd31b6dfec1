"""Communication over all, then by process group and stream."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.answering import answer
from tracebraid.analysis.time.breakdown import Cover, compute_cover, cover_of, step_spans
from tracebraid.analysis.time.collective_events import collective_events
from tracebraid.analysis.time.step_windows import windows_of
from tracebraid.model.analysis import Family, Need, OnPage, Stored, analysis
from tracebraid.model.answers.time import OVERLAP
from tracebraid.model.linked_trace import LinkedTrace

_Ints = NDArray[np.int64]
_KEY = ["process_group", "description", "stream"]


@analysis(
    OVERLAP,
    Family.TIME,
    needs=(Need.COMMUNICATION,),
    uses=(Need.DEVICE_WORK, Need.KNOWN_OPS, Need.STEPS, Need.COLLECTIVES),
    shown=("process_group stream communication_ns overlap_ns! exposed_ns overlap_share! count description"),
    formula=(
        "With C the moments in which some of the collectives runs and P all compute of the device: comm ="
        " |C|, overlap = |C and P|, exposed = |C without P|, overlap share = overlap / comm."
    ),
    on_page=OnPage(),
    stored=Stored.ALWAYS,
)
def overlap(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """How much communication is hidden behind compute?

    Communication over all, then by process group and stream.

    With C the moments in which some of the collectives runs and P those in which something computes on the device:
    communication = |C|, overlap = |C & P|, exposed = |C - P|. The row over all has the figures of `breakdown`; those
    of groups do not add up to it where two communicate at once: `exposed_collectives` counts each moment once. Where
    there is no device work, ops on threads of the host stand for kernels on streams.

    Args:
        linked: one rank.
        per_step: rows for each step, by what runs in its time, instead of over the whole trace.
    """
    events = collective_events(linked)
    windows = step_spans(linked) if per_step else windows_of(linked, per_step=False)
    if events.is_empty() or windows.is_empty():
        return OVERLAP.empty()
    frames = []
    devices = events.get_column("device").unique().to_list()
    for device in sorted(devices, key=lambda name: (len(name), name)):
        of_device = events.filter(pl.col("device") == device)
        compute = compute_cover(linked, device)
        groups = of_device.select(_KEY).unique().sort(_KEY, nulls_last=True)
        frames.append(_rows(of_device, groups.clear(n=1), compute, windows))
        for row in range(groups.height):
            of_group = of_device.join(groups[row], on=_KEY, how="semi", nulls_equal=True)
            frames.append(_rows(of_group, groups[row], compute, windows))
    return (
        pl.concat(frames)
        .sort("window", maintain_order=True)
        .pipe(lambda frame: answer(OVERLAP, frame, linked))
    )


def _rows(events: pl.DataFrame, key: pl.DataFrame, compute: Cover, windows: pl.DataFrame) -> pl.DataFrame:
    """A row for each window in which some collectives run, with its number."""
    starts, ends = (events.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    first, last = (windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    counts = events.get_column("counts").to_numpy()
    cover = cover_of(starts, ends)
    communication = cover.within(first, last)
    hidden = cover.shared_within(compute, first, last)
    return (
        windows.select("step")
        .with_row_index("window")
        .with_columns(
            pl.lit(events.get_column("device")[0]).alias("device"),
            *(key.get_column(name).new_from_index(0, windows.height) for name in _KEY),
            pl.Series("count", _running(starts[counts], ends[counts], first, last)),
            pl.Series("running", _running(starts, ends, first, last)),
            pl.Series("communication_ns", communication),
            pl.Series("overlap_ns", hidden),
            pl.Series("exposed_ns", communication - hidden),
        )
        .filter(pl.col("running") > 0)
        .with_columns(
            pl.when(pl.col("communication_ns") > 0)
            .then(pl.col("overlap_ns") / pl.col("communication_ns"))
            .alias("overlap_share")
        )
    )


def _running(starts: _Ints, ends: _Ints, first: _Ints, last: _Ints) -> _Ints:
    """Return how many intervals begin before the end of each window and do not end before it begins."""
    begun = np.searchsorted(np.sort(starts), last, side="left")
    # One without length counts where it begins.
    over = np.searchsorted(np.sort(np.maximum(ends, starts + 1)), first, side="right")
    running: _Ints = np.maximum(begun - over, 0)
    return running
