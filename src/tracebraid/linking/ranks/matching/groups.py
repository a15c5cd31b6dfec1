"""Which process groups of different ranks are one?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from tracebraid.linking.ranks.matching.disjoint_sets import DisjointSets

__all__ = ["LOCAL", "with_groups"]

LOCAL = ["rank", "process_group", "description", "_communicator", "_ranks", "group_size"]
"""What tells the groups of one rank apart."""


@dataclass(frozen=True)
class _Local:
    """A process group as one rank has it.

    Args:
        row: its number.
        rank: the rank.
        name: its name; None: unknown.
        description: its description; None: unknown.
        communicators: ids of its communicators.
        ranks: its ranks; None: unknown.
        size: how many; None: unknown.
    """

    row: int
    rank: int
    name: str | None
    description: str | None
    communicators: frozenset[str]
    ranks: tuple[int, ...] | None
    size: int | None


def with_groups(members: pl.DataFrame) -> pl.DataFrame:
    """The members with `_group`, a number that is the same on all ranks of a group, and `group`, a text for it.

    Groups are one by a communicator that they share; else by their ranks, those of equal ranks by names,
    descriptions, or the order in which they are first used; else by name and size, if not more ranks have it than it
    has. A group that this leaves open stays the group of a single rank.

    Args:
        members: `MEMBERS` of all ranks, in the order in which each rank issued them.
    """
    # A group with a name may have several communicators, one without is known by its communicator.
    unnamed = pl.col("process_group").is_null()
    keyed = members.with_columns(
        pl.when(unnamed).then("communicator").alias("_communicator"),
        pl.col("group_ranks").cast(pl.List(pl.String)).list.join(",").alias("_ranks"),
    )
    local = keyed.group_by(LOCAL, maintain_order=True).agg(
        pl.col("communicator").drop_nulls().unique(), pl.col("group_ranks").first()
    )
    locals_ = [
        _Local(row, rank, name, description, frozenset(communicators), tuple(ranks) if ranks else None, size)
        for row, (rank, name, description, size, communicators, ranks) in enumerate(
            local.select(
                "rank", "process_group", "description", "group_size", "communicator", "group_ranks"
            ).iter_rows()
        )
    ]
    sets = _joined(locals_)
    number = {
        root: position for position, root in enumerate(dict.fromkeys(sets.root(item.row) for item in locals_))
    }
    groups = [number[sets.root(item.row)] for item in locals_]
    names = _names(locals_, groups)
    found = local.select(LOCAL).with_columns(
        pl.Series("_group", groups, dtype=pl.Int64),
        pl.Series("group", [names[group] for group in groups], dtype=pl.String),
    )
    return keyed.join(found, on=LOCAL, how="left", nulls_equal=True, maintain_order="left").drop(
        "_communicator", "_ranks"
    )


def _joined(groups: list[_Local]) -> DisjointSets:
    sets = DisjointSets(len(groups))
    shared = _join_by_communicator(groups, sets)
    by_ranks: dict[tuple[int, ...], list[_Local]] = defaultdict(list)
    for item in groups:
        if item.ranks is not None:
            by_ranks[item.ranks].append(item)
    for same in by_ranks.values():
        _join_equal_ranks(same, sets, shared)
    _join_by_name([item for item in groups if item.ranks is None], groups, sets)
    return sets


def _join_by_communicator(groups: list[_Local], sets: DisjointSets) -> bool:
    """Join groups that share a communicator; whether any two ranks do: else the ids are of no use."""
    owner: dict[tuple[str, tuple[int, ...] | None], _Local] = {}
    shared = False
    for item in groups:
        for communicator in item.communicators:
            first = owner.setdefault((communicator, item.ranks), item)
            shared |= first.rank != item.rank
            sets.join(first.row, item.row)
    return shared


def _join_equal_ranks(same: list[_Local], sets: DisjointSets, shared: bool) -> None:
    """Join groups of equal ranks: where each rank has one, these; else by names, descriptions, or their order."""
    by_rank = _by_rank(same)
    keys: tuple[Iterable[Hashable], ...] = (
        [item.name for item in same],
        [item.description for item in same],
    )
    if all(len(of_rank) == 1 for of_rank in by_rank.values()):
        _join_all(same, sets, shared)
        return
    for names in keys:
        labels = dict(zip((item.row for item in same), names, strict=True))
        sets_of_names = {frozenset(labels[item.row] for item in of_rank) for of_rank in by_rank.values()}
        distinct = all(len({labels[i.row] for i in of_rank}) == len(of_rank) for of_rank in by_rank.values())
        if distinct and len(sets_of_names) == 1:
            _join_labelled(same, labels, sets, shared)
            return
    if len({len(of_rank) for of_rank in by_rank.values()}) == 1:
        order = {item.row: position for of_rank in by_rank.values() for position, item in enumerate(of_rank)}
        _join_labelled(same, order, sets, shared)
        return
    labels = {item.row: (item.name, item.description) for item in same}
    _join_labelled([item for item in same if item.name is not None], labels, sets, shared)


def _join_labelled(
    same: list[_Local], labels: Mapping[int, Hashable], sets: DisjointSets, shared: bool
) -> None:
    by_label: dict[Hashable, list[_Local]] = defaultdict(list)
    for item in same:
        by_label[labels[item.row]].append(item)
    for items in by_label.values():
        if len({item.rank for item in items}) == len(items):
            _join_all(items, sets, shared)


def _join_all(items: list[_Local], sets: DisjointSets, shared: bool) -> None:
    """Join groups of different ranks, but those whose communicators differ where ids of communicators are shared."""
    if not shared:
        for item in items[1:]:
            sets.join(items[0].row, item.row)
        return
    known = [item for item in items if item.communicators]
    unknown = [item for item in items if not item.communicators]
    if len({sets.root(item.row) for item in known}) <= 1:
        for item in [*known, *unknown]:
            sets.join(items[0].row, item.row)


def _join_by_name(unknown: list[_Local], groups: list[_Local], sets: DisjointSets) -> None:
    """Join groups whose ranks are unknown: by name, description and size, if not more ranks have one than its size."""
    whole: dict[Hashable, list[_Local]] = defaultdict(list)
    for item in groups:
        if item.ranks is not None:
            whole[item.name, len(item.ranks)].append(item)
    by_name: dict[Hashable, list[_Local]] = defaultdict(list)
    for item in unknown:
        if not item.communicators:
            by_name[item.name, item.description, item.size].append(item)
    for (name, _, size), items in ((key, value) for key, value in by_name.items() if isinstance(key, tuple)):
        distinct = len({item.rank for item in items})
        if distinct != len(items) or (size is not None and distinct > size):
            continue
        for item in items[1:]:
            sets.join(items[0].row, item.row)
        ranks_there = {item.rank for item in items}
        ranked = [item for item in whole[name, size] if item.ranks and ranks_there <= set(item.ranks)]
        if name is not None and len({sets.root(item.row) for item in ranked}) == 1:
            sets.join(ranked[0].row, items[0].row)


def _by_rank(groups: list[_Local]) -> dict[int, list[_Local]]:
    found: dict[int, list[_Local]] = defaultdict(list)
    for item in groups:
        found[item.rank].append(item)
    return found


def _names(locals_: list[_Local], groups: list[int]) -> dict[int, str]:
    """A text for each group that no other has: its name or description, with its ranks where several have that."""
    first: dict[int, _Local] = {}
    for item, group in zip(locals_, groups, strict=True):
        if group not in first or (first[group].ranks is None and item.ranks is not None):
            first[group] = item
    taken: dict[str, int] = defaultdict(int)
    names: dict[int, str] = {}
    for group, item in first.items():
        words = [item.name or "", f"({item.description})" if item.description else ""]
        words += [f"ranks {_listed(item.ranks)}" if item.ranks else f"size {item.size}" if item.size else ""]
        text = " ".join(word for word in words if word) or next(iter(sorted(item.communicators)), "unknown")
        taken[text] += 1
        names[group] = text if taken[text] == 1 else f"{text} #{taken[text]}"
    return names


def _listed(ranks: tuple[int, ...]) -> str:
    """Ranks in few characters: `0-7`, `0-12:4` for every fourth, else one by item."""
    if len(ranks) > 2:
        step = ranks[1] - ranks[0]
        if step > 0 and ranks == tuple(range(ranks[0], ranks[-1] + 1, step)):
            return f"{ranks[0]}-{ranks[-1]}" + (f":{step}" if step > 1 else "")
    return ",".join(map(str, ranks))
