"""Reserved against allocated memory, and calls to the device."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.memory.blocks import memory_source, peaks, usage_by_step
from tracebraid.analysis.memory.host import device_calls
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.analysis import Family, Need, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP
from tracebraid.model.answers.memory import DEVICE, AllocatorCall, MemorySource
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.linked_trace import LinkedTrace

_KEY = ["window", "step", "device"]


ALLOCATOR = Table(
    "allocator",
    "One row per device, and by step per device and step: how the allocator coped.",
    (
        RANK,
        STEP,
        DEVICE,
        Column("allocations", Kind.INT, "allocations"),
        Column("allocated_bytes", Kind.INT, "sum of their sizes"),
        Column("releases", Kind.INT, "releases"),
        Column("peak_allocated_bytes", Kind.INT, "most allocated at a moment"),
        Column(
            "peak_reserved_bytes",
            Kind.INT,
            "most reserved at a moment; null: this allocator reserves nothing",
        ),
        Column("reserved_at_peak_bytes", Kind.INT, "reserved when the most was allocated; null likewise"),
        Column(
            "unused_at_peak_bytes",
            Kind.INT,
            "of that not allocated; null likewise, or where it is below 0",
        ),
        Column(
            "fragmentation",
            Kind.FLOAT,
            "of the reserved at the peak, the share not allocated; null as that",
        ),
        Column("device_allocations", Kind.INT, "calls such as `cudaMalloc` for it"),
        Column("device_releases", Kind.INT, "calls such as `cudaFree` for it"),
        Column("device_call_ns", Kind.INT, "host time in both"),
        Column(
            "steady_device_allocations", Kind.INT, "of the allocating calls those in a step after the first"
        ),
        Column("retries", Kind.INT, "allocating calls that releasing calls of the same op came before"),
        DOUBTFUL,
    ),
)


@analysis(
    ALLOCATOR,
    Family.MEMORY,
    needs=(Need.MEMORY,),
    uses=(Need.STEPS,),
    shown=(
        "peak_allocated_bytes peak_reserved_bytes unused_at_peak_bytes fragmentation allocations "
        "device_allocations steady_device_allocations! retries! device_call_ns"
    ),
)
def allocator(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """How well does the allocator use what it reserves?

    Reserved against allocated memory, and calls to the device.

    With R and A reserved and allocated at the peak of A, unused = R - A and fragmentation = (R - A) / R. A call
    counts
    for the device of which its thread next allocates or releases memory; `allocator_calls` lists all, by op.

    Args:
        linked: one rank.
        per_step: rows for each step instead of over all.
    """
    if memory_source(linked) is MemorySource.STORAGES:
        return ALLOCATOR.empty()
    changes = usage_by_step(linked, per_step)
    size = pl.col("size_bytes")
    sums = changes.group_by(_KEY).agg(
        (size > 0).sum().alias("allocations"),
        size.filter(size > 0).sum().alias("allocated_bytes"),
        (size < 0).sum().alias("releases"),
        pl.col("reserved_bytes").max().alias("peak_reserved_bytes"),
    )
    at_peak = peaks(linked, per_step).select(
        *_KEY,
        pl.col("allocated_bytes").alias("peak_allocated_bytes"),
        pl.col("reserved_bytes").alias("reserved_at_peak_bytes"),
    )
    reserved = pl.col("reserved_at_peak_bytes")
    unused = reserved - pl.col("peak_allocated_bytes")
    # Nothing can be said of a trace by which less is reserved than allocated.
    unused = pl.when(unused >= 0).then(unused)
    counted = (
        "device_allocations",
        "device_releases",
        "device_call_ns",
        "steady_device_allocations",
        "retries",
    )
    found = (
        at_peak.join(sums, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
        .join(_calls(linked, per_step), on=["window", "device"], how="left", maintain_order="left")
        .with_columns(
            unused.alias("unused_at_peak_bytes"),
            pl.when(reserved > 0).then(unused / reserved).alias("fragmentation"),
            pl.col(counted).fill_null(0),
        )
    )
    return answer(ALLOCATOR, found, linked)


def _calls(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    """Counts of calls by window and device."""
    allocates = pl.col("kind") == AllocatorCall.ALLOCATION.value
    last_op = pl.col("op_row").shift(1).over("lane")
    again = ~allocates.shift(1).over("lane") & (last_op == pl.col("op_row")) & (pl.col("op_row") >= 0)
    calls = device_calls(linked).with_columns((allocates & again.fill_null(value=False)).alias("is_retry"))
    if per_step:
        windows = step_windows(linked).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("window"))
        calls = calls.drop("step").join_where(
            windows, pl.col("ts_ns") >= pl.col("start_ns"), pl.col("ts_ns") < pl.col("end_ns")
        )
    else:
        calls = calls.with_columns(pl.lit(0, dtype=pl.Int64).alias("window"))
    return calls.group_by("window", "device").agg(
        allocates.sum().alias("device_allocations"),
        (~allocates).sum().alias("device_releases"),
        pl.col("dur_ns").sum().alias("device_call_ns"),
        (allocates & pl.col("is_steady")).sum().alias("steady_device_allocations"),
        pl.col("is_retry").sum().alias("retries"),
    )
