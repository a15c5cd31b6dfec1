"""What is asked of each rank: an analysis with its options, of all steps or of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import polars as pl
import typer

from tracebraid import api
from tracebraid.errors import ArgumentError
from tracebraid.files import is_there
from tracebraid.model.category import Role
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Analysis, Answer
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.step import PROFILER_STEP

__all__ = ["Question", "RankNotes", "check_peaks", "question_of"]

_LIKENESS = 0.6
"""How alike a name must be to be suggested, 0 to 1: the default of difflib."""
_NAMES_LISTED = 12
"""Of more names the first and the last stand in an error."""


@dataclass(frozen=True)
class RankNotes:
    """What goes with the answer of a rank.

    Args:
        rank: the rank.
        start_ns: when its trace began.
        steps: names of its steps; only where `step` or another annotation is asked for.
        annotations: names of what could mark steps instead, where it has none; likewise.
    """

    rank: int
    start_ns: int
    steps: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


@dataclass
class Question:
    """An analysis as it is asked, and what its answers need beside their rows.

    Args:
        analysis: what is asked.
        options: its options.
        step: only this step, by number or whole name; None for all.
        annotation: what marks a step.
        steps_seen: names of the steps of all ranks so far; only where `step` or another annotation is given.
        annotations_seen: names of what could mark steps instead, of ranks that have no steps; likewise.
        starts: start of each rank's trace, in ns.
        is_matched: whether some collective is matched between ranks, where that is asked.
    """

    analysis: Analysis | JobAnalysis
    options: dict[str, object]
    step: str | None
    annotation: str
    steps_seen: list[str] = field(default_factory=list)
    annotations_seen: list[str] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    is_matched: bool = True

    def of_rank(self, linked: LinkedTrace) -> tuple[Answer, RankNotes]:
        """The answer of a rank."""
        answer = api.analyze(self.analysis.name, linked, **self.options)
        if self.step is not None:
            frame = answer.frame.filter(pl.col("step").is_in(self._step_names))
            answer = Answer(answer.analysis, frame, answer.lacks)
        return answer, self._notes(linked)

    def part_of_rank(self, linked: LinkedTrace) -> tuple[api.RankOfJob, RankNotes]:
        """What an analysis of a whole job takes of a rank."""
        assert isinstance(self.analysis, JobAnalysis), "others are asked rank by rank"
        return api.rank_of_job(self.analysis, linked, self.options), self._notes(linked)

    def over_ranks(self, findings: list[Finding], parts: list[api.RankOfJob], rank: int | None) -> Answer:
        """The answer of an analysis of a whole job; what was noticed between the ranks is added to the findings."""
        assert isinstance(self.analysis, JobAnalysis), "others are asked rank by rank"
        answer, ranks = api.answer_of_ranks(self.analysis, parts, self.options)
        findings += ranks.findings
        self.is_matched = not ranks.collectives.is_empty()
        # Moments are on aligned clocks.
        first = min(self.starts.values(), default=0)
        self.starts = dict.fromkeys(self.starts, first)
        frame = answer.frame if rank is None else answer.frame.filter(pl.col("rank") == rank)
        if self.step is not None:
            frame = frame.filter(pl.col("step").is_in(self._step_names))
        return Answer(answer.analysis, frame, answer.lacks)

    def note(self, notes: RankNotes) -> None:
        """Keep what goes with the answer of a rank."""
        self.starts[notes.rank] = notes.start_ns
        self.steps_seen += [name for name in notes.steps if name not in self.steps_seen]
        self.annotations_seen += [name for name in notes.annotations if name not in self.annotations_seen]

    def _notes(self, linked: LinkedTrace) -> RankNotes:
        span = linked.timeline.span_ns
        start_ns = span[0] if span else 0
        if self.step is None and self.annotation == PROFILER_STEP:
            return RankNotes(linked.rank, start_ns)
        names = api.steps(linked, self.annotation).get_column("step").to_list()
        if names:
            return RankNotes(linked.rank, start_ns, tuple(names))
        marks = linked.timeline.of_role(Role.ANNOTATION).get_column("name").cast(pl.String)
        found = marks.str.replace(r"#\d+$", "").unique(maintain_order=True).to_list()
        return RankNotes(linked.rank, start_ns, annotations=tuple(found))

    def check_steps(self) -> None:
        """Refuse a step or an annotation that no rank has.

        Raises:
            BadParameter: names the steps, or what could mark them.
        """
        asked = self.step is not None or self.annotation != PROFILER_STEP
        if asked and not self.steps_seen:
            have = _listed(self.annotations_seen) or "none"
            raise typer.BadParameter(f"no step is marked by {self.annotation}; --annotation could be: {have}")
        if self.step is not None and not set(self._step_names) & set(self.steps_seen):
            raise typer.BadParameter(f"there is no step {self.step}; there are: {_listed(self.steps_seen)}")

    @property
    def _step_names(self) -> list[str]:
        return [self.step or "", f"{self.annotation}#{self.step}"]


def _listed(names: list[str]) -> str:
    """The names; of many the first and the last."""
    if len(names) > _NAMES_LISTED:
        names = [*names[: _NAMES_LISTED - 2], "...", names[-1]]
    return ", ".join(names)


def question_of(
    name: str, path: str | None, options: Mapping[str, object], step: str | None, annotation: str
) -> tuple[Question, str]:
    """The question and whom to ask, checked before anything is read.

    Raises:
        BadParameter: there is no such analysis, option or step, or no path.
    """
    analysis = _analysis(name, path)
    if path is None:
        raise typer.BadParameter(f"give a PATH, too: tracebraid analyze {analysis.name} PATH")
    try:
        api.check_options(analysis, options)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    check_peaks(options)
    options = dict(options)
    if step is not None:
        if all(column.name != "step" for column in analysis.table.columns):
            raise typer.BadParameter(f"{analysis.name} does not go by steps: leave out --step")
        if "per_step" in analysis.options:
            options["per_step"] = True
    return Question(analysis, options, step, annotation), path


def check_peaks(options: Mapping[str, object]) -> None:
    """Refuse peaks that are not above 0.

    Raises:
        BadParameter: names the option.
    """
    for option in ("peak_flops", "peak_bandwidth"):
        peak = options.get(option)
        if isinstance(peak, int | float) and not (peak > 0 and math.isfinite(peak)):
            raise typer.BadParameter(f"--{option.replace('_', '-')} is {peak:g}; give a number above 0")


def _analysis(name: str, path: str | None) -> Analysis | JobAnalysis:
    """The analysis of that name; `-` may stand for `_`."""
    by_name = {analysis.name: analysis for analysis in api.analyses()}
    wanted = name.replace("-", "_")
    if wanted in by_name:
        return by_name[wanted]
    second = "" if path is None else Path(path).name.replace("-", "_")
    if second in by_name and not (path and is_there(path)):
        raise typer.BadParameter(f"the NAME comes first: tracebraid analyze {second} {name}")
    near = get_close_matches(wanted.lower(), by_name, 3, _LIKENESS)
    near += [known for known in by_name if wanted.lower() in known and known not in near] if wanted else []
    if near:
        raise typer.BadParameter(f"there is no analysis {name!r}; did you mean {' or '.join(near)}?")
    if path is None and is_there(name):
        raise typer.BadParameter(f"give the NAME of an analysis, too: tracebraid analyze NAME {name}")
    raise typer.BadParameter(f"there is no analysis {name!r}; tracebraid analyze --list names them")
