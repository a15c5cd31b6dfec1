"""Which ranks do not fit with the others: of another run, of another world, or without any collective?"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracebraid.linking.ranks.matching.shared import nothing_shared
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

__all__ = ["of_another_run", "rank_findings"]


def rank_findings(
    members: pl.DataFrame, ranks: pl.DataFrame, strangers: dict[int, int]
) -> tuple[Finding, ...]:
    """What is noticed of whole ranks.

    Args:
        members: `MEMBERS`, matched.
        ranks: `RANKS`.
        strangers: ranks of another run, each with a rank of this.
    """
    if ranks.height < 2:
        return ()
    paths = {rank: path or "" for rank, path in ranks.select("rank", "path").iter_rows()}
    return (
        *_worlds(ranks),
        *(
            Finding.of(FindingCode.RUNS_MIXED, paths.get(rank, ""), rank=rank, first_rank=first)
            for rank, first in strangers.items()
        ),
        *_silent(members, paths),
        *_unmatched(members, paths, strangers),
        *nothing_shared(members, paths),
    )


def of_another_run(ranks: pl.DataFrame, members: pl.DataFrame) -> dict[int, int]:
    """Ranks that recorded the same steps at another time than most of their host: each with the first of these.

    A host has a single clock, and ranks of a run are in a step together. Those that recorded other steps have other
    windows; those without steps count as of another run.

    Args:
        ranks: `RANKS`.
        members: `MEMBERS`.
    """
    found: dict[int, int] = {}
    steps: dict[int, set[str]] = {
        rank: set(names)
        for rank, names in members.group_by("rank").agg(pl.col("step").drop_nulls().unique()).iter_rows()
    }
    known = ranks.drop_nulls(["host", "start_ns", "end_ns"]).sort("start_ns", "rank")
    for host in known.partition_by("host", maintain_order=True):
        latest = pl.col("end_ns").cum_max().shift(1)
        runs = host.with_columns((pl.col("start_ns") > latest).fill_null(value=False).cum_sum().alias("run"))
        sizes = runs.group_by("run", maintain_order=True).agg(pl.col("rank").sort()).to_dicts()
        largest = max(sizes, key=lambda run: (len(run["rank"]), -min(run["rank"])))
        for run in sizes:
            if run is not largest:
                usual = set[str]().union(*(steps.get(rank, ()) for rank in largest["rank"]))
                others = [rank for rank in run["rank"] if not _has_others(steps.get(rank, set()), usual)]
                found |= dict.fromkeys(others, min(largest["rank"]))
    return dict(sorted(found.items()))


def _has_others(steps: set[str], usual: set[str]) -> bool:
    """Whether both recorded steps, and none that the other did."""
    return bool(steps) and bool(usual) and not steps & usual


def _worlds(ranks: pl.DataFrame) -> Iterator[Finding]:
    sizes = ranks.get_column("world_size").drop_nulls().value_counts(sort=True)
    if sizes.height > 1:
        usual = sizes.item(0, "world_size")
        other = ranks.filter(pl.col("world_size").is_not_null() & (pl.col("world_size") != usual)).row(
            0, named=True
        )
        said = ", ".join(str(size) for size in sorted(sizes.get_column("world_size").to_list()))
        yield Finding.of(FindingCode.WORLD_DIFFERS, other["path"] or "", f"rank {other['rank']}", sizes=said)


def _silent(members: pl.DataFrame, paths: dict[int, str]) -> Iterator[Finding]:
    """Ranks that communicate nothing, where others do."""
    there = members.get_column("rank").unique().to_list()
    if there:
        for rank in sorted(paths.keys() - there):
            yield Finding.of(FindingCode.NO_COLLECTIVES, paths[rank], rank=rank, others=len(there))


def _unmatched(members: pl.DataFrame, paths: dict[int, str], strangers: dict[int, int]) -> Iterator[Finding]:
    """Ranks of which nothing is matched, where another rank says that it is of such a group."""
    counts = members.group_by("rank").agg(
        pl.len(), pl.col("collective").count().alias("matched"), pl.col("event_id").first()
    )
    alone = counts.filter((pl.col("matched") == 0) & ~pl.col("rank").is_in(list(strangers))).sort("rank")
    if counts.height < 2:
        return
    for rank, count, event in alone.select("rank", "len", "event_id").iter_rows():
        yield Finding.of(
            FindingCode.COLLECTIVES_UNMATCHED, paths.get(rank, ""), f"event {event}", count, rank=rank
        )
