"""Every block of memory that a trace shows, with its life, its surroundings and its category."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.host.host_rows import modules_of_rows, names_of_rows
from tracebraid.analysis.memory.blocks.allocated_storages import allocated_storages
from tracebraid.analysis.memory.blocks.categories import Lives, categories
from tracebraid.analysis.memory.blocks.pairing import paired
from tracebraid.analysis.memory.blocks.storage_facts import FACTS
from tracebraid.analysis.memory.blocks.storages import facts_until, storages
from tracebraid.analysis.memory.host.host_context import host_context
from tracebraid.analysis.memory.host.passes import NEVER, passes
from tracebraid.analysis.memory.host.phase_codes import phase_names
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.answers import MemoryCategory, MemorySource
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["blocks", "blocks_of_storages", "memory_source"]

_LASTING = [MemoryCategory.PARAMETERS.value, MemoryCategory.OPTIMIZER_STATE.value]
"""What was there before the trace and stays, used or not."""


def memory_source(linked: LinkedTrace) -> MemorySource:
    """Where blocks are known from: the instants if there are any."""
    return MemorySource.STORAGES if paired(linked).is_empty() else MemorySource.INSTANTS


def blocks(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The blocks of a rank in the order of allocation, those from before the trace first; kept.

    From instants where the trace has them, else from the storages of the Execution Trace: then all times are those of
    the first and last op that is known to use the block.

    Columns: device, address (null for storages), size_bytes, begin_ns (null: before the trace), end_ns (null: alive at
    its end), begin_order and end_order (the changes of `usage` that are its allocation and its release), step (of the
    allocation), category, rule, phase, released_in, op, top_op, module, annotation, and `FACTS`.
    """
    return linked.derived(_blocks, annotation)


def _blocks(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    if memory_source(linked) is MemorySource.STORAGES:
        return blocks_of_storages(linked, annotation)
    found = paired(linked).with_row_index("allocation")
    if linked.has_et:
        found = found.join(
            allocated_storages(linked, annotation), on="allocation", how="left", maintain_order="left"
        )
        ends = found.filter(pl.col("storage").is_not_null())
        found = found.join(
            facts_until(linked, annotation, ends), on="storage", how="left", maintain_order="left"
        )
    else:
        found = found.with_columns(pl.lit(None, dtype=dtype).alias(name) for name, dtype in FACTS.items())
    return _described(linked, annotation, found, ends_known=True)


def blocks_of_storages(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The same from the storages alone; kept. Empty without Execution Trace."""
    return linked.derived(_blocks_of_storages, annotation)


def _blocks_of_storages(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    found = storages(linked, annotation).filter(pl.col("size_bytes") > 0)
    described = _described(
        linked,
        annotation,
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


def _described(linked: LinkedTrace, annotation: str, found: pl.DataFrame, ends_known: bool) -> pl.DataFrame:
    context, of_rank = host_context(linked), passes(linked, annotation)
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
    return step_of_moments(in_order, step_windows(linked, annotation)).drop("ts_ns")
