"""How well a replay that uses no measured start reproduces the steps it was built from, and predicts the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.graph.latest_edges import latest_edges
from tracebraid.model.answers.graph.replay_errors import REPLAY_ERRORS
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.replay_error import ReplayError
from tracebraid.simulation.replay import replay
from tracebraid.simulation.residual_choice import Residuals, with_residuals
from tracebraid.simulation.step_times import (
    StepMoments,
    StepTimes,
    job_step_times,
    rank_step_times,
    step_moments,
)

__all__ = ["replay_error", "replay_errors"]

_Ints = NDArray[np.int64]


def replay_errors(graph: DependencyGraph) -> pl.DataFrame:
    """The measured and the replayed time of each step: `REPLAY_ERRORS`, the rows of the whole job first.

    Args:
        graph: as it was measured.
    """
    if graph.steps.is_empty():
        return REPLAY_ERRORS.empty()
    moments = step_moments(graph.steps)
    modelled = with_residuals(graph, Residuals.MODELLED)
    replayed, alone = _replayed(modelled), _replayed(with_residuals(graph, Residuals.MODELLED_ALONE))
    times = (graph.moments.time_ns, replayed, alone)
    names = np.array(moments.names, dtype=object)
    of_job = [job_step_times(each, moments) for each in times]
    job = _compared(of_job, np.zeros(len(names), dtype=np.int64)).with_columns(
        pl.Series("step", names, dtype=pl.String),
        pl.lit(None, dtype=pl.Int64).alias("rank"),
        pl.Series("modelled_share", list(_modelled_shares(modelled, replayed, moments)), dtype=pl.Float64),
    )
    of_ranks = [rank_step_times(each, moments) for each in times]
    ranks = _compared(of_ranks, moments.rank).with_columns(
        pl.Series("step", names[moments.step], dtype=pl.String),
        pl.Series("rank", np.array(moments.ranks)[moments.rank]),
        pl.lit(None, dtype=pl.Float64).alias("modelled_share"),
    )
    columns = list(REPLAY_ERRORS.polars_schema())
    return REPLAY_ERRORS.conform(pl.concat([job.select(columns), ranks.select(columns)]))


def replay_error(errors: pl.DataFrame, rank: int | None = None) -> ReplayError:
    """The errors of all steps in a few figures.

    Args:
        errors: `REPLAY_ERRORS`.
        rank: of this rank; None: of the whole job.
    """
    rows = errors.filter(pl.col("rank").eq_missing(rank))
    error, following = (rows.get_column(name).abs().drop_nulls() for name in ("error", "next_error"))
    share = rows.get_column("modelled_share").median()
    return ReplayError(
        len(error),
        _quantile(error, 0.5),
        _quantile(error, 0.95),
        len(following),
        _quantile(following, 0.5),
        _quantile(following, 0.95),
        float(share) if isinstance(share, float) else None,
    )


def _quantile(values: pl.Series, share: float) -> float | None:
    return values.quantile(share, "linear")


def _replayed(graph: DependencyGraph) -> _Ints:
    edges = graph.edges
    return replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)


def _compared(times: Sequence[StepTimes], rank: _Ints) -> pl.DataFrame:
    """The times of steps beside each other, with what the step before of the same rank says.

    Args:
        times: measured, replayed, and replayed with the residuals of each step alone.
        rank: of each step.
    """
    measured, replayed, alone = times
    frame = pl.DataFrame(
        {
            "rank": rank,
            "measured_ns": measured.time_ns,
            "replayed_ns": replayed.time_ns,
            "span_ns": measured.span_ns,
            "time_alone": alone.time_ns,
            "span_alone": alone.span_ns,
        }
    )
    # What a first step says about the second is its span: when the step before it ended was not recorded.
    second = pl.col("number") == 1
    frame = frame.with_columns(
        pl.int_range(pl.len()).over("rank").alias("number"),
        pl.col("time_alone", "span_alone").shift(1).over("rank"),
    ).with_columns(
        pl.when(second).then("span_alone").otherwise("time_alone").alias("next_ns"),
        pl.when(second).then("span_ns").otherwise("measured_ns").alias("next_measured"),
    )
    return frame.select(
        "measured_ns",
        "replayed_ns",
        "next_ns",
        error=_relative("replayed_ns", "measured_ns"),
        next_error=_relative("next_ns", "next_measured"),
    )


def _relative(found: str, measured: str) -> pl.Expr:
    return pl.when(pl.col(measured) > 0).then(pl.col(found) / pl.col(measured) - 1)


def _modelled_shares(graph: DependencyGraph, times: _Ints, moments: StepMoments) -> Iterator[float | None]:
    """The share of each step's replayed time that is residuals, along the chain that ends with the step."""
    found = job_step_times(times, moments)
    edges = graph.edges
    latest = latest_edges(edges, times)
    waited = np.full(len(times), -1, dtype=np.int64)
    waited[latest >= 0] = edges.before[latest[latest >= 0]]
    last = np.where(
        times[moments.host_end] >= times[moments.device_end], moments.host_end, moments.device_end
    )
    for step, (end, time) in enumerate(zip(found.end_ns, found.time_ns, strict=True)):
        ends = last[moments.step == step]
        moment = int(ends[np.argmax(times[ends])])
        lost = _residual_before(waited, graph.moments.residual_ns, times, moment, int(end - time))
        yield lost / int(time) if time > 0 else None


@compiled
def _residual_before(waited: _Ints, residual_ns: _Ints, times: _Ints, moment: int, until: int) -> int:
    """The residuals along the chain of what each moment waited for the longest, back to a time."""
    lost = 0
    while moment >= 0 and times[moment] > until:
        lost += min(residual_ns[moment], times[moment] - until)
        moment = waited[moment]
    return lost
