"""Ranks, or stages of a pipeline, that wait for others because these compute more."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tracebraid.analysis.antipatterns.ranks.gathered import collective_sites, step_compute
from tracebraid.analysis.antipatterns.ranks.sites import at_sites
from tracebraid.analysis.collectives.transfers.waits import waits
from tracebraid.model.collectives.codes import BETWEEN_TWO
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.questions.detector import JobDetector

__all__ = ["LEAST_SHARE", "RANKS_DETECTOR", "STAGES_DETECTOR", "rank_imbalance", "stage_imbalance"]

LEAST_SHARE = 0.05
"""How far the most compute of a step is above the mean of the ranks, as a share of it, for an imbalance: devices of one
kind differ by 2 to 3 % on the same work."""

_TO_STAGES = [kind.value for kind in BETWEEN_TWO]
_STEP = ["group", "step"]


def rank_imbalance(ranks: LinkedRanks) -> pl.DataFrame:
    """Waiting in collectives, in steps in which some rank of the group computes `LEAST_SHARE` more than the mean.

    With the compute C of each rank in a step, balancing saves at most max C - mean C, as all ranks then wait for none.
    A rank's waits of the step are evidence for that, shortened to it in proportion; and to max C less its own, which
    is what others compute more.

    Args:
        ranks: the ranks of a job.
    """
    apart = pl.col("most_ns") - pl.col("mean_ns")
    return _imbalance(ranks, lambda waiting: ~waiting.is_in(_TO_STAGES), apart)


def stage_imbalance(ranks: LinkedRanks) -> pl.DataFrame:
    """Waiting for what other stages send, in steps in which one computes `LEAST_SHARE` more than the mean of them.

    The slowest stage sets the pace, bubbles included: with equal stages the step takes mean C / max C of its time. So a
    step saves at most length x (1 - mean C / max C). Ranks that send to or receive from others are stages.

    Args:
        ranks: the ranks of a job.
    """
    apart = pl.col("length_ns") * (1 - pl.col("mean_ns") / pl.col("most_ns"))
    return _imbalance(ranks, lambda waiting: waiting.is_in(_TO_STAGES), apart, among_all=True)


def _imbalance(
    ranks: LinkedRanks,
    chosen: Callable[[pl.Expr], pl.Expr],
    at_most: pl.Expr,
    among_all: bool = False,
) -> pl.DataFrame:
    """Waits as evidence.

    Args:
        ranks: the ranks of a job.
        chosen: which types of collectives count.
        at_most: what a step saves, of most_ns, mean_ns and length_ns.
        among_all: whether all ranks that communicate so are compared, instead of those of each group.
    """
    waiting = _waiting(ranks, chosen, among_all)
    compute = _compute_in_groups(waiting, ranks.of(step_compute))
    uneven = _uneven_steps(compute).with_columns(at_most.alias("at_most_ns"))
    less = (
        pl.when(pl.lit(value=among_all))
        .then("at_most_ns")
        .otherwise(pl.col("most_ns") - pl.col("compute_ns"))
    )
    found = (
        waiting.filter(pl.col("waiting_ns") > 0)
        .join(uneven, on=_STEP, how="inner", nulls_equal=True, maintain_order="left")
        .join(
            compute.drop("length_ns"),
            on=[*_STEP, "rank"],
            how="inner",
            nulls_equal=True,
            maintain_order="left",
        )
        .with_columns(pl.col("waiting_ns").sum().over(*_STEP, "rank").alias("all_ns"))
        .with_columns(
            pl.min_horizontal("at_most_ns", less, pl.col("all_ns").cast(pl.Float64)).alias("saved_ns")
        )
        .select(
            "rank",
            "event_id",
            "waiting_ns",
            (pl.col("waiting_ns") * (pl.col("saved_ns") / pl.col("all_ns")))
            .floor()
            .cast(pl.Int64)
            .alias("lost_ns"),
            pl.format("rank {} computes most", "busiest").alias("subject"),
        )
    )
    return at_sites(ranks.of(collective_sites), found)


def _waiting(ranks: LinkedRanks, chosen: Callable[[pl.Expr], pl.Expr], among_all: bool) -> pl.DataFrame:
    """The waits of collectives of some types, with their group; among all ranks there is one group."""
    groups = ranks.collectives.select("collective", "group")
    found = waits(ranks).filter(chosen(pl.col("type")).fill_null(value=False))
    found = found.join(groups, on="collective", how="inner", maintain_order="left")
    return found.with_columns(pl.lit("").alias("group")) if among_all else found


def _compute_in_groups(waiting: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """What each rank of a group computes in each step in which the group communicates."""
    return (
        waiting.select(*_STEP, "rank")
        .unique()
        .join(steps, on=["rank", "step"], how="inner", nulls_equal=True)
        .sort(*_STEP, "rank")
    )


def _uneven_steps(compute: pl.DataFrame) -> pl.DataFrame:
    """Steps in which the ranks of a group compute unequally: most_ns, mean_ns, length_ns, busiest."""
    own = pl.col("compute_ns")
    steps = compute.group_by(_STEP).agg(
        own.max().alias("most_ns"),
        own.mean().alias("mean_ns"),
        pl.col("length_ns").max(),
        pl.col("rank").get(own.arg_max()).alias("busiest"),
    )
    return steps.filter((pl.col("mean_ns") > 0) & (pl.col("most_ns") > (1 + LEAST_SHARE) * pl.col("mean_ns")))


RANKS_DETECTOR = JobDetector(
    "rank-imbalance",
    "ranks that wait for others, which compute more",
    "give all ranks equal work: batches of equal tokens (sort or pack by length), even shards and experts",
    rank_imbalance,
    (step_compute, collective_sites),
)

STAGES_DETECTOR = JobDetector(
    "stage-imbalance",
    "pipeline stages that wait for others, which compute more",
    "move layers between stages until all take equally long; the embedding and the loss count as layers",
    stage_imbalance,
    (step_compute, collective_sites),
)
