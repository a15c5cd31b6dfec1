"""All occurrences as items in the order of what they save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.ranking.further import counted_once, with_further
from tracebraid.analysis.antipatterns.ranking.in_steps import cut_at_steps
from tracebraid.analysis.antipatterns.ranking.min_saving import MinSaving
from tracebraid.model.answers import ADVICE, ADVICE_BY_STEP, ADVICE_EVIDENCE

__all__ = ["Gains", "Ranked", "ranked"]

Gains: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]
"""Takes occurrences with their `item`; returns `item` and `gain_ns`, of those that it knows."""

_KEY = ["detector", "op", "shapes", "call_site"]
"""What makes two occurrences one advice; kernels and calls of the same op are mended together."""

_ITEM = [*_KEY, "subject"]
"""What an advice says of where it is."""

_SHOWN = 3
"""Occurrences of each advice that are kept as evidence: the worst ones."""

_BY_STEP = ["item", "rank", "step"]


@dataclass(frozen=True)
class Ranked:
    """Items in their order, and the steps in which they save.

    Args:
        items: `ADVICE`.
        by_step: `ADVICE_BY_STEP`.
        evidence: `ADVICE_EVIDENCE`.
        steps: how many steps there are; 0: none is marked.
        step_ns: how long a step takes on average, on its slowest rank.
    """

    items: pl.DataFrame
    by_step: pl.DataFrame
    evidence: pl.DataFrame
    steps: int
    step_ns: float


def ranked(
    evidence: pl.DataFrame, windows: pl.DataFrame, least: MinSaving, gains: Gains | None = None
) -> Ranked:
    """Items in the order of what they save at most.

    Args:
        evidence: `EVIDENCE` of all ranks, with `detector`.
        windows: the steps of all ranks: `WINDOWS`.
        least: an item that saves less is left out.
        gains: what else bounds an item, for their order; None: nothing.
    """
    spans = _spans(windows)
    of_job = spans.group_by("step", maintain_order=True).agg(pl.col("step_ns", "windows").max())
    count = max(int(of_job.get_column("windows").sum()), 1)
    step_ns = int(of_job.get_column("step_ns").sum()) / count
    numbered = evidence.with_row_index("row").with_columns(
        pl.struct(_KEY).rank("dense").cast(pl.Int64).alias("key"),
        # What one event shows is one occurrence, in however many stretches it lies.
        pl.coalesce("event_id", -1 - pl.col("row").cast(pl.Int64)).alias("occurrence"),
    )
    parts = counted_once(cut_at_steps(numbered, windows))
    order = _order(parts, least.per_step_ns(step_ns) * count)
    if gains is not None:
        order = _by_gain(order, gains(parts.join(order, on="key", maintain_order="left")))
    parts = with_further(parts.join(order, on="key", maintain_order="left"))
    by_step = _by_step(parts, spans)
    steps = count if of_job.get_column("step").null_count() == 0 else 0
    return Ranked(
        _items(parts, by_step, count, step_ns),
        ADVICE_BY_STEP.conform(by_step),
        _worst(parts),
        steps,
        step_ns,
    )


def _spans(windows: pl.DataFrame) -> pl.DataFrame:
    """`rank`, `step`, `step_ns`, `windows`: how often there is a step of that name."""
    long = pl.col("end_ns") - pl.col("start_ns")
    return (
        windows.sort("rank", "start_ns")
        .group_by("rank", "step", maintain_order=True)
        .agg(long.sum().alias("step_ns"), pl.len().alias("windows"))
        .with_row_index("in_order")
    )


def _order(parts: pl.DataFrame, least_ns: float) -> pl.DataFrame:
    """Those that save enough, by what they save on the rank with the most of each step.

    Columns: `key`, `item`, `most_ns` (its saving), `gain_ns` (null: unknown).
    """
    return (
        parts.group_by("key", "rank", "step")
        .agg(pl.col("saving_ns").sum())
        .group_by("key", "step")
        .agg(pl.col("saving_ns").max())
        .group_by("key")
        .agg(pl.col("saving_ns").sum())
        .filter((pl.col("saving_ns") >= least_ns) & (pl.col("saving_ns") > 0))
        .sort("saving_ns", "key", descending=[True, False])
        .select(
            "key",
            pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("item"),
            pl.col("saving_ns").alias("most_ns"),
            pl.lit(None, dtype=pl.Int64).alias("gain_ns"),
        )
    )


def _by_gain(order: pl.DataFrame, gains: pl.DataFrame) -> pl.DataFrame:
    """The order by what is less, the saving or the gain."""
    return (
        order.drop("gain_ns")
        .join(gains, on="item", how="left", maintain_order="left")
        .sort(pl.min_horizontal("most_ns", "gain_ns"), "most_ns", descending=True, maintain_order=True)
        .with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("item"))
    )


def _by_step(parts: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    return (
        parts.group_by(_BY_STEP)
        .agg(
            pl.col("detector").first(),
            pl.col("occurrence").n_unique().alias("count"),
            pl.col("saving_ns", "further_ns").sum(),
        )
        .join(spans, on=["rank", "step"], nulls_equal=True)
        .sort("item", "rank", "in_order")
    )


def _items(parts: pl.DataFrame, by_step: pl.DataFrame, count: int, step_ns: float) -> pl.DataFrame:
    of_step = by_step.group_by("item", "step").agg(pl.col("saving_ns").max())
    sums = of_step.group_by("item").agg(
        pl.col("saving_ns").sum(), pl.col("step").is_not_null().sum().alias("steps")
    )
    what = parts.group_by("item").agg(
        pl.col(*_KEY, "gain_ns").first(),
        pl.col("rank").unique().sort().alias("ranks"),
        pl.struct("rank", "occurrence").n_unique().alias("count"),
    )
    # Of several subjects that which saves most stands for all.
    subjects = parts.group_by("item", "subject").agg(pl.col("saving_ns").sum())
    subjects = subjects.sort("item", "saving_ns", "subject", descending=[False, True, False], nulls_last=True)
    what = what.join(subjects.unique("item", keep="first", maintain_order=True).drop("saving_ns"), on="item")
    per_step = pl.col("saving_ns") / count
    found = what.join(sums, on="item").join(_further_of_job(by_step), on="item").sort("item")
    return ADVICE.conform(
        found.with_columns(
            per_step.alias("saving_per_step_ns"),
            (per_step / max(step_ns, 1.0)).clip(0.0, 1.0).alias("share"),
            (pl.col("further_ns") / count).alias("further_per_step_ns"),
            (pl.col("gain_ns") / count).alias("gain_per_step_ns"),
        )
    )


def _further_of_job(by_step: pl.DataFrame) -> pl.DataFrame:
    """`item`, `further_ns`: by how much the rank with the most savings of each step has more with each item."""
    last = by_step.get_column("item").max()
    number = last if isinstance(last, int) else 0
    further = np.zeros(number + 1, dtype=np.int64)
    for _, rows in by_step.group_by("step", maintain_order=True):
        ranks = rows.get_column("rank").rank("dense").to_numpy().astype(np.int64) - 1
        saved = np.zeros((number + 1, int(ranks.max()) + 1), dtype=np.int64)
        saved[rows.get_column("item").to_numpy(), ranks] = rows.get_column("further_ns").to_numpy()
        further += np.diff(saved.cumsum(axis=0).max(axis=1), prepend=0)
    return pl.DataFrame({"item": np.arange(1, number + 1), "further_ns": further[1:]})


def _worst(parts: pl.DataFrame) -> pl.DataFrame:
    """The worst occurrences of each item, the parts of each in a step together."""
    found = parts.group_by("item", "rank", "step", "occurrence").agg(
        pl.col("start_ns").min(),
        pl.col("end_ns").max(),
        pl.col("saving_ns").sum(),
        pl.col("event_id", *_ITEM).first(),
    )
    ordered = found.sort("item", "saving_ns", "rank", "start_ns", descending=[False, True, False, False])
    return ADVICE_EVIDENCE.conform(ordered.group_by("item", maintain_order=True).head(_SHOWN))
