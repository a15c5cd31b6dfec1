"""Memory at the peak of each device, at another shape."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracebraid.model.answers.graph import SHAPE_MEMORY
from tracebraid.model.answers.memory import MemoryCategory
from tracebraid.simulation.changes.reshaping import Reshaped

_OF_PARAMETERS = tuple(
    each.value
    for each in (
        *(MemoryCategory.PARAMETERS, MemoryCategory.GRADIENTS, MemoryCategory.OPTIMIZER_STATE),
        MemoryCategory.COLLECTIVE_BUFFERS,
    )
)
_OF_ACTIVATIONS = tuple(
    each.value for each in (MemoryCategory.ACTIVATIONS, MemoryCategory.INPUTS, MemoryCategory.TEMPORARIES)
)


def memory_after(at_peak: pl.DataFrame, changes: Sequence[Reshaped]) -> pl.DataFrame:
    """Predict the memory at each device's peak: `SHAPE_MEMORY`.

    Parameters, gradients and state of the optimizer follow the size of the parameters, activations, inputs and
    temporaries that of activations. What else is allocated follows one or the other, which is the interval.

    Args:
        at_peak: `MEMORY_AT_PEAK` of all ranks.
        changes: the changes of shape, in order.
    """
    rank = pl.col("rank")
    factors = pl.DataFrame({"rank": at_peak.get_column("rank").unique().sort()}).with_columns(
        of_parameters=pl.lit(1.0), of_activations=pl.lit(1.0)
    )
    for change in changes:
        sizes = pl.DataFrame(
            {"rank": list(change.of_parameters), "size": list(change.of_parameters.values())},
            schema={"rank": pl.Int64, "size": pl.Float64},
        )
        factors = factors.join(sizes, on="rank", how="left", maintain_order="left").select(
            rank,
            pl.col("of_parameters") * pl.col("size").fill_null(1.0),
            pl.col("of_activations") * change.of_activations,
        )
    category = pl.col("category").cast(pl.String)
    of_parameters, of_activations = (
        (pl.col("bytes") * pl.col(name)).round() for name in ("of_parameters", "of_activations")
    )
    least, most = (
        function(of_parameters, of_activations) for function in (pl.min_horizontal, pl.max_horizontal)
    )

    def after(other: pl.Expr) -> pl.Expr:
        known = pl.when(category.is_in(_OF_PARAMETERS)).then(of_parameters)
        return known.when(category.is_in(_OF_ACTIVATIONS)).then(of_activations).otherwise(other)

    rows = at_peak.join(factors, on="rank", how="left", maintain_order="left").select(
        rank,
        "device",
        pl.col("bytes").alias("before_bytes"),
        after(((least + most) / 2).round()).alias("after_bytes"),
        after(least).alias("low_bytes"),
        after(most).alias("high_bytes"),
    )
    sums = rows.group_by("rank", "device", maintain_order=True).agg(pl.exclude("rank", "device").sum())
    return SHAPE_MEMORY.conform(
        sums.with_columns(pl.col("after_bytes", "low_bytes", "high_bytes").cast(pl.Int64))
    )
