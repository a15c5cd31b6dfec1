"""The members of process groups, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tracebraid.chakra.checking.communication import ALL_RANKS
from tracebraid.chakra.checking.lint_located import Located, short
from tracebraid.chakra.checking.rank_facts import RankFacts
from tracebraid.model.chakra.lint import LintFinding
from tracebraid.model.chakra.lint_code import LintCode

__all__ = ["Groups", "groups_of", "listed"]

_NAMES_LISTED = 8
"""Of more groups or ranks the first stand in a sentence."""


@dataclass(frozen=True)
class Groups:
    """Who is in which process group.

    Args:
        members: ranks that are there, ascending, of each group that is used.
        findings: what is wrong with the groups.
    """

    members: Mapping[str, tuple[int, ...]]
    findings: tuple[LintFinding, ...]


def groups_of(ranks: Sequence[RankFacts], given: Mapping[str, Sequence[int]] | None, path: str) -> Groups:
    """The groups that the ranks use.

    Args:
        ranks: of the job.
        given: ranks of each group, as the comm-group file has them; None: there is no such file.
        path: of that file.
    """
    there = tuple(facts.checked.rank for facts in ranks)
    users = _users(ranks)
    named = sorted(group for group in users if group != ALL_RANKS)
    found = [] if given is None else _file_faults(given, set(there), path)
    members: dict[str, tuple[int, ...]] = {ALL_RANKS: there}
    if given is None and named:
        details = {"groups": listed([short(group) for group in named])}
        found.append(LintFinding(LintCode.GROUPS_NOT_GIVEN, path, details=details))
    for group in named:
        if given is None:
            members[group] = tuple(sorted(users[group]))
        elif group not in given:
            members[group] = tuple(sorted(users[group]))
            found += [
                _located(ranks, rank).finding(LintCode.GROUP_UNKNOWN, nodes, group=short(group))
                for rank, nodes in users[group].items()
            ]
        else:
            members[group] = tuple(sorted(set(given[group]) & set(there))) if given[group] else there
            found += [
                _located(ranks, rank).finding(LintCode.NOT_IN_GROUP, nodes, rank=rank, group=short(group))
                for rank, nodes in users[group].items()
                if rank not in members[group]
            ]
    return Groups(members, tuple(found))


def listed(names: Sequence[object]) -> str:
    """The names in a sentence; of many the first, and how many others there are."""
    shown = ", ".join(map(str, names[:_NAMES_LISTED]))
    more = len(names) - _NAMES_LISTED
    return f"{shown} and {more:,} more" if more > 0 else shown


def _users(ranks: Sequence[RankFacts]) -> dict[str, dict[int, list[int]]]:
    """The nodes of each rank that uses a group."""
    users: dict[str, dict[int, list[int]]] = {}
    for facts in ranks:
        used = facts.communication.filter(pl.col("group").is_not_null())
        for group, nodes in used.group_by("group", maintain_order=True).agg("node_id").iter_rows():
            users.setdefault(group, {})[facts.checked.rank] = nodes
    return users


def _located(ranks: Sequence[RankFacts], rank: int) -> Located:
    path = next(facts.checked.path for facts in ranks if facts.checked.rank == rank)
    return Located(rank, path)


def _file_faults(given: Mapping[str, Sequence[int]], there: set[int], path: str) -> list[LintFinding]:
    found = []
    for group, members in given.items():
        if not _is_number(group):
            found.append(LintFinding(LintCode.GROUP_NOT_A_NUMBER, path, details={"group": short(group)}))
        absent = sorted(set(members) - there)
        if absent:
            details = {"group": short(group), "absent": listed(absent)}
            found.append(LintFinding(LintCode.GROUP_RANK_ABSENT, path, details=details))
        twice = sorted(rank for rank in set(members) if list(members).count(rank) > 1)
        if twice:
            named = {"group": short(group), "rank": twice[0]}
            found.append(LintFinding(LintCode.GROUP_RANK_TWICE, path, details=named))
    return found


def _is_number(group: str) -> bool:
    return group.isascii() and group.isdigit() and len(group) <= 10 and 0 < int(group) < 2**31
