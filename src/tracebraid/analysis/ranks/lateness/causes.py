"""Which cause explains most of a rank's lateness at a collective?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.ranks.lateness.differences import by_name, carried
from tracebraid.analysis.ranks.lateness.origins import with_origins
from tracebraid.analysis.ranks.lateness.segment_kinds import SegmentKind
from tracebraid.model.answers import LateCause

__all__ = ["LEAST_EXPLAINED", "with_causes"]

LEAST_EXPLAINED = 0.25
"""Share of the lateness that a cause explains at least; a chosen value: four causes may have equal shares."""

_BY_COUNT = 0.5
"""Share of the difference that comes with the number of kernels or ops, from which on their number is the cause."""

_COLLECTOR = r"(^|[^\w])gc\.collect|built-in method collect|(^|/)gc\.py"
"""Python functions that collect garbage."""

_CAUSES = {
    SegmentKind.QUEUED: LateCause.QUEUE_DELAY,
    SegmentKind.CALL: LateCause.LONGER_HOST_OP,
    SegmentKind.DATA: LateCause.DATA_LOADER,
    SegmentKind.PYTHON: LateCause.PYTHON,
    SegmentKind.NO_EVENT: LateCause.HOST_WITHOUT_EVENTS,
}
_COUNTED = {
    SegmentKind.KERNEL: (LateCause.MORE_KERNELS, LateCause.LONGER_KERNEL),
    SegmentKind.HOST_OP: (LateCause.MORE_HOST_OPS, LateCause.LONGER_HOST_OP),
}


def with_causes(late: pl.DataFrame, arrived: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """The rows of `late_ranks` with the columns of `LATE_ARRIVALS` from `cause` to `origin_collective`.

    Args:
        late: `late_ranks`, those that are asked for.
        arrived: `arrivals`.
        segments: `rank_segments` of all ranks.
    """
    differing = by_name(late, arrived, segments).filter(pl.col("excess_ns") > 0).with_columns(_cause())
    brought = carried(late, arrived, segments)
    from_others = pl.concat(
        [
            brought.select(
                "collective", pl.lit(LateCause.INHERITED.value).alias("cause"), explained_ns="carried_ns"
            ),
            brought.select(
                "collective",
                pl.lit(LateCause.LONGER_TRANSFER.value).alias("cause"),
                explained_ns="transfer_ns",
            ),
        ]
    )
    own = differing.group_by("collective", "cause").agg(pl.col("excess_ns").sum().alias("explained_ns"))
    most = (
        pl.concat([own.select("collective", "cause", "explained_ns"), from_others])
        .filter(pl.col("explained_ns") > 0)
        .sort("explained_ns", "cause", descending=[True, False])
        .unique("collective", keep="first", maintain_order=True)
    )
    named = _named(differing)
    found = (
        late.join(most, on="collective", how="left", maintain_order="left")
        .pipe(_with_share)
        .join(named, on=["collective", "cause"], how="left", maintain_order="left")
    )
    return with_origins(found, brought)


def _cause() -> pl.Expr:
    """The cause that each thing is, by its kind and, of kernels and ops, by whether there are more of them."""
    kind = pl.col("kind")
    mean = pl.col("others_ns") / pl.col("others_count")
    by_count = (pl.col("count") - pl.col("others_count")) * mean
    are_more = (pl.col("others_count") == 0) | (by_count >= _BY_COUNT * pl.col("excess_ns"))
    collects = pl.col("name").str.contains(_COLLECTOR) & kind.is_in([SegmentKind.PYTHON, SegmentKind.CALL])
    plain = kind.replace_strict(
        {int(kind): cause.value for kind, cause in _CAUSES.items()}, default=None, return_dtype=pl.String
    )
    counted = [
        pl.when((kind == int(of)) & are_more)
        .then(pl.lit(more.value))
        .when(kind == int(of))
        .then(pl.lit(longer.value))
        for of, (more, longer) in _COUNTED.items()
    ]
    collector = pl.when(collects).then(pl.lit(LateCause.GARBAGE_COLLECTION.value))
    return pl.coalesce(collector, *counted, plain).alias("cause")


def _named(differing: pl.DataFrame) -> pl.DataFrame:
    """Of each cause the thing that differs most."""
    return (
        differing.sort("excess_ns", "merged", "name", descending=[True, False, False], maintain_order=True)
        .unique(["collective", "cause"], keep="first", maintain_order=True)
        .select(
            "collective",
            "cause",
            pl.when(pl.col("name") != "").then("name").alias("name"),
            "time_ns",
            "others_ns",
            pl.col("excess_ns").alias("difference_ns"),
        )
    )


def _with_share(found: pl.DataFrame) -> pl.DataFrame:
    """With the cause of those of which nothing explains enough, and the share that is explained."""
    share = (pl.col("explained_ns") / pl.col("lateness_ns")).clip(0.0, 1.0)
    nothing = (
        pl.when("paired")
        .then(pl.lit(LateCause.PIPELINE_ORDER.value))
        .otherwise(pl.lit(LateCause.UNKNOWN.value))
    )
    is_enough = (share >= LEAST_EXPLAINED).fill_null(value=False)
    return found.with_columns(
        pl.when(is_enough).then("cause").otherwise(nothing).alias("cause"),
        pl.when(is_enough).then(pl.min_horizontal("explained_ns", "lateness_ns")).alias("explained_ns"),
        pl.when(is_enough).then(share).alias("explained_share"),
    )
