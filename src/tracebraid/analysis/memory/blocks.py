"""Every block of memory that a trace shows, with its life, its surroundings and its category."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.answering import NO_STEP
from tracebraid.analysis.host.host_rows import modules_of_rows, names_of_rows
from tracebraid.analysis.memory.host import (
    NEVER,
    HostContext,
    Passes,
    host_context,
    passes,
    phase_code,
    phase_names,
)
from tracebraid.analysis.memory.pairing import CPU, instants, paired
from tracebraid.analysis.memory.storages import FACTS, facts_until, storages
from tracebraid.analysis.time.step_windows import in_windows, step_of_moments, step_windows, windows_apart
from tracebraid.model.answers.memory import CategoryRule, MemoryCategory, MemorySource, TrainingPhase
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace

_Ints = NDArray[np.int64]

_LEVELS = 4
"""Number of ops, from the innermost around an allocation outward, that may have created the storage."""

_ROUNDED = 512
"""Bytes of which the allocators of devices give multiples (`kMinBlockSize` of c10's CUDA caching allocator)."""

_SPARE = 1 << 20
"""Bytes at most that a block may have to spare (`kSmallSize` of c10's CUDA caching allocator: no split below)."""


def allocated_storages(linked: LinkedTrace) -> pl.DataFrame:
    """Rows `allocation` (row number in `paired`) and `storage` (in `storages`), both unique; kept.

    Addresses are in the Kineto trace alone, ids of storages in the Execution Trace alone: what joins them is the op.
    An allocation that outlives the op around it became a storage that this op made. Where an op made several,
    those of equal size are joined in order; then, if one of each is left, those that fit. Where the innermost op
    made none, the ops around it are asked.
    """
    return linked.derived(_allocated_storages)


def _allocated_storages(linked: LinkedTrace) -> pl.DataFrame:
    context = host_context(linked)
    free = storages(linked).filter(pl.col("made_event").is_not_null())
    free = free.select("storage", "device", "made_row", "position", pl.col("size_bytes").alias("exact_bytes"))
    blocks = paired(linked).with_row_index("allocation").filter(pl.col("row") >= 0)
    blocks = blocks.with_columns(pl.col("end_ns").fill_null(np.iinfo(np.int64).max))
    op = context.any_op[blocks.get_column("row").to_numpy()] if blocks.height else np.empty(0, dtype=np.int64)
    found = [_NONE]
    for _ in range(_LEVELS):
        with_op = blocks.with_columns(pl.Series("made_row", op, dtype=pl.Int64)).filter(
            pl.col("made_row") >= 0
        )
        ends = context.end_ns[with_op.get_column("made_row").to_numpy()]
        with_op = with_op.filter(pl.col("end_ns") >= pl.Series(ends, dtype=pl.Int64))
        for join in (_of_equal_size, _only_fitting):
            joined = join(with_op, free)
            found.append(joined)
            free = free.join(joined, on="storage", how="anti", maintain_order="left")
            with_op = with_op.join(joined, on="allocation", how="anti", maintain_order="left")
        blocks = blocks.with_columns(pl.Series("op", op, dtype=pl.Int64)).join(
            pl.concat(found), on="allocation", how="anti", maintain_order="left"
        )
        op = _enclosing_op(context.parent, context.any_op, blocks.get_column("op").to_numpy())
        blocks = blocks.drop("op")
    return pl.concat(found).sort("allocation")


_NONE = pl.DataFrame(schema={"allocation": pl.UInt32, "storage": pl.UInt32})


def _enclosing_op(parent: _Ints, any_op: _Ints, op: _Ints) -> _Ints:
    """The op that encloses each op; -1 where there is none."""
    if not len(parent):
        return op
    above = np.where(op >= 0, parent[op], -1)
    found: _Ints = np.where(above >= 0, any_op[above], -1)
    return found


def _of_equal_size(blocks: pl.DataFrame, free: pl.DataFrame) -> pl.DataFrame:
    """Pair the k-th allocation and the k-th storage of a size in each op; device sizes are rounded."""
    key = ["device", "made_row", "size_bytes"]
    rounded = (pl.col("exact_bytes") + _ROUNDED - 1) // _ROUNDED * _ROUNDED
    size = pl.when(pl.col("device") == CPU).then("exact_bytes").otherwise(rounded).alias("size_bytes")
    of_storage = (
        free.with_columns(size)
        .sort("position", "storage")
        .with_columns(pl.int_range(pl.len()).over(key).alias("k"))
    )
    of_block = blocks.with_columns(pl.int_range(pl.len()).over(key).alias("k"))
    return of_block.join(of_storage, on=[*key, "k"], maintain_order="left").select("allocation", "storage")


def _only_fitting(blocks: pl.DataFrame, free: pl.DataFrame) -> pl.DataFrame:
    """The op's only allocation left and its only storage left, if the one fits into the other."""
    key = ["device", "made_row"]
    single = pl.len().over(key) == 1
    pairs = blocks.filter(single).join(free.filter(single), on=key, maintain_order="left")
    spare = pl.col("size_bytes") - pl.col("exact_bytes")
    return pairs.filter((spare >= 0) & (spare < _SPARE)).select("allocation", "storage")


_Bools = NDArray[np.bool_]
_Rule = tuple[_Bools, MemoryCategory, CategoryRule]


class Lives(Struct, frozen=True):
    """Blocks of memory, each from its allocation to its release.

    Args:
        begin_ns: allocation; any number where `before`.
        end_ns: release; `NEVER` where there is none.
        row: row of `host_context` that held the allocation; -1: none.
        before: it was allocated before the trace.
        ends_known: whether `end_ns` are releases; else they are last uses.
        facts: columns of `storage_facts.FACTS`, null if no storage is known.
    """

    begin_ns: _Ints
    end_ns: _Ints
    row: _Ints
    before: _Bools
    ends_known: bool
    facts: pl.DataFrame

    def fact(self, name: str) -> _Bools:
        """Return one of the facts; false if the storage is unknown."""
        found: _Bools = self.facts.get_column(name).fill_null(value=False).to_numpy()
        return found


def categories(lives: Lives, context: HostContext, passes: Passes) -> pl.DataFrame:
    """Columns `category`, `rule` and `phase` (as a code; -1: before the trace) of each block."""
    codes = np.where(
        lives.row >= 0, context.of_rows(context.phase, lives.row), phase_code(TrainingPhase.OTHER)
    )
    phase = np.where(lives.before, -1, passes.phases(codes, lives.begin_ns))
    rules = [*_by_storage(lives, phase, passes), *_by_context(lives, phase, context, passes)]
    number = np.select(
        [condition for condition, _, _ in rules], list(range(len(rules))), default=len(rules) - 1
    )
    names = {"category": [c.value for _, c, _ in rules], "rule": [r.value for _, _, r in rules]}
    columns = [pl.Series(name, values).gather(number) for name, values in names.items()]
    return pl.DataFrame([*columns, pl.Series("phase", phase, dtype=pl.Int64)])


def _by_storage(lives: Lives, phase: _Ints, passes: Passes) -> list[_Rule]:
    """Facts of the Execution Trace about the block's storage."""
    before, never = lives.before, lives.end_ns == NEVER
    forward, backward, optimizer = (lives.fact(f"in_{name}") for name in ("forward", "backward", "optimizer"))
    updated, communicated = lives.fact("updated"), lives.fact("communicated")
    made_forward = phase == phase_code(TrainingPhase.FORWARD)
    outlives = before | (lives.end_ns > passes.at(passes.end_ns, passes.holding(lives.begin_ns)))
    early = lives.begin_ns <= passes.at(passes.forward_ns, passes.coming(lives.begin_ns))
    made_outside = phase == phase_code(TrainingPhase.OTHER)
    written = lives.fact("written_in_backward") & (optimizer | ~communicated)
    category, rule = MemoryCategory, CategoryRule
    return [
        (
            lives.fact("accumulated") & (outlives | optimizer | (not lives.ends_known)),
            category.GRADIENTS,
            rule.ACCUMULATED,
        ),
        (lives.fact("zeroed") & ~forward, category.GRADIENTS, rule.ZEROED),
        ((before | made_outside) & written & ~forward, category.GRADIENTS, rule.WRITTEN_BY_BACKWARD),
        (updated & forward & ~made_forward, category.PARAMETERS, rule.UPDATED_BY_OPTIMIZER),
        (lives.fact("as_weight") & (before | (never & early)), category.PARAMETERS, rule.WEIGHT_ARGUMENT),
        (before & lives.fact("as_state"), category.OPTIMIZER_STATE, rule.STATE_ARGUMENT),
        (before & updated & ~forward & ~backward, category.OPTIMIZER_STATE, rule.OPTIMIZER_ONLY),
        (before & communicated, category.COLLECTIVE_BUFFERS, rule.COMMUNICATED),
        (before & forward, category.INPUTS, rule.READ_BY_FORWARD),
        (before, category.BEFORE_TRACE, rule.SEEN_BEFORE_TRACE),
        (made_forward & backward & ~_kept(lives, passes), category.ACTIVATIONS, rule.READ_BY_BACKWARD),
    ]


def _by_context(lives: Lives, phase: _Ints, context: HostContext, passes: Passes) -> list[_Rule]:
    """Facts of the Kineto trace: the holder of the allocation, and what it outlives."""
    end, never = lives.end_ns, lives.end_ns == NEVER
    is_in = {name: phase == phase_code(name) for name in TrainingPhase}
    span_end, top_end, collective = _spans(lives, context)
    in_optimizer = is_in[TrainingPhase.OPTIMIZER] | is_in[TrainingPhase.ZERO_GRAD]
    coming = passes.coming(lives.begin_ns)
    is_coming = coming < len(passes.begin_ns)
    at_forward = is_coming & (end > passes.at(passes.forward_ns, coming)) & is_in[TrainingPhase.OTHER]
    over = passes.of_next_step(lives.begin_ns) < len(passes.begin_ns)
    forward = is_in[TrainingPhase.FORWARD]
    pass_end = passes.at(passes.end_ns, passes.holding(lives.begin_ns))
    category, rule = MemoryCategory, CategoryRule
    return [
        (is_in[TrainingPhase.LOADING], category.INPUTS, rule.LOADED),
        (collective, category.COLLECTIVE_BUFFERS, rule.IN_COLLECTIVE),
        (in_optimizer & (end <= span_end), category.TEMPORARIES, rule.RELEASED_IN_PHASE),
        (is_in[TrainingPhase.OPTIMIZER], category.OPTIMIZER_STATE, rule.KEPT_AFTER_OPTIMIZER),
        (is_in[TrainingPhase.BACKWARD] & (end <= pass_end), category.TEMPORARIES, rule.RELEASED_IN_PHASE),
        (is_in[TrainingPhase.BACKWARD], category.GRADIENTS, rule.KEPT_AFTER_BACKWARD),
        (at_forward & never & over, category.PARAMETERS, rule.KEPT_FROM_BEFORE_FORWARD),
        (at_forward, category.INPUTS, rule.MADE_BEFORE_FORWARD),
        (forward & _kept(lives, passes), category.UNKNOWN, rule.KEPT_AFTER_STEP),
        (
            forward & is_coming & (end >= passes.at(passes.begin_ns, coming)),
            category.ACTIVATIONS,
            rule.HELD_FOR_BACKWARD,
        ),
        (forward & is_coming, category.TEMPORARIES, rule.RELEASED_BEFORE_BACKWARD),
        (never, category.UNKNOWN, rule.NEVER_RELEASED),
        (forward & (end > top_end), category.ACTIVATIONS, rule.PASSED_BETWEEN_OPS),
        (forward, category.TEMPORARIES, rule.RELEASED_IN_OP),
        (np.ones(len(end), dtype=np.bool_), category.TEMPORARIES, rule.OUTSIDE_OF_PHASES),
    ]


def _kept(lives: Lives, passes: Passes) -> _Bools:
    """Return whether a block made before a pass is alive when the first pass of the next step begins."""
    following = passes.of_next_step(lives.begin_ns)
    found: _Bools = (following < len(passes.begin_ns)) & (
        lives.end_ns > passes.at(passes.begin_ns, following)
    )
    return found


def _spans(lives: Lives, context: HostContext) -> tuple[_Ints, _Ints, _Bools]:
    """End of the phase's mark, end of the outermost op, and whether a collective's op holds the allocation."""
    phase_row, top_op = (context.of_rows(rows, lives.row) for rows in (context.phase_row, context.top_op))
    in_collective = context.of_rows(context.in_collective.astype(np.int64), lives.row) == 1
    return _ends(context, phase_row), _ends(context, top_op), in_collective


def _ends(context: HostContext, rows: _Ints) -> _Ints:
    """Ends of the host events of some rows; before all moments for -1."""
    found: _Ints = np.where(rows >= 0, context.of_rows(context.end_ns, rows), -NEVER)
    return found


_LASTING = [MemoryCategory.PARAMETERS.value, MemoryCategory.OPTIMIZER_STATE.value]
"""Memory from before the trace that remains."""


def memory_source(linked: LinkedTrace) -> MemorySource:
    """Source of blocks: the instants if there are any."""
    return MemorySource.STORAGES if paired(linked).is_empty() else MemorySource.INSTANTS


def blocks(linked: LinkedTrace) -> pl.DataFrame:
    """The blocks of a rank in the order of allocation, those from before the trace first; kept.

    From instants where the trace has them, else from the storages of the Execution Trace: then all times are those of
    the first and last op that is known to use the block.

    Columns: device, address (null for storages), size_bytes, begin_ns (null: before the trace), end_ns (null: alive at
    its end), begin_order and end_order (the changes of `usage` that are its allocation and its release), step (of the
    allocation), category, rule, phase, released_in, op, top_op, module, annotation, and `FACTS`.
    """
    return linked.derived(_blocks)


def _blocks(linked: LinkedTrace) -> pl.DataFrame:
    if memory_source(linked) is MemorySource.STORAGES:
        return blocks_of_storages(linked)
    found = paired(linked).with_row_index("allocation")
    if linked.has_et:
        found = found.join(allocated_storages(linked), on="allocation", how="left", maintain_order="left")
        ends = found.filter(pl.col("storage").is_not_null())
        found = found.join(facts_until(linked, ends), on="storage", how="left", maintain_order="left")
    else:
        found = found.with_columns(pl.lit(None, dtype=dtype).alias(name) for name, dtype in FACTS.items())
    return _described(linked, found, ends_known=True)


def blocks_of_storages(linked: LinkedTrace) -> pl.DataFrame:
    """Blocks from storages only, cached. Empty without Execution Trace."""
    return linked.derived(_blocks_of_storages)


def _blocks_of_storages(linked: LinkedTrace) -> pl.DataFrame:
    found = storages(linked).filter(pl.col("size_bytes") > 0)
    described = _described(
        linked,
        found.select(
            "device",
            pl.lit(None, dtype=pl.Int64).alias("address"),
            "size_bytes",
            pl.col("made_ns").alias("begin_ns"),
            pl.col("last_use_ns").alias("end_ns"),
            pl.col("made_row").alias("row"),
            pl.col("last_row").alias("end_row"),
            pl.lit(None, dtype=pl.Int64).alias("begin_order"),
            pl.lit(None, dtype=pl.Int64).alias("end_order"),
            pl.col("moment_ns").alias("first_use_ns"),
            *FACTS,
        ),
        ends_known=False,
    )
    lasting = pl.col("begin_ns").is_null() & pl.col("category").is_in(_LASTING)
    described = described.with_columns(
        pl.when(lasting).then(None).otherwise(pl.coalesce("begin_ns", "first_use_ns")).alias("begin_ns"),
        pl.when(lasting).then(None).otherwise("end_ns").alias("end_ns"),
    )
    return described.with_columns(_orders(described))


def _orders(found: pl.DataFrame) -> list[pl.Series]:
    """Allocations and releases numbered in the order of time, at one moment allocations first; releases may be null."""
    begin = found.get_column("begin_ns").fill_null(-NEVER).to_numpy()
    end = found.get_column("end_ns").fill_null(NEVER).to_numpy()
    order = np.lexsort((np.r_[np.zeros(len(begin)), np.ones(len(end))], np.r_[begin, end]))
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    ends = pl.Series("end_order", number[len(begin) :])
    return [
        pl.Series("begin_order", number[: len(begin)]),
        ends.set(found.get_column("end_ns").is_null(), None),
    ]


def _described(linked: LinkedTrace, found: pl.DataFrame, ends_known: bool) -> pl.DataFrame:
    context, of_rank = host_context(linked), passes(linked)
    row, end_row = (found.get_column(name).fill_null(-1).to_numpy() for name in ("row", "end_row"))
    begin, end = (found.get_column(f"{name}_ns") for name in ("begin", "end"))
    lives = Lives(
        begin_ns=begin.fill_null(-NEVER).to_numpy(),
        end_ns=end.fill_null(NEVER).to_numpy(),
        row=row,
        before=begin.is_null().to_numpy(),
        ends_known=ends_known,
        facts=found.select(list(FACTS)),
    )
    of_block = categories(lives, context, of_rank)
    released_in = of_rank.phases(context.of_rows(context.phase, end_row), lives.end_ns)
    rows = {name: context.of_rows(getattr(context, name), row) for name in ("op", "top_op", "annotation")}
    described = found.with_columns(
        of_block.get_column("category"),
        of_block.get_column("rule"),
        phase_names(of_block.get_column("phase").to_numpy()).alias("phase"),
        phase_names(np.where(lives.end_ns == NEVER, -1, released_in)).alias("released_in"),
        *(names_of_rows(linked, rows[name]).cast(pl.String).alias(name) for name in rows),
        modules_of_rows(linked, context.of_rows(context.module, row)).cast(pl.String).alias("module"),
        begin.alias("ts_ns"),
    )
    in_order = described.sort("begin_ns", nulls_last=False, maintain_order=True)
    return step_of_moments(in_order, step_windows(linked)).drop("ts_ns")


def usage(linked: LinkedTrace) -> pl.DataFrame:
    """One row per change, by device in the order of time; kept.

    With instants: what they say is allocated, where that is consistent (each total differs from the one before by its
    size, and what the trace shows alive is never more). Else it is the sum of what the trace shows alive, and of
    the least that can have been allocated before it. Without instants: the sum of the storages of the Execution Trace.

    Columns: device, order, ts_ns, size_bytes, allocated_bytes, reserved_bytes (null: unknown), alive_bytes (of it,
    allocated in the trace), alive_blocks (their number), row (of `host_context`; -1: none).
    """
    if memory_source(linked) is MemorySource.STORAGES:
        return linked.derived(_of_storages)
    return linked.derived(_of_instants)


def _of_instants(linked: LinkedTrace) -> pl.DataFrame:
    changes = instants(linked).with_columns(_block_sums(linked)).sort("device", "order")
    changes = changes.with_columns(
        pl.col("alive_bytes", "gone_bytes", "alive_blocks").cum_sum().over("device")
    )
    total, size, alive = pl.col("total_allocated_bytes"), pl.col("size_bytes"), pl.col("alive_bytes")
    adds_up = (total - total.shift(1) - size).fill_null(0).eq(0).all() & total.is_not_null().all()
    holds = (total >= alive).all()
    base = pl.max_horizontal((total.first() - size.first()).fill_null(0), pl.col("gone_bytes").max(), 0)
    summed = base.over("device") - pl.col("gone_bytes") + alive
    has_reserve = pl.col("total_reserved_bytes").max().over("device") > 0
    return changes.select(
        *("device", "order", "ts_ns", "size_bytes"),
        pl.when((adds_up & holds).over("device")).then(total).otherwise(summed).alias("allocated_bytes"),
        pl.when(has_reserve).then("total_reserved_bytes").alias("reserved_bytes"),
        *("alive_bytes", "alive_blocks", "row"),
    )


def _block_sums(linked: LinkedTrace) -> list[pl.Series]:
    """Change of live blocks of the trace, and of released ones from before it."""
    in_trace = paired(linked).filter(pl.col("begin_ns").is_not_null())
    before = paired(linked).filter(pl.col("begin_ns").is_null())
    amounts = {name: np.zeros(instants(linked).height, dtype=np.int64) for name in _AMOUNTS}
    for found, order, factor in (
        (in_trace, "begin_order", 1),
        (in_trace, "end_order", -1),
        (before, "end_order", 0),
    ):
        known = found.filter(pl.col(order).is_not_null())
        orders, sizes = known.get_column(order).to_numpy(), known.get_column("size_bytes").to_numpy()
        if factor:
            np.add.at(amounts["alive_bytes"], orders, factor * sizes)
            np.add.at(amounts["alive_blocks"], orders, factor)
        else:
            np.add.at(amounts["gone_bytes"], orders, sizes)
    return [pl.Series(name, values) for name, values in amounts.items()]


_AMOUNTS = ("alive_bytes", "alive_blocks", "gone_bytes")


def _of_storages(linked: LinkedTrace) -> pl.DataFrame:
    found = blocks_of_storages(linked)
    span = linked.timeline.span_ns or (0, 0)
    begins = found.select(
        "device",
        pl.col("begin_order").alias("order"),
        pl.col("begin_ns").fill_null(span[0]).alias("ts_ns"),
        "size_bytes",
        pl.when(pl.col("begin_ns").is_null()).then(0).otherwise("size_bytes").alias("alive_bytes"),
        pl.col("begin_ns").is_not_null().cast(pl.Int64).alias("alive_blocks"),
    )
    ends = found.filter(pl.col("end_ns").is_not_null()).select(
        "device",
        pl.col("end_order").alias("order"),
        pl.col("end_ns").alias("ts_ns"),
        -pl.col("size_bytes"),
        -pl.col("size_bytes").alias("alive_bytes"),
        pl.lit(-1, dtype=pl.Int64).alias("alive_blocks"),
    )
    in_order = pl.concat([begins, ends]).sort("device", "order")
    return in_order.select(
        *("device", "order", "ts_ns", "size_bytes"),
        pl.col("size_bytes").cum_sum().over("device").alias("allocated_bytes"),
        pl.lit(None, dtype=pl.Int64).alias("reserved_bytes"),
        pl.col("alive_bytes", "alive_blocks").cum_sum().over("device"),
        pl.lit(-1, dtype=pl.Int64).alias("row"),
    )


def usage_by_step(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    """`usage` with a column `step`: once over all, or the changes in each step after what it finds allocated.

    The row of what a step finds is the last change before it, with the step's start as its moment and size 0. A change
    counts in each of the steps that hold it. Column `window` numbers the steps.
    """
    return linked.derived(_usage_by_step, per_step)


def _usage_by_step(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    changes = usage(linked)
    if not per_step:
        return changes.with_columns(NO_STEP, pl.lit(0, dtype=pl.Int64).alias("window"))
    windows = windows_apart(linked).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("window"))
    inside = in_windows(changes, "ts_ns", windows).drop("start_ns", "end_ns")
    devices = changes.select("device").unique(maintain_order=True)
    found = (
        windows.join(devices, how="cross")
        .with_columns(pl.col("start_ns").alias("ts_ns"))
        .sort("ts_ns")
        .join_asof(
            changes.sort("ts_ns", "order"),
            on="ts_ns",
            by="device",
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .filter(pl.col("order").is_not_null())
        .with_columns(pl.lit(0, dtype=pl.Int64).alias("size_bytes"), pl.lit(-1, dtype=pl.Int64).alias("row"))
    )
    return pl.concat([found.select(inside.columns), inside]).sort(
        "window", "device", "order", maintain_order=True
    )


def peaks(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    """The rows of `usage_by_step` that are the first peak of their device and step, by window and device; kept."""
    return linked.derived(_peaks, per_step)


def _peaks(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    by_step = usage_by_step(linked, per_step)
    return (
        by_step.group_by("window", "step", "device", maintain_order=True)
        .agg(pl.exclude("window", "step", "device").get(pl.col("allocated_bytes").arg_max()))
        .sort("window", pl.col("device") == CPU, *by_number("device"))
    )
