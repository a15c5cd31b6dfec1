"""Which Execution Trace goes with which Kineto trace, where names do not say a rank?"""

from __future__ import annotations

import re
from pathlib import Path

from tracebraid.importers.discovery.sniff import ET, KINETO, Found
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

__all__ = ["pair_by_number", "pair_the_only_two"]

_NUMBER = re.compile(r"\d+")
_MOST_DIGITS = 6
"""A number of more digits is a time or a process id, and no rank."""


def pair_the_only_two(traces: list[Found]) -> list[Found]:
    """One Kineto trace and one Execution Trace, of which one at most tells a rank, are of the same rank."""
    ranks = {one.rank for one in traces if one.rank is not None}
    if sorted(one.kind for one in traces) != [ET, KINETO] or len(ranks) != 1:
        return traces
    (rank,) = ranks
    return [one.of_rank(rank) for one in traces]


def pair_by_number(traces: list[Found]) -> tuple[list[Found], list[Finding]]:
    """Give a file without a rank that of the files of the other kind whose number its name has.

    `dlrm_eg_4.json` and `worker4_....pt.trace.json`: the number is the rank of a file that says one, else any number in
    its name. Among the files of either kind it must stand for one rank only, and a name may hold one such number only.
    """
    owners = {kind: _owners([one for one in traces if one.kind == kind]) for kind in (ET, KINETO)}
    shared = {
        number
        for number in owners[ET].keys() & owners[KINETO].keys()
        if len(owners[ET][number]) == len(owners[KINETO][number]) == 1
    }
    ambiguous = {number for one in traces if len(_numbers(one) & shared) > 1 for number in _numbers(one)}
    found, findings = [], []
    for one in traces:
        mine = _numbers(one) & (shared - ambiguous)
        if one.rank is not None or not mine:
            found.append(one)
            continue
        (rank,) = mine
        partner = owners[KINETO if one.kind == ET else ET][rank][0]
        name = Path(partner.path).name
        found.append(one.of_rank(rank))
        findings.append(Finding.of(FindingCode.PAIRED_BY_NUMBER, one.path, rank=rank, partner=name))
    return found, findings


def _owners(traces: list[Found]) -> dict[int, list[Found]]:
    """The files by their numbers; of several that say one rank, the first."""
    owners: dict[int, list[Found]] = {}
    for one in traces:
        for number in _numbers(one):
            known = owners.setdefault(number, [])
            if not (known and one.rank is not None and known[0].rank == one.rank):
                known.append(one)
    return owners


def _numbers(one: Found) -> set[int]:
    if one.rank is not None:
        return {one.rank}
    return {int(text) for text in _NUMBER.findall(Path(one.path).name) if len(text) <= _MOST_DIGITS}
