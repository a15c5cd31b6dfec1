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
"""Share of the difference that comes with the number of kernels, from which on their number is the cause."""

_COLLECTOR = r"(^|[^\w])gc\.collect|built-in method collect|(^|/)gc\.py"
"""Python functions that collect garbage."""

_CAUSES = {
    SegmentKind.QUEUED: LateCause.QUEUE_DELAY,
    SegmentKind.HOST_OP: LateCause.LONGER_HOST_OP,
    SegmentKind.CALL: LateCause.LONGER_HOST_OP,
    SegmentKind.DATA: LateCause.DATA_LOADER,
    SegmentKind.PYTHON: LateCause.PYTHON,
    SegmentKind.NO_EVENT: LateCause.HOST_WITHOUT_EVENTS,
}

_THING = ("name", "time_ns", "others_ns", "difference_ns")


def with_causes(late: pl.DataFrame, arrived: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """The rows of `late_ranks` with the columns of `LATE_ARRIVALS` from `cause` to `origin_collective`.

    The excess of all things of a kind is summed; the kind with most is the cause, and its thing with most is named.

    Args:
        late: `late_ranks`, those that are asked for.
        arrived: `arrivals`.
        segments: `rank_segments` of all ranks.
    """
    brought = carried(late, arrived, segments)
    causes = pl.concat([_own_causes(by_name(late, arrived, segments)), _brought_causes(brought)])
    most = (
        causes.filter(pl.col("explained_ns") > 0)
        .sort("explained_ns", "cause", descending=[True, False])
        .unique("collective", keep="first", maintain_order=True)
    )
    found = late.join(most, on="collective", how="left", maintain_order="left").pipe(_with_share)
    return with_origins(found, brought)


def _own_causes(differing: pl.DataFrame) -> pl.DataFrame:
    """Of each collective and kind of cause: what it explains, and of what differs most its name and times."""
    family = pl.when(pl.col("cause") == LateCause.MORE_KERNELS.value).then(
        pl.lit(LateCause.LONGER_KERNEL.value)
    )
    return (
        differing.filter(pl.col("excess_ns") > 0)
        .with_columns(_cause())
        .with_columns(pl.coalesce(family, "cause").alias("family"))
        .sort("excess_ns", "merged", "name", descending=[True, False, False])
        .group_by("collective", "family", maintain_order=True)
        .agg(
            pl.col("cause").first(),
            pl.col("excess_ns").sum().alias("explained_ns"),
            pl.when(pl.col("name").first() != "").then(pl.col("name").first()).alias("name"),
            pl.col("time_ns", "others_ns").first(),
            pl.col("excess_ns").first().alias("difference_ns"),
        )
        .select("collective", "cause", "explained_ns", *_THING)
    )


def _brought_causes(brought: pl.DataFrame) -> pl.DataFrame:
    nothing = (pl.lit(None, dtype=pl.Int64).alias(name) for name in _THING[1:])
    unnamed = pl.lit(None, dtype=pl.String).alias("name")
    brought = brought.with_columns(unnamed, *nothing)
    inherited = pl.when("is_first").then(pl.lit(LateCause.BEFORE_RECORDING.value))
    return pl.concat(
        [
            brought.select(
                "collective",
                inherited.otherwise(pl.lit(LateCause.INHERITED.value)).alias("cause"),
                pl.col("carried_ns").alias("explained_ns"),
                *_THING,
            ),
            brought.select(
                "collective",
                pl.lit(LateCause.LONGER_TRANSFER.value).alias("cause"),
                pl.col("transfer_ns").alias("explained_ns"),
                pl.col("transferred").alias("name"),
                *_THING[1:],
            ),
        ]
    )


def _cause() -> pl.Expr:
    """The cause that each thing is, by its kind, and of kernels by whether there are more of them."""
    kind = pl.col("kind")
    mean = pl.col("others_ns") / pl.col("others_count")
    by_count = (pl.col("count") - pl.col("others_count")) * mean
    are_more = (pl.col("others_count") == 0) | (by_count >= _BY_COUNT * pl.col("excess_ns"))
    collects = pl.col("name").str.contains(_COLLECTOR) & (kind == int(SegmentKind.PYTHON))
    plain = kind.replace_strict(
        {int(kind): cause.value for kind, cause in _CAUSES.items()}, default=None, return_dtype=pl.String
    )
    return (
        pl.when(collects)
        .then(pl.lit(LateCause.GARBAGE_COLLECTION.value))
        .when(kind != int(SegmentKind.KERNEL))
        .then(plain)
        .when(are_more)
        .then(pl.lit(LateCause.MORE_KERNELS.value))
        .otherwise(pl.lit(LateCause.LONGER_KERNEL.value))
        .alias("cause")
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
        *(pl.when(is_enough).then(column).alias(column) for column in _THING),
    )
