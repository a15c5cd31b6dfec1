"""Are both traces of one process? Ids of another process are equal by chance, and link nothing."""

from __future__ import annotations

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.process import (
    Contradiction,
    Process,
    contradictions,
    process_of_et,
    process_of_timeline,
)
from tracebraid.model.timeline import Timeline

__all__ = ["origin_findings", "unproven_findings"]

_OF_A_RUN = {Contradiction.START, Contradiction.WORLD_SIZE}
"""What differs between runs, and is the same on all ranks of one."""
_MOST_NAMED_OTHERWISE = 0.1
"""Of two runs most names differ; of one, those of ops that a damaged file mixed up."""
_OF_A_RANK = {Contradiction.RANK, Contradiction.GROUP_RANKS, Contradiction.DEVICES}


def origin_findings(et: ExecutionTrace, timeline: Timeline) -> list[Finding]:
    """`another-run` or `another-rank`, where the two traces cannot be of one process; nothing where they may be.

    Times, or worlds, that differ are those of another run. Without these, what is special to a rank shows another
    rank, and so does another process of a world of several ranks that recorded at the same time.
    """
    of_et, of_kineto = process_of_et(et), process_of_timeline(timeline)
    found = contradictions(of_et, of_kineto)
    if not found:
        return []
    world = of_kineto.world_size or of_et.world_size or 1
    recorded_together = of_et.span_ns is not None and of_kineto.span_ns is not None
    is_of_rank = bool(_OF_A_RANK.intersection(found)) or (world > 1 and recorded_together)
    differences = "; ".join(_difference(contradiction, of_et, of_kineto) for contradiction in found)
    details: dict[str, object] = {"kineto": timeline.path, "differences": differences}
    if is_of_rank and not _OF_A_RUN.intersection(found):
        return [Finding(FindingCode.ANOTHER_RANK, et.path, details=details)]
    return [Finding(FindingCode.ANOTHER_RUN, et.path, details=details)]


def unproven_findings(
    et: ExecutionTrace, timeline: Timeline, same_name: int, other_name: int
) -> list[Finding]:
    """`another-run` or `another-window`, where ids of both traces link too little, though nothing else contradicts.

    Args:
        et: the Execution Trace.
        timeline: the Kineto trace, whose ops have record-function ids.
        same_name: how many of them have a node with their id and name.
        other_name: how many have a node with their id and another name.
    """
    if not (et.op_nodes.get_column("rf_id") > 0).any():
        return []
    if other_name > _MOST_NAMED_OTHERWISE * (same_name + other_name):
        details = {
            "case": FindingCase.OTHER_NAMES,
            "kineto": timeline.path,
            "shared": same_name + other_name,
            "other_names": other_name,
        }
        return [Finding(FindingCode.ANOTHER_RUN, et.path, details=details)]
    if same_name + other_name == 0:
        return [Finding.of(FindingCode.ANOTHER_WINDOW, et.path, kineto=timeline.path)]
    return []


def _difference(contradiction: Contradiction, et: Process, kineto: Process) -> str:
    if contradiction is Contradiction.PROCESS_ID:
        return f"process {min(et.pids)} here, {min(kineto.pids)} there"
    if contradiction is Contradiction.START:
        return "they were recorded at different times, in whatever time zone"
    if contradiction is Contradiction.RANK:
        return f"rank {et.rank} here, {kineto.rank} there"
    if contradiction is Contradiction.WORLD_SIZE:
        return f"{et.world_size} ranks here, {kineto.world_size} there"
    if contradiction is Contradiction.GROUP_RANKS:
        return "their process groups hold different ranks"
    return f"devices {_listed(et.devices)} here, {_listed(kineto.devices)} there"


def _listed(numbers: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
