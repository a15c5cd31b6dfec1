"""What the segments of paths add up to, and between which ranks they go."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answers.graph.critical_path import PATH_HOPS, PATH_STEPS, PATH_TOTALS, TotalsBy
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.segment_kind import WAITING_KINDS, SegmentKind

__all__ = ["path_hops", "path_steps", "path_totals"]

_WAITING = [kind.value for kind in WAITING_KINDS]


def path_hops(segments: pl.DataFrame) -> pl.DataFrame:
    """`PATH_HOPS`; segments of no rank lie between, they are no hop by themselves.

    Args:
        segments: `PATH_SEGMENTS`.
    """
    before = pl.col("rank", "name").shift(1).over("step").name.prefix("from_")
    rows = segments.filter(pl.col("rank").is_not_null()).with_columns(before)
    changed = rows.filter(pl.col("from_rank").is_not_null() & (pl.col("from_rank") != pl.col("rank")))
    return PATH_HOPS.conform(changed.rename({"rank": "to_rank", "name": "to_name", "start_ns": "ts_ns"}))


def path_steps(bounds: pl.DataFrame, segments: pl.DataFrame, hops: pl.DataFrame) -> pl.DataFrame:
    """`PATH_STEPS`.

    Args:
        bounds: `step`, `start_ns` and `span_ns` of each step, in their order.
        segments: `PATH_SEGMENTS`.
        hops: `PATH_HOPS`.
    """
    waits = as_text("kind").is_in(_WAITING) & (pl.col("residual_ns") == 0)
    of_steps = segments.group_by("step").agg(
        pl.col("work_ns").sum().alias("path_ns"),
        pl.col("residual_ns").sum(),
        pl.col("duration_ns").filter(waits).sum().alias("waiting_ns"),
        pl.len().alias("segments"),
        pl.col("rank").drop_nulls().unique().sort().alias("ranks"),
    )
    counted = hops.group_by("step").agg(pl.len().alias("hops"))
    rows = bounds
    for part in (of_steps, counted):
        rows = rows.join(part, on="step", how="left", nulls_equal=True, maintain_order="left")
    counts = pl.col("path_ns", "residual_ns", "waiting_ns", "segments", "hops").fill_null(0)
    share = pl.when(pl.col("span_ns") > 0).then(pl.col("path_ns") / pl.col("span_ns")).otherwise(1.0)
    return PATH_STEPS.conform(
        rows.with_columns(
            counts, pl.col("ranks").fill_null(pl.lit([], dtype=pl.List(pl.Int64)))
        ).with_columns(share.alias("explained"))
    )


def path_totals(segments: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """`PATH_TOTALS`: of each step by each `TotalsBy`, the longest first.

    Args:
        segments: `PATH_SEGMENTS`.
        steps: `PATH_STEPS`.
    """
    number = steps.select("step", "span_ns").with_row_index("number")
    parts = [_by(segments, by) for by in TotalsBy]
    rows = pl.concat([PATH_TOTALS.empty().select(*_OF_TOTALS).cast({"by": pl.String}), *parts])
    rows = rows.join(number, on="step", how="left", nulls_equal=True, maintain_order="left")
    ordinal = pl.col("by").replace_strict(
        {by.value: n for n, by in enumerate(TotalsBy)}, return_dtype=pl.Int64
    )
    found = rows.with_columns(
        pl.when(pl.col("span_ns") > 0)
        .then(pl.col("duration_ns") / pl.col("span_ns"))
        .otherwise(0.0)
        .alias("share"),
        pl.when(pl.col("by") == TotalsBy.KIND.value).then(pl.col("value").is_in(_WAITING)).alias("waits"),
    ).sort("number", ordinal, -pl.col("duration_ns"), "value", nulls_last=True, maintain_order=True)
    return PATH_TOTALS.conform(found)


_OF_TOTALS = ("step", "by", "value", "segments", "duration_ns")


def _by(segments: pl.DataFrame, by: TotalsBy) -> pl.DataFrame:
    """The totals by a column; what is a residual counts as no name, op, module or family."""
    is_residual = as_text("kind") == SegmentKind.RESIDUAL.value
    rows = segments
    if by is TotalsBy.RESIDUAL:
        rows = segments.filter(is_residual)
    elif by not in (TotalsBy.KIND, TotalsBy.RANK):
        rows = segments.filter(~is_residual)
    return (
        rows.with_columns(pl.col(by.value).cast(pl.String).alias("value"))
        .group_by("step", "value", maintain_order=True)
        .agg(pl.len().cast(pl.Int64).alias("segments"), pl.col("duration_ns").sum())
        .with_columns(pl.lit(by.value).alias("by"))
        .select(*_OF_TOTALS)
    )
