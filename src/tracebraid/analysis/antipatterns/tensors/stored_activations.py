"""Activations that are copied to the host in the forward pass, and back in the backward pass, not behind compute."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.evidence.device_work import device_work
from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.event_columns import event_columns, fetched, rows_of_events
from tracebraid.analysis.memory.host.passes import passes
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTOR", "LEAST_BYTES", "stored_activations"]

LEAST_BYTES = 1024 * 1024
"""Size of an activation that is worth storing elsewhere; counters and losses are copied to the host, too."""

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

_TO_HOST, _TO_DEVICE = r"DtoH|CopyDeviceToHost", r"HtoD|CopyHostToDevice"


def stored_activations(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Copies to the host in a forward pass, and copies of the same size back in its backward pass.

    Of each size as many count as went both ways. A copy saves at most its time in which nothing computes: behind
    compute, storing is free. What activations cost in the device's own memory takes no time of its own; where it is
    too much, the allocator's retries do, which have a detector.

    Args:
        linked: one rank, with device work.
        annotation: what marks a step.
    """
    work = device_work(linked, annotation)
    known = linked.timeline.device_work
    rows = rows_of_events(known.get_column("event_id"), work.get_column("event_id"))
    launch = work.select(pl.coalesce("call_event", "op_event")).to_series()
    to_host, to_device = (pl.col("name").str.contains(text) for text in (_TO_HOST, _TO_DEVICE))
    copies = (
        work.with_columns(
            fetched(known.select("size_bytes"), rows).to_series(),
            event_columns(linked.timeline, launch, called="ts_ns")[0],
        )
        .filter(
            (pl.col("size_bytes") >= LEAST_BYTES) & (to_host | to_device) & pl.col("called").is_not_null()
        )
        .with_columns(to_device.alias("back"))
    )
    number, fits = _passes_of(linked, annotation, copies)
    key = ["number", "size_bytes"]
    there = (~pl.col("back")).sum().over(key)
    again = pl.col("back").sum().over(key)
    found = (
        copies.with_columns(pl.Series("number", number))
        .filter(pl.Series(fits, dtype=pl.Boolean))
        .sort("ts_ns", "event_id")
        .filter(pl.int_range(pl.len()).over(*key, "back") < pl.min_horizontal(there, again))
    )
    return evidence_of(
        linked,
        annotation,
        found.select(
            pl.col("ts_ns").alias("start_ns"),
            "end_ns",
            pl.col("alone_ns").alias("saving_ns"),
            "event_id",
            pl.col("op_event").alias("host_event"),
            pl.col("name").alias("subject"),
        ),
    )


def _passes_of(linked: LinkedTrace, annotation: str, copies: pl.DataFrame) -> tuple[_Ints, _Bools]:
    """Of each copy the number of the backward pass that it is for, and whether it lies in it or in its forward."""
    of_pass = passes(linked, annotation)
    called = copies.get_column("called").to_numpy()
    holding = of_pass.holding(called)
    inside = (holding >= 0) & (called < of_pass.at(of_pass.end_ns, holding))
    back = copies.get_column("back").to_numpy()
    number = np.where(back, np.where(inside, holding, -1), of_pass.coming(called))
    fits = (number >= 0) & (number < len(of_pass.begin_ns))
    fits &= back | (called >= of_pass.at(of_pass.forward_ns, number))
    return number, fits


DETECTOR = Detector(
    "stored-activations",
    "activations stored on the host, for which the device waits",
    "recompute them (torch.utils.checkpoint), keep them on the device, or copy them on a stream of their own",
    stored_activations,
    (Need.DEVICE_WORK,),
)
