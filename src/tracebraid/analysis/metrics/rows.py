"""What is the answer of a metric, and why has it no value?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from tracebraid.analysis.metrics.measured_steps import measured_steps
from tracebraid.model.answers.job.metrics import METRICS, MetricLack
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import VALUES, Metric, MetricOptions

__all__ = ["RankLacks", "rows_of_metric"]


@dataclass(frozen=True, eq=False)
class RankLacks:
    """What the ranks lack.

    Args:
        needs: what each rank lacks of all that the metrics need.
        failed: ranks on which a user's metric failed; all ranks, where it failed over them.
    """

    needs: Mapping[int, frozenset[Need]]
    failed: frozenset[int] = frozenset()

    def first(self, metric: Metric, rank: int) -> Need | None:
        """What of its needs a rank lacks first; None: nothing."""
        return next((need for need in metric.needs if need in self.needs[rank]), None)

    def able(self, metric: Metric) -> list[int]:
        """The ranks that lack nothing and on which it did not fail."""
        return [rank for rank in self.needs if self.first(metric, rank) is None and rank not in self.failed]


def rows_of_metric(
    metric: Metric, ranks: LinkedRanks, options: MetricOptions, lacks: RankLacks
) -> pl.DataFrame:
    """The rows of `model.answers.METRICS` of a metric: all ranks together, then each.

    Ranks that lack what it needs, or on which it failed, are kept from it. A value that is not finite is none. Where it
    failed on a rank, there is no value over all.

    Args:
        metric: the metric.
        ranks: the ranks of the job, linked.
        options: what is asked for.
        lacks: what the ranks lack.
    """
    able = lacks.able(metric)
    values = metric.measure(_of_ranks(ranks, able), options) if able else VALUES.empty()
    of_able = pl.col("rank").is_null() | pl.col("rank").is_in(able)
    values = VALUES.conform(values, fill_missing=True).filter(pl.col("value").is_finite() & of_able)
    if lacks.failed:
        values = values.filter(pl.col("rank").is_not_null())
    doubtful = _with_doubtful_steps(ranks)
    reasons: dict[int | None, str] = {
        rank: _reason(metric, rank, lacks, rank in doubtful) for rank in lacks.needs
    }
    reasons = {None: _reason_of_job(reasons.values()), **reasons}
    every = pl.DataFrame(
        {"rank": list(reasons), "lacks": list(reasons.values())},
        schema={"rank": pl.Int64, "lacks": pl.String},
    )
    found = every.join(
        values.unique("rank", keep="first", maintain_order=True),
        on="rank",
        how="left",
        nulls_equal=True,
        maintain_order="left",
    ).with_columns(
        pl.lit(metric.name).alias("metric"),
        pl.lit(metric.unit_text).alias("unit"),
        pl.when(pl.col("value").is_null()).then("lacks").alias("lacks"),
    )
    return METRICS.conform(found)


def _of_ranks(ranks: LinkedRanks, able: Iterable[int]) -> LinkedRanks:
    """With the parts of some ranks alone; the members of all stay, since those of the others show who waits."""
    is_able = pl.col("rank").is_in(list(able))
    parts = {
        gather: frame.filter(is_able) if "rank" in frame.columns else frame
        for gather, frame in ranks.parts.items()
    }
    return ranks.with_parts(parts)


def _with_doubtful_steps(ranks: LinkedRanks) -> set[int]:
    """The ranks that have steps, all of them doubtful."""
    steps = ranks.of(measured_steps).group_by("rank").agg(pl.col("doubtful").all())
    return set(steps.filter("doubtful").get_column("rank").to_list())


def _reason(metric: Metric, rank: int, lacks: RankLacks, is_doubtful: bool) -> str:
    if rank in lacks.failed:
        return MetricLack.METRIC_FAILED.value
    need = lacks.first(metric, rank)
    if need is not None:
        return need.value
    return (MetricLack.DOUBTFUL_STEPS if is_doubtful else metric.otherwise).value


def _reason_of_job(reasons: Iterable[str]) -> str:
    """That of the most ranks; of equals the first. A failure of a rank is one of the job."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    failed = MetricLack.METRIC_FAILED.value
    return failed if failed in counts else max(counts, key=lambda reason: counts[reason])
