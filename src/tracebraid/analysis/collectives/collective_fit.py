"""Alpha and beta of each group and type: `COLLECTIVE_FIT`."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracebraid.analysis.collectives.bandwidth import fit_alpha_beta
from tracebraid.analysis.collectives.transfers import transfers
from tracebraid.model.analysis import Family, Need, OnPage, job_analysis
from tracebraid.model.answers.job import COLLECTIVE_FIT
from tracebraid.model.linked_ranks import LinkedRanks

_KEY = ("group", "type", "group_size", "library")
_NS = 1e9


@job_analysis(
    COLLECTIVE_FIT,
    Family.COLLECTIVES,
    needs=(Need.COMMUNICATION,),
    uses=(Need.SEVERAL_RANKS, Need.COLLECTIVES),
    shown=(
        "type alpha_ns! beta_bytes_per_s error_share r_squared count sizes group_size group library "
        "is_bound description"
    ),
    when_empty="no collective of known size is in the traces",
    formula=(
        "Hockney's model, time = alpha + size / beta, fitted to the transfers with relative errors and "
        "Huber's weights."
    ),
    on_page=OnPage(),
)
def collective_fit(ranks: LinkedRanks) -> pl.DataFrame:
    """What latency and bandwidth fit the collectives?

    Alpha and beta of each group and type: `COLLECTIVE_FIT`.

    Args:
        ranks: the ranks of a job.

    The model is Hockney's, time = alpha + bytes / beta.
    """
    found = transfers(ranks).filter(pl.col("size_bytes").is_not_null() & (pl.col("transfer_ns") > 0))
    # Upper bounds hold waiting; they are fitted only where nothing else is there.
    bound = pl.col("is_bound").fill_null(value=True)
    exact = pl.col("size_bytes").filter(~bound).n_unique().over(*_KEY) >= 2
    found = found.filter(~bound | ~exact).sort(*_KEY, "first_arrival_ns", "_key")
    rows = [_row(part) for part in found.partition_by(*_KEY, maintain_order=True)]
    frame = pl.DataFrame(rows, schema=COLLECTIVE_FIT.polars_schema())
    return COLLECTIVE_FIT.conform(frame)


def _row(part: pl.DataFrame) -> Mapping[str, object]:
    """The row of `COLLECTIVE_FIT` of the collectives of a group and type."""
    sizes = part.get_column("size_bytes").n_unique()
    row: dict[str, object] = {
        **part.select(_KEY).row(0, named=True),
        "description": part.get_column("description").drop_nulls().first(),
        "count": part.height,
        "sizes": sizes,
        "is_bound": bool(part.get_column("is_bound").fill_null(value=True).any()),
    }
    if sizes < 2:
        return row
    fit = fit_alpha_beta(
        part.get_column("size_bytes").cast(pl.Float64).to_numpy(),
        part.get_column("transfer_ns").cast(pl.Float64).to_numpy(),
    )
    alpha_error, slope_error = fit.alpha_error, fit.slope_error
    if alpha_error is not None and slope_error is not None:
        row |= {
            "alpha_low_ns": max(0.0, fit.alpha - alpha_error),
            "alpha_high_ns": fit.alpha + alpha_error,
            "beta_low_bytes_per_s": _rate(fit.slope + slope_error),
            "beta_high_bytes_per_s": _rate(fit.slope - slope_error),
        }
    return row | {
        "alpha_ns": fit.alpha,
        "beta_bytes_per_s": _rate(fit.slope),
        "error_share": fit.error_share,
        "r_squared": fit.r_squared,
    }


def _rate(slope: float) -> float | None:
    """Convert ns per byte to bytes/s; None if not positive."""
    return _NS / slope if slope > 0 else None
