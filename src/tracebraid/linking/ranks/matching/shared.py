"""Are there ranks that share no collective with others of their groups?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import polars as pl

from tracebraid.linking.ranks.matching.disjoint_sets import DisjointSets
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
    groups = members.select("rank", "group", "group_ranks").unique()
    named = {rank: set[int]() for rank in paths}
    of_name: dict[str, set[int]] = defaultdict(set)
    for rank, group, ranks in groups.iter_rows():
        named.setdefault(rank, set()).update(ranks or ())
        if group is not None:
            of_name[group].add(rank)
    for rank, group in groups.select("rank", "group").drop_nulls().iter_rows():
        named[rank] |= of_name[group]
    largest = max(sets, key=lambda ranks: (len(ranks), -ranks[0]))
    for ranks in sets:
        if ranks is not largest and _is_named(ranks, largest, named):
            yield Finding.of(
                FindingCode.COLLECTIVES_UNMATCHED,
                paths.get(ranks[0], ""),
                case=FindingCase.NOTHING_SHARED,
                rank=ranks[0],
                ranks=", ".join(map(str, ranks)),
                first_rank=largest[0],
            )


def _is_named(ranks: list[int], others: list[int], named: dict[int, set[int]]) -> bool:
    """Whether a group of a rank is also one of the others."""
    mutual = any(named[rank] & set(others) for rank in ranks)
    return mutual or any(named[rank] & set(ranks) for rank in others)


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
