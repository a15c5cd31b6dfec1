"""Process groups of all ranks: which groups of several ranks are one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import polars as pl
from msgspec import Struct

from tracebraid.model.collectives import UNKNOWN_GROUP, ranks_in_text
from tracebraid.model.expressions import as_text


def is_of_unnamed() -> pl.Expr:
    """Return whether the group of a member is unknown."""
    return pl.all_horizontal(pl.col("process_group", "communicator", "group_ranks").is_null())


def may_be_of_several(ranks: pl.DataFrame) -> pl.Expr:
    """Return whether the group of a member is unknown, and its trace lists several."""
    several = ranks.filter(pl.col("groups") > 1).get_column("rank").implode()
    return is_of_unnamed() & pl.col("rank").is_in(several)


LOCAL = ["rank", "process_group", "description", "_communicator", "_ranks", "group_size"]
"""Key that distinguishes the groups of one rank."""


class _Local(Struct, frozen=True):
    """A process group as one rank has it.

    Args:
        row: its number.
        rank: the rank.
        name: its name; None: unknown.
        description: its description; None: unknown.
        communicators: ids of its communicators.
        ranks: its ranks; None: unknown.
        size: how many; None: unknown.
        count: members of it.
        kinds: their types and element types.
    """

    row: int
    rank: int
    name: str | None
    description: str | None
    communicators: frozenset[str]
    ranks: tuple[int, ...] | None
    size: int | None
    count: int
    kinds: tuple[str, ...]


def with_groups(members: pl.DataFrame) -> pl.DataFrame:
    """The members with `_group`, a number that is the same on all ranks of a group, and `group`, a text for it.

    Groups are one by a communicator that they share; else by their ranks, those of equal ranks by names,
    descriptions, what they communicate, or the order of creation; else by name and size, if not more ranks have it than
    it has. A group that this leaves open stays the group of a single rank.
    """
    # A group with a name may have several communicators, one without is known by its communicator.
    unnamed = pl.col("process_group").is_null()
    keyed = members.drop("group", strict=False).with_columns(
        pl.when(unnamed).then("communicator").alias("_communicator"),
        pl.col("group_ranks").to_physical().alias("_ranks"),
    )
    kinds = pl.concat_str("type", "dtype", separator=" ", ignore_nulls=True).unique().sort().alias("kinds")
    local = keyed.group_by(LOCAL, maintain_order=True).agg(
        pl.col("communicator").drop_nulls().unique(),
        as_text("group_ranks").first(),
        pl.len().alias("count"),
        kinds,
    )
    ranks = {text: ranks_in_text(text) or None for text in local.get_column("group_ranks").unique().to_list()}
    locals_ = [_local(row, values, ranks) for row, values in enumerate(local.iter_rows(named=True))]
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


def _local(row: int, values: dict[str, Any], ranks: Mapping[str | None, tuple[int, ...] | None]) -> _Local:
    return _Local(
        row,
        values["rank"],
        values["process_group"],
        values["description"],
        frozenset(values["communicator"]),
        ranks[values["group_ranks"]],
        values["group_size"],
        values["count"],
        tuple(values["kinds"]),
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
    """Join groups of equal ranks: directly if each rank has one, else by distinguishing properties."""
    by_rank = _by_rank(same)
    labels: tuple[Callable[[_Local], Hashable], ...] = (
        lambda item: item.name,
        lambda item: item.description,
        lambda item: item.kinds,
    )
    for label in labels:
        labelled = {item.row: label(item) for item in same}
        if _distinguishes(by_rank, labelled):
            _join_labelled(same, labelled, sets, shared)
            return
    # PyTorch's names count groups in the order of their creation, which is that of all ranks.
    if all((item.name or "").isdecimal() for item in same):
        ordered = {
            item.row: (number, item.kinds)
            for of_rank in by_rank.values()
            for number, item in enumerate(sorted(of_rank, key=_counted))
        }
        if _distinguishes(by_rank, ordered):
            _join_labelled(same, ordered, sets, shared)
            return
    named = {item.row: (item.name, item.description) for item in same}
    _join_labelled([item for item in same if item.name is not None], named, sets, shared)


def _counted(item: _Local) -> tuple[int, str]:
    """The order of the numbers that are groups' names, which may have more digits than Python converts."""
    digits = (item.name or "").lstrip("0")
    return len(digits), digits


def _distinguishes(by_rank: Mapping[int, list[_Local]], labels: Mapping[int, Hashable]) -> bool:
    """Return whether every rank has each label once, and all have the same labels."""
    of_ranks = [[labels[item.row] for item in of_rank] for of_rank in by_rank.values()]
    return all(len(set(found)) == len(found) and set(found) == set(of_ranks[0]) for found in of_ranks)


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
    """Join groups of different ranks, but those whose communicators differ where ids of communicators are shared.

    Newer traces have an id for each collective instead: of these, different ones say nothing.
    """
    of_groups = [item for item in items if len(item.communicators) == 1 and item.count > 1]
    if shared and len({sets.root(item.row) for item in of_groups}) > 1:
        return
    for item in items[1:]:
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
    """Return a unique label of each group: its name or description, with ranks if ambiguous."""
    first: dict[int, _Local] = {}
    for item, group in zip(locals_, groups, strict=True):
        if group not in first or (first[group].ranks is None and item.ranks is not None):
            first[group] = item
    taken: dict[str, int] = defaultdict(int)
    names: dict[int, str] = {}
    for group, item in first.items():
        words = [item.name or "", f"({item.description})" if item.description else ""]
        words += [f"ranks {_listed(item.ranks)}" if item.ranks else f"size {item.size}" if item.size else ""]
        text = " ".join(word for word in words if word) or next(
            iter(sorted(item.communicators)), UNKNOWN_GROUP
        )
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


class DisjointSets:
    """Numbers from 0 on, each in a set of its own until it is joined with another.

    Args:
        count: how many numbers.
    """

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def root(self, item: int) -> int:
        """Return the root of an item's set."""
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def join(self, first: int, second: int) -> None:
        """Merge two sets; the lower root becomes the root."""
        low, high = sorted((self.root(first), self.root(second)))
        self._parent[high] = low
