"""What is alive when the most memory is allocated: by category, op and module?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.memory.blocks.blocks import blocks, blocks_of_storages, memory_source
from tracebraid.analysis.memory.blocks.pairing import CPU
from tracebraid.analysis.memory.blocks.peaks import peaks
from tracebraid.analysis.memory.host.passes import NEVER
from tracebraid.model.answers import MEMORY_AT_PEAK, MemoryCategory, MemorySource
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["memory_at_peak"]

_PEAK = ["window", "step", "device"]
_GROUP = ["category", "op", "module"]
_NOTHING = pl.DataFrame(
    schema={
        "window": pl.Int64,
        **dict.fromkeys(("step", "device", *_GROUP), pl.String),
        "size_bytes": pl.Int64,
    }
)


def memory_at_peak(
    linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP
) -> pl.DataFrame:
    """What is alive at each device's peak, the largest first: `model.answers.MEMORY_AT_PEAK`.

    The rows of a device and step add up to its peak, to the byte. What was allocated before the trace is the peak less
    what the trace allocated. On devices the storages of the Execution Trace say what a part of it is: those that no op
    of the trace made and that are used before and after the peak, or are parameters or state of the optimizer, if they
    are not more than that difference; the rest is of the category `before-trace`. The allocator of the CPU counts
    nothing from before the process was first profiled.

    Args:
        linked: one rank.
        per_step: at the peak of each step instead of the trace's.
        annotation: what marks a step, see `steps`.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    of_peak = peaks(linked, annotation, per_step)
    alive = _alive_at_peaks(linked, annotation, of_peak)
    found = [_summed(alive)]
    if memory_source(linked) is MemorySource.INSTANTS:
        known = _summed(_known_before(linked, annotation, of_peak))
        found += [known, _unknown_before(of_peak, known)]
    rows = pl.concat(found).join(of_peak.select(*_PEAK, "allocated_bytes"), on=_PEAK, nulls_equal=True)
    share = pl.when(pl.col("allocated_bytes") != 0).then(pl.col("bytes") / pl.col("allocated_bytes"))
    order = of_peak.select(*_PEAK).with_row_index("peak")
    in_order = (
        rows.with_columns(share.alias("share"))
        .join(order, on=_PEAK, nulls_equal=True)
        .sort("peak", "bytes", *_GROUP, descending=[False, True, False, False, False])
    )
    return answer(MEMORY_AT_PEAK, in_order, linked, annotation)


def _alive_at_peaks(linked: LinkedTrace, annotation: str, of_peak: pl.DataFrame) -> pl.DataFrame:
    """The blocks that are alive at each peak; those from before the trace only where they come from storages."""
    found = blocks(linked, annotation).filter(pl.col("begin_order").is_not_null())
    known = found.select(
        "device", *_GROUP, "size_bytes", "begin_order", pl.col("end_order").fill_null(NEVER)
    ).partition_by("device", as_dict=True)
    # By device, because polars joins by equality first: each block with each step.
    alive = [
        known[device]
        .drop("device")
        .join_where(
            of_device, pl.col("begin_order") <= pl.col("order"), pl.col("end_order") > pl.col("order")
        )
        for device, of_device in of_peak.select(*_PEAK, "order").partition_by("device", as_dict=True).items()
        if device in known
    ]
    columns = (*_PEAK, *_GROUP, "size_bytes")
    return pl.concat([_NOTHING, *(blocks_alive.select(columns) for blocks_alive in alive)])


def _summed(alive: pl.DataFrame) -> pl.DataFrame:
    return alive.group_by(*_PEAK, *_GROUP).agg(
        pl.col("size_bytes").sum().alias("bytes"), pl.len().cast(pl.Int64).alias("count")
    )


def _known_before(linked: LinkedTrace, annotation: str, of_peak: pl.DataFrame) -> pl.DataFrame:
    """The storages from before the trace that are alive at each peak, where they fit into what was allocated then."""
    before = blocks_of_storages(linked, annotation).filter(pl.col("phase").is_null()).drop("step")
    pairs = before.join(of_peak, on="device").filter(
        (pl.col("end_ns").is_null() | (pl.col("end_ns") > pl.col("ts_ns")))
        & (pl.col("begin_ns").is_null() | (pl.col("begin_ns") <= pl.col("ts_ns")))
        & (pl.col("category") != MemoryCategory.BEFORE_TRACE.value)
        & (pl.col("device") != CPU)
    )
    fits = pl.col("size_bytes").sum().over(_PEAK) <= pl.col("allocated_bytes") - pl.col("alive_bytes")
    return pairs.filter(fits).select(*_PEAK, *_GROUP, "size_bytes")


def _unknown_before(of_peak: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    explained = known.group_by(_PEAK).agg(pl.col("bytes").sum().alias("known_bytes"))
    rest = pl.col("allocated_bytes") - pl.col("alive_bytes") - pl.col("known_bytes").fill_null(0)
    found = of_peak.join(explained, on=_PEAK, how="left", nulls_equal=True).with_columns(rest.alias("bytes"))
    return found.filter(pl.col("bytes") != 0).select(
        *_PEAK,
        pl.lit(MemoryCategory.BEFORE_TRACE.value).alias("category"),
        *(pl.lit(None, dtype=pl.String).alias(name) for name in ("op", "module")),
        "bytes",
        pl.lit(None, dtype=pl.Int64).alias("count"),
    )
