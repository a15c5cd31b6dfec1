"""The timeline of a report: slices that are taken of each rank, and what is made of them over all ranks."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracebraid.analysis.slices.choice import SliceChoice
from tracebraid.analysis.slices.rank_slices import RankSlices, rank_slices
from tracebraid.analysis.slices.timeline_view import timeline_view
from tracebraid.api.reporting.view_options import ViewOptions
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report.run_results import RunResults
from tracebraid.model.report.timeline_tables import MOST_SLICES

__all__ = ["job_timeline", "rank_timeline"]

_WINDOWS = "timeline-of-rank-windows"
_TABLES = {name: f"timeline-of-rank-{name}" for name in ("slices", "links", "drawn", "lanes")}
"""The names in `RunResults.views` of what is taken of a rank; `job_timeline` empties them."""


def rank_timeline(linked: LinkedTrace, options: ViewOptions) -> Mapping[str, pl.DataFrame]:
    """The slices of a rank, a share of those of the page: see `RankSlices`."""
    choice = SliceChoice(options.steps, options.annotation, max(1, MOST_SLICES // options.ranks))
    found = rank_slices(linked, choice)
    rank = pl.lit(found.rank, dtype=pl.Int64).alias("rank")
    start, end = found.window_ns or (None, None)
    windows = pl.DataFrame(
        {
            "start_ns": [start],
            "end_ns": [end],
            "merged_ns": [found.merged_ns],
            "steps": [list(options.steps)],
        },
        schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "merged_ns": pl.Int64, "steps": pl.List(pl.String)},
    )
    tables = {_TABLES[name]: getattr(found, name).select(rank, pl.all()) for name in _TABLES}
    return {_WINDOWS: windows.select(rank, pl.all()), **tables}


def job_timeline(results: RunResults, ranks: LinkedRanks) -> Mapping[str, pl.DataFrame]:
    """The timeline of all ranks that were taken: `TIMELINE_TABLES`, by their names."""
    views = results.views
    if _WINDOWS not in views:
        return {}
    parts = [_part(views, row) for row in views[_WINDOWS].iter_rows(named=True)]
    emptied = {name: views[name].clear() for name in (_WINDOWS, *_TABLES.values())}
    return {**emptied, **timeline_view(parts, ranks, results.path_of_steps)}


def _part(views: Mapping[str, pl.DataFrame], row: Mapping[str, object]) -> RankSlices:
    start, end, rank, merged_ns = row["start_ns"], row["end_ns"], row["rank"], row["merged_ns"]
    assert isinstance(rank, int) and isinstance(merged_ns, int), "both columns are int64 without nulls"
    window = (start, end) if isinstance(start, int) and isinstance(end, int) else None
    steps = row["steps"]
    names = tuple(str(step) for step in steps) if isinstance(steps, list) else ()
    of_rank = {
        name: views[table].filter(pl.col("rank") == rank).drop("rank") for name, table in _TABLES.items()
    }
    return RankSlices(rank, names, window, merged_ns, **of_rank)
