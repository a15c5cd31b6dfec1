"""What a report of a run is made from: the answers of all questions that it asks, over all ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracebraid.model.coverage import Coverage
from tracebraid.model.file_info import FileInfo
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.questions.advice import Advice
from tracebraid.model.questions.analysis import Answer

if TYPE_CHECKING:
    import polars as pl

    from tracebraid.model.graph.critical_path import CriticalPath

__all__ = ["RunResults"]


@dataclass(frozen=True, eq=False)
class RunResults:
    """The results of a run.

    Args:
        path: the folder or file that was opened.
        ranks: those that were read.
        infos: what each file is.
        coverages: of each rank, how much of it was linked.
        answers: by the name of the analysis; what traces lack stands in each.
        findings: what was noticed, each once; without those that follow from others.
        start_ns: when the first trace began, on the unix clock.
        advice: what would make the steps shorter; None where it was not asked.
        path_of_steps: the critical path of the steps; None where there is no graph, and `without_graph` says why.
        without_graph: why there is no dependency graph; empty where there is one.
        sweep: what-if answers of all groups; None where there is no graph.
        views: what is drawn and is no answer of an analysis, by the names that `api.reporting` gives: such as the
            slices of the timeline, and the frames of the flame graphs.
        starts: when the trace of each rank began, on its own clock; moments of its answers are shown from there.
        left_out: by the name of the analysis, how many rows of its answer are not kept.
        detailed: the ranks of which all was asked; of the others only what is compared over all ranks.
        steps: the names of the steps that the timeline shows.
        notes: codes of those findings that are good to know, and nothing is wrong.
    """

    path: str
    ranks: Sequence[int]
    infos: Sequence[FileInfo]
    coverages: Mapping[int, Coverage]
    answers: Mapping[str, Answer]
    findings: Sequence[Finding]
    start_ns: int = 0
    advice: Advice | None = None
    path_of_steps: CriticalPath | None = None
    without_graph: str = ""
    sweep: pl.DataFrame | None = None
    views: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    starts: Mapping[int, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    detailed: Sequence[int] = ()
    steps: Sequence[str] = ()
    notes: Collection[FindingCode] = ()
