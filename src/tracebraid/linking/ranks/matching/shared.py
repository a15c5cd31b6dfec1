"""Are there ranks that share no collective with others of their groups?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from tracebraid.linking.ranks.matching.disjoint_sets import DisjointSets
from tracebraid.model.collectives.group_ranks import ranks_in_text
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode

__all__ = ["nothing_shared"]


def nothing_shared(members: pl.DataFrame, paths: dict[int, str]) -> Iterator[Finding]:
    """A finding for each set of ranks that collectives connect, but not with others that their groups name.

    Ranks of which nothing is matched at all have a finding of their own.

    Args:
        members: `MEMBERS`, matched.
        paths: the trace of each rank.
    """
    sets = _connected(members)
    if len(sets) < 2:
        return
    named = _named(members)
    largest = max(sets, key=lambda ranks: (len(ranks), -ranks[0]))
    for ranks in sets:
        if ranks is not largest and _share_a_group(ranks, largest, named):
            yield Finding.of(
                FindingCode.COLLECTIVES_UNMATCHED,
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
    """The groups of each rank. A group is told apart by its text, and by the ranks that it lists."""
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
    """Whether a group of a rank is also one of the others."""
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
