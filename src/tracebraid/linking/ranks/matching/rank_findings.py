"""Findings about whole ranks: those that are of another run or window, and those of which little is matched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from tracebraid.linking.ranks.matching.disjoint_sets import DisjointSets
from tracebraid.model.collectives import (
    BETWEEN_TWO,
    CollectiveType,
    is_between_two,
    peers_listed,
    ranks_in_text,
)
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode


def without_shared_collectives(members: pl.DataFrame, paths: dict[int, str]) -> Iterator[Finding]:
    """A finding for each set of ranks that collectives connect, but not with others that their groups name.

    Ranks without any match have a separate finding.
    """
    sets = _connected(members)
    if len(sets) < 2:
        return
    named = _named(members)
    largest = max(sets, key=lambda ranks: (len(ranks), -ranks[0]))
    for ranks in sets:
        if ranks is not largest and _share_a_group(ranks, largest, named):
            yield Finding.of(
                FindingCode.WINDOW_APART,
                paths.get(ranks[0], ""),
                case=FindingCase.NOTHING_SHARED,
                rank=ranks[0],
                ranks=", ".join(map(str, ranks)),
                first_rank=largest[0],
            )


@dataclass(frozen=True, eq=False)
class _Named:
    """The groups that ranks name.

    Args:
        groups: of each rank the numbers of its groups.
        ranks: of each group its ranks: those that it lists, and those that name it.
    """

    groups: dict[int, set[int]]
    ranks: dict[int, set[int]]


def _named(members: pl.DataFrame) -> _Named:
    """Groups of each rank, distinguished by text and listed ranks."""
    found = _Named(defaultdict(set), defaultdict(set))
    known = pl.col("group").is_not_null() | pl.col("group_ranks").is_not_null()
    texts = members.filter(known).group_by("group", as_text("group_ranks"))
    number: dict[str, int] = {}
    for group, listed, ranks in texts.agg(pl.col("rank").unique()).iter_rows():
        own = number.setdefault(group, len(number)) if group is not None else -1 - len(found.ranks)
        found.ranks[own].update(ranks_in_text(listed), ranks if group is not None else ())
        for rank in ranks:
            found.groups[rank].add(own)
    return found


def _share_a_group(ranks: list[int], others: list[int], named: _Named) -> bool:
    """Return whether a group of a rank is also one of the others."""
    return any(
        not named.ranks[group].isdisjoint(there)
        for here, there in ((ranks, others), (others, ranks))
        for group in set().union(*(named.groups.get(rank, ()) for rank in here))
    )


def _connected(members: pl.DataFrame) -> list[list[int]]:
    """The sets of ranks that matched collectives connect, each in order."""
    matched = members.drop_nulls("collective").select("collective", "rank")
    least = matched.group_by("collective").agg(pl.col("rank").min().alias("first"))
    pairs = (
        matched.join(least, on="collective", how="inner")
        .select("rank", "first")
        .unique()
        .sort("rank", "first")
    )
    ranks = pairs.get_column("rank").unique().sort().to_list()
    number = {rank: position for position, rank in enumerate(ranks)}
    sets = DisjointSets(len(ranks))
    for rank, first in pairs.iter_rows():
        sets.join(number[rank], number[first])
    found: dict[int, list[int]] = defaultdict(list)
    for rank in ranks:
        found[sets.root(number[rank])].append(rank)
    return list(found.values())


def rank_findings(
    members: pl.DataFrame, collectives: pl.DataFrame, ranks: pl.DataFrame, strangers: dict[int, int]
) -> tuple[Finding, ...]:
    """Findings about whole ranks."""
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
        *_unmatched(members, collectives, paths, strangers),
        *without_shared_collectives(members, paths),
    )


def of_another_run(ranks: pl.DataFrame, members: pl.DataFrame) -> dict[int, int]:
    """Ranks that recorded the same steps at another time than most of their host: each with the first of these.

    A host has a single clock, and ranks of a run are in a step together. Those that recorded other steps have other
    windows; those without steps count as of another run.
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
    """Return whether both recorded steps, and none that the other did."""
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
    """Find ranks without communication, if others have some."""
    there = members.get_column("rank").unique().to_list()
    if there:
        for rank in sorted(paths.keys() - there):
            yield Finding.of(FindingCode.NO_COLLECTIVES, paths[rank], rank=rank, others=len(there))


_LEAST_MATCHED = 0.5
"""Share of what a rank issued with ranks that were read: where less of it is matched, most waits are unknown."""
_KINDS = {True: "sends and receives", False: "collectives"}


def _unmatched(
    members: pl.DataFrame, collectives: pl.DataFrame, paths: dict[int, str], strangers: dict[int, int]
) -> Iterator[Finding]:
    """Ranks of which little is matched of what they issued with ranks that were read.

    They are of another window or run only where something says so: they recorded other steps, or the others of their
    groups met without them.
    """
    paired = pl.col("type").is_in([kind.value for kind in BETWEEN_TWO]).fill_null(value=False)
    expected = members.filter(_has_partner(members, list(paths)) & ~pl.col("rank").is_in(list(strangers)))
    counts = expected.group_by("rank", paired.alias("paired")).agg(
        pl.len().alias("issued"), pl.col("collective").count().alias("matched"), pl.col("event_id").first()
    )
    few = counts.filter(pl.col("matched") < _LEAST_MATCHED * pl.col("issued")).sort("rank", "paired")
    steps = {
        rank: [*names]
        for rank, names in members.group_by("rank")
        .agg(pl.col("step").drop_nulls().unique(maintain_order=True))
        .iter_rows()
    }
    for rows in few.partition_by("rank", maintain_order=True):
        rank, event = rows.item(0, "rank"), rows.item(0, "event_id")
        matched = rows.get_column("matched").sum()
        others = [name for other, names in steps.items() if other != rank for name in names]
        details: dict[str, object] = {
            "rank": rank,
            "issued": rows.get_column("issued").sum(),
            "matched": matched,
            "what": " and ".join(_KINDS[is_paired] for is_paired in rows.get_column("paired")),
        }
        missed = collectives.filter(pl.col("missing").list.contains(rank)).height
        code = FindingCode.WINDOW_APART
        if _has_others(set(steps[rank]), set(others)):
            details |= {"case": FindingCase.OTHER_STEPS, "own": steps[rank][0], "others": others[0]}
        elif missed and not matched and not rows.item(0, "paired"):
            details |= {"case": FindingCase.MET_WITHOUT, "met": missed}
        else:
            code = FindingCode.COLLECTIVES_UNMATCHED
        yield Finding(code, paths.get(rank, ""), f"event {event}", details=details)


def _has_partner(members: pl.DataFrame, present: list[int]) -> pl.Series:
    """Return whether each member is of a group, or has a peer, of which another rank was read, or may have been."""
    own, known = pl.col("rank"), pl.col("group_ranks").is_not_null()
    of_groups = members.filter(known).select("rank", as_text("group_ranks")).unique()
    of_groups = of_groups.with_columns(
        pl.Series(
            "of_group",
            [
                not {*ranks_in_text(text)}.isdisjoint({*present} - {rank})
                for rank, text in of_groups.iter_rows()
            ],
            dtype=pl.Boolean,
        )
    )
    rows = members.select(
        "rank", "type", "source", "destination", "group", as_text("group_ranks"), peers_listed()
    )
    rows = rows.join(of_groups, on=["rank", "group_ranks"], how="left", maintain_order="left")
    of_name = pl.col("group").is_null() | (own.n_unique().over("group") > 1)
    is_send = pl.col("type") == CollectiveType.SEND.value
    peer = pl.when(is_between_two()).then(pl.when(is_send).then("destination").otherwise("source"))
    is_there = pl.element().struct.field("peer").is_in(present)
    # Of unknown peers any may be there: the group decides.
    there = pl.col("peers").list.eval(is_there)
    is_open = there.list.eval(pl.element().is_null()).list.any() & ~there.list.any()
    of_peers = pl.when(~is_open).then(there.list.any())
    of_peer = peer.is_in(present) & (peer != own)
    return rows.select(pl.coalesce(of_peer, of_peers, "of_group", of_name)).to_series()
