"""The check of all ranks of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracebraid.chakra.checking.across_ranks import (
    collective_faults,
    message_faults,
    rank_number_faults,
    world_group_faults,
)
from tracebraid.chakra.checking.astra_sim import MEETS_NOBODY
from tracebraid.chakra.checking.deadlocks import deadlock_faults
from tracebraid.chakra.checking.groups import groups_of
from tracebraid.chakra.checking.issue import issue_all
from tracebraid.chakra.checking.rank_facts import RankFacts
from tracebraid.model.chakra.lint import ChakraCheck, LintFinding
from tracebraid.model.chakra.lint_code import LintCode, Simulator
from tracebraid.model.check import Severity

__all__ = ["JobFacts", "check_job"]

_ORDER = list(Severity)


@dataclass(frozen=True)
class JobFacts:
    """What a check knows of a job.

    Args:
        path: of the job.
        ranks: those that could be read.
        numbers: of all ranks that have a file.
        groups: ranks of each process group, as the comm-group file has them; None: there is none.
        groups_path: of that file.
        findings: what was noticed while the files were found and read.
        is_whole: whether these are all ranks; of a single file what needs the other ranks is not checked.
    """

    path: str
    ranks: Sequence[RankFacts]
    numbers: Sequence[int]
    groups: Mapping[str, Sequence[int]] | None = None
    groups_path: str = ""
    findings: Sequence[LintFinding] = ()
    is_whole: bool = True


def check_job(job: JobFacts, simulator: Simulator | None = None) -> ChakraCheck:
    """What is wrong with a job.

    Args:
        job: its ranks.
        simulator: whose own limits are checked as well; None: what Chakra allows is right.
    """
    ranks = sorted(job.ranks, key=lambda facts: facts.checked.rank)
    found = [*job.findings, *(finding for facts in ranks for finding in facts.findings)]
    if job.is_whole:
        found += _across(job, ranks, simulator)
    found.sort(key=lambda finding: _ORDER.index(finding.severity))
    return ChakraCheck(job.path, tuple(facts.checked for facts in ranks), tuple(found))


def _across(job: JobFacts, ranks: Sequence[RankFacts], simulator: Simulator | None) -> list[LintFinding]:
    is_astra_sim = simulator is Simulator.ASTRA_SIM
    groups = groups_of(ranks, job.groups, job.groups_path)
    standstill = issue_all(ranks, groups.members, MEETS_NOBODY if is_astra_sim else frozenset())
    found = [
        *rank_number_faults(job.numbers, job.path),
        *groups.findings,
        *collective_faults(ranks, groups),
        *message_faults(ranks),
        *deadlock_faults(ranks, standstill),
    ]
    if is_astra_sim:
        found += world_group_faults(ranks)
    if is_astra_sim and len(job.numbers) == 1:
        found.append(LintFinding(LintCode.ASTRA_SINGLE_RANK, job.path))
    return found
