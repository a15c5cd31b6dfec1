"""Check that all files of a folder are of one run, and that each rank's two traces are of one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tracebraid.filesystem.paths import name_of
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.process import Process

_APART_NS = 60 * 10**9
"""Ranks that record one step lie apart by no more than their clocks do. Hosts whose clocks are set by NTP are within a
second, neglected ones within minutes: a minute is what a person would doubt."""
_APART_ON_A_HOST_NS = 10 * 10**9
"""The same for ranks of one host, which have one clock: more than ranks run apart that never wait for each other, in a
window of a few steps."""
_OTHER_ORIGIN = (FindingCode.ANOTHER_RUN, FindingCode.ANOTHER_RANK)


class RankProcesses(Struct, frozen=True):
    """Processes of a rank's two traces; None if the trace is missing.

    Args:
        rank: the rank.
        et_path: path of the Execution Trace; "" where there is none.
        kineto_path: path of the Kineto trace.
        et: what the Execution Trace says.
        kineto: what the Kineto trace says.
        steps: names of the steps in the Kineto trace.
    """

    rank: int
    et_path: str
    kineto_path: str
    et: Process | None
    kineto: Process
    steps: tuple[str, ...]


def located_findings(findings: Sequence[Finding], ranks: Sequence[RankProcesses]) -> list[Finding]:
    """The findings; where an Execution Trace is of the process of another rank's Kineto trace, they say of which."""
    owners: dict[int, set[int]] = {}
    for traces in ranks:
        for pid in traces.kineto.pids:
            owners.setdefault(pid, set()).add(traces.rank)
    by_path = {traces.et_path: traces for traces in ranks if traces.et is not None}
    return [_located(finding, by_path, owners) for finding in findings]


def _located(
    finding: Finding, by_path: Mapping[str, RankProcesses], owners: Mapping[int, set[int]]
) -> Finding:
    own = by_path.get(finding.path) if finding.code in _OTHER_ORIGIN else None
    if own is None or own.et is None:
        return finding
    found = {rank for pid in own.et.pids for rank in owners.get(pid, ())} - {own.rank}
    if len(found) != 1:
        return finding
    (rank,) = found
    details = {"case": FindingCase.OWNER_KNOWN, "reason": finding.message, "owner": rank}
    return replace(finding, code=FindingCode.ANOTHER_RANK, details=details)


def run_findings(ranks: Sequence[RankProcesses], path: str) -> list[Finding]:
    """`runs-mixed` where the Kineto traces of two ranks cannot be of one run.

    Both say that they are of the same rank; they hold the same steps, but were recorded further apart than clocks are;
    or a process group has other ranks in the one than in the other, though both belong to it.
    """
    if len(ranks) < 2:
        return []
    first, *others = ranks
    details: dict[str, object]
    by_stated: dict[int, int] = {}
    for traces in ranks:
        stated = traces.kineto.rank
        if stated is not None and by_stated.setdefault(stated, traces.rank) != traces.rank:
            details = {"case": FindingCase.SAME_RANK, "rank": traces.rank, "first_rank": by_stated[stated]}
            return [Finding(FindingCode.RUNS_MIXED, path, details={**details, "stated": stated})]
    apart = [traces for traces in others if _are_apart(first, traces)]
    if apart:
        details = {"rank": apart[0].rank, "first_rank": first.rank}
        return [Finding(FindingCode.RUNS_MIXED, path, count=len(apart), details=details)]
    differ = [traces for traces in others if _groups_differ(first, traces)]
    if differ:
        details = {"case": FindingCase.OTHER_GROUPS, "rank": differ[0].rank, "first_rank": first.rank}
        return [Finding(FindingCode.RUNS_MIXED, path, count=len(differ), details=details)]
    return []


def _are_apart(left: RankProcesses, right: RankProcesses) -> bool:
    if left.kineto.span_ns is None or right.kineto.span_ns is None or left.steps != right.steps:
        return False
    (start, stop), (first, last) = left.kineto.span_ns, right.kineto.span_ns
    is_same_host = left.kineto.host != "" and left.kineto.host == right.kineto.host
    limit_ns = _APART_ON_A_HOST_NS if is_same_host else _APART_NS
    return max(start, first) - min(stop, last) > limit_ns


def _groups_differ(left: RankProcesses, right: RankProcesses) -> bool:
    left_groups, right_groups = left.kineto.groups, right.kineto.groups
    ranks = {left.rank, right.rank}
    return any(
        left_groups[name] != right_groups[name]
        and ranks <= set(left_groups[name])
        and ranks <= set(right_groups[name])
        for name in left_groups.keys() & right_groups.keys()
    )


def manifest_process_findings(
    manifest: Mapping[str, Any], file: str, ranks: Sequence[RankProcesses]
) -> list[Finding]:
    """`another-run` where a trace beside a manifest is of another process than the one that wrote the manifest."""
    pid, rank = manifest.get("pid"), manifest.get("rank")
    if type(pid) is not int:
        return []
    found = []
    for traces in (traces for traces in ranks if traces.rank == rank):
        for path, process in ((traces.et_path, traces.et), (traces.kineto_path, traces.kineto)):
            if process is not None and process.pids and pid not in process.pids | process.tids:
                details: dict[str, object] = {"case": FindingCase.OTHER_WRITER, "pid": min(process.pids)}
                details |= {"manifest": name_of(file), "writer_pid": pid}
                found.append(Finding(FindingCode.ANOTHER_RUN, path, details=details))
    return found
