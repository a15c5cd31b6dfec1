"""What a check takes of one rank: its pair is read, linked and judged, in whichever process the engine chooses."""

from __future__ import annotations

from dataclasses import dataclass

from tracebraid.api.job.aligning import rank_parts
from tracebraid.api.judging import link_and_judge
from tracebraid.model.coverage import Coverage
from tracebraid.model.engine import LoadingWork
from tracebraid.model.finding import Finding
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.process import process_of_et, process_of_timeline
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.validation.identity import recording_findings
from tracebraid.validation.processes import RankProcesses
from tracebraid.validation.window import Step, steps_of, window_findings

__all__ = ["CheckRank", "RankChecked"]


@dataclass(frozen=True, eq=False)
class RankChecked:
    """What was found in the two traces of a rank.

    Args:
        steps: in the Kineto trace.
        world_size: the number of ranks that it states.
        coverage: how much was linked.
        confidence: the lowest confidence of a link of a host op, 0 to 1; None where none is linked.
        processes: the processes that the two are of.
        parts: what is kept of it, to link it with the others.
        findings: what was noticed.
    """

    steps: tuple[Step, ...]
    world_size: int | None
    coverage: Coverage
    confidence: float | None
    processes: RankProcesses
    parts: RankParts
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class CheckRank(LoadingWork):
    """Checks the pair of a rank: the work that an engine runs. A rank without Kineto trace has nothing to check.

    Args:
        load: opens a rank.
        matching: how the two traces are matched.
    """

    matching: Matching

    def __call__(self, files: RankFiles, progress: Progress | None) -> RankChecked | None:
        """What was found; None where there is no Kineto trace.

        Raises:
            InputError: a file cannot be read.
        """
        if files.kineto is None:
            return None
        linked, judgement = link_and_judge(self.load(files, progress), self.matching)
        steps = steps_of(linked.timeline)
        return RankChecked(
            steps=steps,
            world_size=linked.timeline.world_size,
            coverage=linked.coverage,
            confidence=judgement.confidence,
            processes=_processes(files, linked, steps),
            parts=rank_parts(linked),
            findings=(
                *judgement.findings,
                *recording_findings(linked),
                *window_findings(linked.timeline, steps),
            ),
        )


def _processes(files: RankFiles, linked: LinkedTrace, steps: tuple[Step, ...]) -> RankProcesses:
    return RankProcesses(
        rank=files.rank,
        et_path="" if linked.et is None else linked.et.path,
        kineto_path=linked.timeline.path,
        et=None if linked.et is None else process_of_et(linked.et),
        kineto=process_of_timeline(linked.timeline),
        steps=tuple(step.name for step in steps),
    )
