"""What became of the communication of a job, counted, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracebraid.exporters.chakra.plan.world import TracedWorld
from tracebraid.model.chakra.codes import AloneReason, MissingRanks
from tracebraid.model.chakra.job_plan import JobPlan
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.number_ranges import numbers_text

__all__ = ["plan_counts", "plan_findings"]

_ALONE = "alone."


def plan_counts(rows: pl.DataFrame) -> dict[str, int]:
    """How often what became what, over all ranks: `all_reduce as ALL_REDUCE`, `alone.members missing`, and so on.

    Args:
        rows: of all simulated ranks, mapped.
    """
    together = rows.filter(pl.col("reason").is_null())
    what = pl.coalesce("type", "name", pl.lit("unknown"))
    became = pl.concat_str(what, pl.lit(" as "), pl.coalesce("comm_type", "node_type"))
    counts = {
        **_counted(together.select(became.alias("what"))),
        **_counted(
            rows.filter(pl.col("reason").is_not_null()).select(
                pl.concat_str(pl.lit(_ALONE), "reason").alias("what")
            )
        ),
        "size unknown": _size_unknown(rows).height,
        "size raised": together.filter(pl.col("size") < pl.col("comm_size")).height,
        "sizes differ": together.filter("sizes_differ").get_column("item").n_unique(),
        "transfer not measured": together.filter(~pl.col("is_measured")).height,
    }
    return {name: count for name, count in counts.items() if count}


def plan_findings(plan: JobPlan, world: TracedWorld, rows: pl.DataFrame) -> tuple[Finding, ...]:
    """What is to be said of a plan.

    Args:
        plan: the plan.
        world: what the traces say.
        rows: of all simulated ranks, mapped.
    """
    return tuple(
        finding for found in (_of_ranks(plan, world), _of_rows(plan, world, rows)) for finding in found
    )


def _of_ranks(plan: JobPlan, world: TracedWorld) -> Iterator[Finding]:
    if plan.options.missing is MissingRanks.SHRINK and plan.missing:
        yield Finding.of(
            FindingCode.CHAKRA_WORLD_SHRUNK,
            world.path,
            count=len(plan.missing),
            world=world.size,
            ranks=len(plan.ranks),
            missing=numbers_text(plan.missing),
        )
    replicas = [rank for rank in plan.ranks if rank.is_replica]
    if replicas:
        yield Finding.of(
            FindingCode.CHAKRA_RANKS_REPLICATED,
            world.path,
            count=len(replicas),
            replicas=numbers_text([rank.rank for rank in replicas]),
            sources=numbers_text(sorted({rank.source for rank in replicas})),
        )
    assumed = [group for group in world.groups if not group.is_listed]
    if assumed and len(plan.ranks) > 1:
        yield Finding.of(FindingCode.CHAKRA_GROUP_ASSUMED, world.path, count=len(assumed), world=world.size)
    if len(plan.ranks) == 1:
        yield Finding.of(FindingCode.CHAKRA_SINGLE_RANK, world.path, rank=plan.ranks[0].world_rank)
    if plan.communication.is_empty() and len(plan.ranks) > 1:
        yield Finding.of(FindingCode.CHAKRA_NO_COMMUNICATION, world.path)


def _of_rows(plan: JobPlan, world: TracedWorld, rows: pl.DataFrame) -> Iterator[Finding]:
    reasons = rows.filter(pl.col("reason").is_not_null())
    for reason in AloneReason:
        own = reasons.filter(pl.col("reason") == reason.value)
        if own.height and reason is not AloneReason.SINGLE_RANK:
            code = FindingCode.CHAKRA_COMMUNICATION_ALONE
            yield Finding.of(code, world.path, _where(own), own.height, reason=reason)
    unknown = _size_unknown(rows)
    if unknown.height:
        yield Finding.of(FindingCode.CHAKRA_SIZE_UNKNOWN, world.path, _where(unknown), unknown.height)
    differ = rows.filter("sizes_differ")
    if differ.height:
        count = differ.get_column("item").n_unique()
        yield Finding.of(FindingCode.CHAKRA_SIZES_DIFFER, world.path, _where(differ), count)


def _size_unknown(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("reason").is_null() & pl.col("size").is_null() & (pl.col("type") != "barrier"))


def _where(rows: pl.DataFrame) -> str:
    """The first event of them."""
    source, event = rows.select("source", "event_id").row(0)
    return f"rank {source}, event {event}"


def _counted(rows: pl.DataFrame) -> dict[str, int]:
    return dict(rows.group_by("what").len().sort("what").iter_rows())
