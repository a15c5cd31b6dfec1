"""Memory in use: each allocation with its release, over time, and at its peak."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.host.host_rows import modules_of_rows, names_of_rows
from tracebraid.analysis.memory.blocks import blocks, blocks_of_storages, memory_source, peaks, usage
from tracebraid.analysis.memory.host import NEVER, host_context
from tracebraid.analysis.memory.pairing import CPU
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP
from tracebraid.model.answers.memory import CATEGORY, DEVICE, MODULE, OP, MemoryCategory, MemorySource
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.linked_trace import LinkedTrace

ALLOCATIONS = Table(
    "allocations",
    "One row per allocation, with its release; in the order of allocation, those from before the trace first.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step in which it was allocated; null: in none"),
        DEVICE,
        Column(
            "allocated_ns",
            Kind.INT,
            "when; null: before the trace; of a storage that no op made the first use, if it is no parameter or state",
        ),
        Column(
            "released_ns", Kind.INT, "when; null: still alive at the trace's end; of storages the last use"
        ),
        Column("lifetime_ns", Kind.INT, "from the one to the other; null if either is null"),
        Column("size_bytes", Kind.INT, "its size"),
        Column("address", Kind.INT, "its address"),
        CATEGORY,
        Column("rule", Kind.TEXT, "rule of the category, a code of `CategoryRule`"),
        Column(
            "phase",
            Kind.TEXT,
            "phase of the step in which it was allocated, a code of `TrainingPhase`; null: before",
        ),
        Column("released_in", Kind.TEXT, "phase in which it was released; null: not released"),
        OP,
        Column("top_op", Kind.TEXT, "outermost op around the allocation; null: none"),
        MODULE,
        Column("annotation", Kind.TEXT, "innermost annotation around it that is no step; null: none"),
        Column(
            "shape", Kind.TEXT, "shape of the tensor, as JSON; null: no Execution Trace, or not found in it"
        ),
        Column("dtype", Kind.TEXT, "its element type, in C++ words; null likewise"),
        DOUBTFUL,
    ),
)


@analysis(
    ALLOCATIONS,
    Family.MEMORY,
    needs=(Need.ALLOCATIONS,),
    uses=(Need.MEMORY, Need.EXECUTION_TRACE, Need.MODULES, Need.STEPS),
    shown=("size_bytes allocated_ns lifetime_ns category op module shape phase released_in rule dtype"),
    picked_by=("size_bytes",),
    formula="An allocation and the next release at its address on its device.",
    on_page=OnPage(Rows.TABLE_ROWS, by=("size_bytes",)),
)
def allocations(linked: LinkedTrace) -> pl.DataFrame:
    """What was allocated, by which op, and when was it freed?

    Each allocation with its release, in the order of allocation.

    An allocation and the next release at its address are a pair. In a trace without `[memory]` instants the rows are
    the storages of the Execution Trace, from the op that made each to the last that uses it.

    Args:
        linked: one rank.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    found = blocks(linked).with_columns(
        pl.col("begin_ns").alias("allocated_ns"),
        pl.col("end_ns").alias("released_ns"),
        (pl.col("end_ns") - pl.col("begin_ns")).alias("lifetime_ns"),
    )
    return answer(ALLOCATIONS, found, linked)


SOURCE = Column(
    "source",
    Kind.TEXT,
    "`instants` of the allocator, or `storages` of the Execution Trace (a lower bound): see `MemorySource`",
)

_STEP_OF_MOMENT = Column("step", Kind.TEXT, "the step that holds the moment; null: none")

MEMORY_TIMELINE = Table(
    "memory_timeline",
    "One row per change of a device's allocated memory, in the order of time.",
    (
        RANK,
        _STEP_OF_MOMENT,
        Column("ts_ns", Kind.INT, "the moment"),
        DEVICE,
        SOURCE,
        Column("size_bytes", Kind.INT, "allocated (+) or released (-)"),
        Column("allocated_bytes", Kind.INT, "allocated after it"),
        Column(
            "reserved_bytes", Kind.INT, "reserved by the allocator after it; null: the source does not say"
        ),
        OP,
        DOUBTFUL,
    ),
)


@analysis(
    MEMORY_TIMELINE,
    Family.MEMORY,
    needs=(Need.ALLOCATIONS,),
    uses=(Need.MEMORY,),
    shown="ts_ns size_bytes allocated_bytes reserved_bytes op",
    formula=(
        "What the allocator reports with each allocation and release; without allocations in the trace "
        "the storages of the Execution Trace, from the op that makes each to the last that uses it: a "
        "lower bound."
    ),
    on_page=OnPage(Rows.SERIES_ROWS, by=("allocated_bytes",), is_series=True),
)
def memory_timeline(linked: LinkedTrace) -> pl.DataFrame:
    """How much memory is in use over time?

    The changes of each device's allocated memory in the order of time.

    From the allocator's `[memory]` instants; in a trace without any, from the storages of the Execution Trace, each
    from the op that made it to the last that uses it, which is a lower bound.

    Args:
        linked: one rank.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    changes = usage(linked).sort("ts_ns", "order")
    context = host_context(linked)
    op = context.of_rows(context.op, changes.get_column("row").to_numpy())
    found = step_of_moments(changes, step_windows(linked)).with_columns(
        names_of_rows(linked, op).cast(pl.String).alias("op"),
        pl.lit(memory_source(linked).value).alias("source"),
    )
    return answer(MEMORY_TIMELINE, found, linked)


MEMORY_PEAK = Table(
    "memory_peak",
    "One row per device, and by step per device and step: the moment at which the most is allocated.",
    (
        RANK,
        STEP,
        DEVICE,
        SOURCE,
        Column("peak_ns", Kind.INT, "when, the first time"),
        Column("peak_bytes", Kind.INT, "allocated then"),
        Column("reserved_bytes", Kind.INT, "reserved by the allocator then; null: the source does not say"),
        Column("before_trace_bytes", Kind.INT, "of the peak: allocated before the trace"),
        Column("in_trace_bytes", Kind.INT, "of the peak: allocated in the trace"),
        Column("allocations", Kind.INT, "allocations of the trace that are alive then"),
        OP,
        MODULE,
        DOUBTFUL,
    ),
)


@analysis(
    MEMORY_PEAK,
    Family.MEMORY,
    needs=(Need.ALLOCATIONS,),
    uses=(Need.MEMORY, Need.EXECUTION_TRACE, Need.MODULES, Need.STEPS),
    shown=(
        "peak_ns peak_bytes before_trace_bytes in_trace_bytes reserved_bytes allocations op module source"
    ),
    when_empty="no allocation or storage of a known size is in the trace",
    formula="The first moment at which the allocated memory is largest.",
    on_page=OnPage(),
    stored=Stored.OF_FEW_EVENTS,
)
def memory_peak(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """When does memory peak, and which op brought it there?

    The peak of each device's allocated memory.

    Args:
        linked: one rank.
        per_step: the peak of each step, what it found allocated included, instead of the trace's.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    found = peaks(linked, per_step)
    context, rows = host_context(linked), found.get_column("row").to_numpy()
    found = found.select(
        "step",
        "device",
        pl.lit(memory_source(linked).value).alias("source"),
        pl.col("ts_ns").alias("peak_ns"),
        pl.col("allocated_bytes").alias("peak_bytes"),
        "reserved_bytes",
        (pl.col("allocated_bytes") - pl.col("alive_bytes")).alias("before_trace_bytes"),
        pl.col("alive_bytes").alias("in_trace_bytes"),
        pl.col("alive_blocks").alias("allocations"),
        names_of_rows(linked, context.of_rows(context.op, rows)).cast(pl.String).alias("op"),
        modules_of_rows(linked, context.of_rows(context.module, rows)).cast(pl.String).alias("module"),
    )
    return answer(MEMORY_PEAK, found, linked)


_PEAK = ["window", "step", "device"]
_GROUP = ["category", "op", "module"]
_NOTHING = pl.DataFrame(
    schema={
        "window": pl.Int64,
        **dict.fromkeys(("step", "device", *_GROUP), pl.String),
        "size_bytes": pl.Int64,
    }
)


MEMORY_AT_PEAK = Table(
    "memory_at_peak",
    "One row per category, op and module of memory alive at a device's peak, largest first. They add up to the peak.",
    (
        RANK,
        STEP,
        DEVICE,
        CATEGORY,
        OP,
        MODULE,
        Column("bytes", Kind.INT, "their size"),
        Column("count", Kind.INT, "allocations; null: from before the trace, in unknown number"),
        Column("share", Kind.FLOAT, "of the peak, 0 to 1"),
        DOUBTFUL,
    ),
)


@analysis(
    MEMORY_AT_PEAK,
    Family.MEMORY,
    needs=(Need.ALLOCATIONS,),
    uses=(Need.MEMORY, Need.EXECUTION_TRACE, Need.MODULES, Need.STEPS),
    shown="category bytes share count op module",
    when_empty="no allocation or storage of a known size is in the trace",
    formula=(
        "What is alive then; the rows add up to the peak, to the byte. Categories follow from how ops use"
        " an allocation: see docs/analyses/memory."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("bytes",)),
)
def memory_at_peak(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """What holds the memory at its peak?

    What is alive at each device's peak, the largest first.

    The rows of a device and step add up to its peak, to the byte. What was allocated before the trace is the peak
    less
    what the trace allocated. On devices the storages of the Execution Trace say what a part of it is: those that no
    op
    of the trace made and that are used before and after the peak, or are parameters or state of the optimizer, if
    they
    are not more than that difference; the rest is of the category `before-trace`. The allocator of the CPU counts
    nothing from before the process was first profiled.

    Args:
        linked: one rank.
        per_step: at the peak of each step instead of the trace's.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    of_peak = peaks(linked, per_step)
    alive = _alive_at_peaks(linked, of_peak)
    found = [_summed(alive)]
    if memory_source(linked) is MemorySource.INSTANTS:
        known = _summed(_known_before(linked, of_peak))
        found += [known, _unknown_before(of_peak, known)]
    rows = pl.concat(found).join(of_peak.select(*_PEAK, "allocated_bytes"), on=_PEAK, nulls_equal=True)
    share = pl.when(pl.col("allocated_bytes") != 0).then(pl.col("bytes") / pl.col("allocated_bytes"))
    order = of_peak.select(*_PEAK).with_row_index("peak")
    in_order = (
        rows.with_columns(share.alias("share"))
        .join(order, on=_PEAK, nulls_equal=True)
        .sort("peak", "bytes", *_GROUP, descending=[False, True, False, False, False])
    )
    return answer(MEMORY_AT_PEAK, in_order, linked)


def _alive_at_peaks(linked: LinkedTrace, of_peak: pl.DataFrame) -> pl.DataFrame:
    """The blocks that are alive at each peak; those from before the trace only where they come from storages."""
    found = blocks(linked).filter(pl.col("begin_order").is_not_null())
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


def _known_before(linked: LinkedTrace, of_peak: pl.DataFrame) -> pl.DataFrame:
    """The storages from before the trace that are alive at each peak, where they fit into what was allocated then."""
    before = blocks_of_storages(linked).filter(pl.col("phase").is_null()).drop("step")
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
