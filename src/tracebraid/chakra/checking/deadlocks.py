"""A standstill in words: which rank waits in which node for which other rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracebraid.chakra.checking.groups import listed
from tracebraid.chakra.checking.issue import Standstill, Waiting
from tracebraid.chakra.checking.lint_located import short
from tracebraid.chakra.checking.rank_facts import RankFacts
from tracebraid.model.chakra.lint import LintFinding, RankNode
from tracebraid.model.chakra.lint_code import LintCode

__all__ = ["deadlock_faults"]

_RANKS_NAMED = 8
"""Of more ranks that wait for each other the first are named."""


def deadlock_faults(ranks: Sequence[RankFacts], standstill: Standstill) -> list[LintFinding]:
    """A deadlock, if something does not end: first the ranks that wait for each other in a circle."""
    if not standstill.waiting:
        return []
    facts = {own.checked.rank: own for own in ranks}
    waits: dict[int, Waiting] = {}
    for waiting in standstill.waiting:
        waits.setdefault(waiting.rank, waiting)
    chain = _chain(waits)[:_RANKS_NAMED]
    said = [_said(facts[waiting.rank], waiting, waits) for waiting in chain]
    nodes = tuple(_node(facts[waiting.rank], waiting) for waiting in chain)
    details = {
        "waits": "; ".join(said),
        "nodes": sum(standstill.never.values()),
        "ranks": len(standstill.never),
    }
    return [LintFinding(LintCode.DEADLOCK, "", nodes, 1, details)]


def _chain(waits: Mapping[int, Waiting]) -> list[Waiting]:
    """Ranks that wait each for the next, from one that waits: those of the circle that they end in, if they do."""
    rank = min(waits)
    seen: list[int] = []
    while rank in waits and rank not in seen:
        seen.append(rank)
        blocked = [other for other in waits[rank].ranks if other in waits]
        rank = (blocked or waits[rank].ranks)[0]
    return [waits[number] for number in (seen[seen.index(rank) :] if rank in seen else seen)]


def _said(facts: RankFacts, waiting: Waiting, waits: Mapping[int, Waiting]) -> str:
    row = facts.communication.row(waiting.position, named=True)
    names = [f"{rank}" if rank in waits else f"{rank} (which has ended)" for rank in waiting.ranks]
    others = f"rank{'' if len(names) == 1 else 's'} {listed(names)}"
    what = (
        f"receive from rank {row['src']} with tag {row['comm_tag'] or 0}"
        if waiting.group is None
        else f"{row['comm_type'] or 'collective'} of group {short(waiting.group)}"
    )
    return f"rank {waiting.rank} waits in node {row['node_id']} ({what}) for {others}"


def _node(facts: RankFacts, waiting: Waiting) -> RankNode:
    return RankNode(waiting.rank, facts.communication.item(waiting.position, "node_id"))
