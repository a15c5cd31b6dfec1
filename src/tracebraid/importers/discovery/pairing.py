"""Which Execution Trace belongs to which Kineto trace, where names contain no rank?"""

from __future__ import annotations

import re

from tracebraid.filesystem.paths import name_of
from tracebraid.importers.discovery.sniff import ET, KINETO, Found
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

__all__ = ["pair_by_number", "pair_the_only_two"]

_NUMBER = re.compile(r"\d+")
_MOST_DIGITS = 6
"""A number of more digits is a time or a process id, and no rank."""


def pair_the_only_two(traces: list[Found]) -> list[Found]:
    """One Kineto trace and one Execution Trace, of which at most one has a rank, are of the same rank."""
    ranks = {trace.rank for trace in traces if trace.rank is not None}
    if sorted(trace.kind for trace in traces) != [ET, KINETO] or len(ranks) != 1:
        return traces
    (rank,) = ranks
    return [trace.of_rank(rank) for trace in traces]


def pair_by_number(traces: list[Found]) -> tuple[list[Found], list[Finding]]:
    """Give a file without a rank that of the files of the other kind whose number its name has.

    `dlrm_eg_4.json` and `worker4_....pt.trace.json`: the number is the rank of a file that has one, else any number in
    its name. It must be unique among the files of either kind, and a name may contain only one such number.
    """
    owners = {kind: _owners([trace for trace in traces if trace.kind == kind]) for kind in (ET, KINETO)}
    shared = {
        number
        for number in owners[ET].keys() & owners[KINETO].keys()
        if len(owners[ET][number]) == len(owners[KINETO][number]) == 1
    }
    ambiguous = {
        number for trace in traces if len(_numbers(trace) & shared) > 1 for number in _numbers(trace)
    }
    found, findings = [], []
    for trace in traces:
        own = _numbers(trace) & (shared - ambiguous)
        if trace.rank is not None or not own:
            found.append(trace)
            continue
        (rank,) = own
        partner = owners[KINETO if trace.kind == ET else ET][rank][0]
        name = name_of(partner.path)
        found.append(trace.of_rank(rank))
        findings.append(Finding.of(FindingCode.PAIRED_BY_NUMBER, trace.path, rank=rank, partner=name))
    return found, findings


def _owners(traces: list[Found]) -> dict[int, list[Found]]:
    """The files by their numbers; of several of the same rank, the first."""
    owners: dict[int, list[Found]] = {}
    for trace in traces:
        for number in _numbers(trace):
            known = owners.setdefault(number, [])
            if not (known and trace.rank is not None and known[0].rank == trace.rank):
                known.append(trace)
    return owners


def _numbers(trace: Found) -> set[int]:
    if trace.rank is not None:
        return {trace.rank}
    return {int(text) for text in _NUMBER.findall(name_of(trace.path)) if len(text) <= _MOST_DIGITS}
