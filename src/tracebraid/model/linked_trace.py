"""`LinkedTrace`: one rank's Execution Trace and Kineto trace, joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import polars as pl
from msgspec import Struct
from msgspec.structs import asdict

from tracebraid.model import notebook
from tracebraid.model.analysis import Need
from tracebraid.model.capture_facts import CaptureFacts, capture_facts_of
from tracebraid.model.column import Table
from tracebraid.model.compact import compact
from tracebraid.model.coverage import Coverage
from tracebraid.model.device_peaks import DevicePeaks
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.gaps import FoundGap, Judge
from tracebraid.model.matching import Matched
from tracebraid.model.stage import KeptValues, Stage
from tracebraid.model.step import PROFILER_STEP
from tracebraid.model.timeline import Timeline

T = TypeVar("T")


class StageFindings(Struct, frozen=True, eq=False):
    """Findings while a stage was computed.

    Args:
        of: the stage.
        findings: the findings; a separate stage if they cost more than the stage itself.
    """

    of: Stage[Any]
    findings: Stage[tuple[Finding, ...]]


class LinkStages(Struct, frozen=True, eq=False):
    """Computation of each part of a `LinkedTrace`, made by linking; each calls those that it needs.

    Args:
        et: reads the Execution Trace; None if there is none.
        host_tree: see `LinkedTrace`, as all that follow.
        host_tree_by_et: needs the Execution Trace.
        host_links: needs the Execution Trace.
        node_links: needs the Execution Trace.
        matched: needs the Execution Trace.
        launches: needs no Execution Trace.
        device_links: needs the Execution Trace.
        forward_backward: needs no Execution Trace.
        dependencies: needs no Execution Trace.
        coverage: needs the Execution Trace.
        findings: those of stages that may have findings, in listed order.
    """

    et: Stage[ExecutionTrace] | None
    host_tree: Stage[pl.DataFrame]
    host_tree_by_et: Stage[pl.DataFrame]
    host_links: Stage[pl.DataFrame]
    node_links: Stage[pl.DataFrame]
    matched: Stage[Matched | None]
    launches: Stage[pl.DataFrame]
    device_links: Stage[pl.DataFrame]
    forward_backward: Stage[pl.DataFrame]
    dependencies: Stage[pl.DataFrame]
    coverage: Stage[Coverage]
    findings: tuple[StageFindings, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class LinkedTrace:
    """One rank's traces, joined. All but the timeline is computed on first use and cached.

    Members that need the Execution Trace may raise its errors: `InputError` if the file cannot be read,
    `ProgramError` if it is of another program. Threads may share a linked trace.

    Args:
        timeline: the Kineto trace.
        stages: computes the rest.
        annotation: the name of the annotation that marks a step.
        named_device: the device that did the work, as named when the trace was opened; None: the one that it names.
        judge: finds its gaps; None: they are not looked for.
    """

    timeline: Timeline
    stages: LinkStages
    annotation: str = PROFILER_STEP
    _derived: KeptValues = field(default_factory=KeptValues)
    named_device: DevicePeaks | None = None
    judge: Judge | None = None

    def with_annotation(self, name: str) -> LinkedTrace:
        """Return the same linked trace with steps marked by another annotation.

        Args:
            name: the name of the annotation, such as `train_step`: occurrences of it or of `train_step#3` are steps.
        """
        if name == self.annotation:
            return self
        return replace(self, annotation=name, _derived=KeptValues())

    def judged_by(self, judge: Judge | None) -> LinkedTrace:
        """Return the same linked trace with the gaps that a function finds."""
        return replace(self, judge=judge)

    def derived(self, compute: Callable[..., T], *arguments: object) -> T:
        """Return a value derived from this linked trace, computed on first use and cached.

        Analyses share common intermediate results this way. For a large trace, not all are kept: see `KeptValues`.

        Args:
            compute: a function of a module, called with the linked trace and the arguments.
            arguments: hashable.
        """
        return self._derived.get((compute, *arguments), partial(compute, self, *arguments))

    def answered(self, key: str, question: Callable[[LinkedTrace], T], table: Table | None = None) -> T:
        """Answer a named question, from the store if possible.

        Args:
            key: the question's name, equal in every process; it determines the answer.
            question: function that answers.
            table: the schema of the answer, if declared; a stored answer must fit it.
        """
        return question(self)

    @property
    def is_read(self) -> bool:
        """Return whether its tables are in memory, or were read: of a store, possibly only answers were read."""
        return True

    def compacted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A small table of this rank, in memory of its own, so that it does not hold the trace."""
        return compact(frame)

    @property
    def rank(self) -> int:
        """The rank."""
        return self.timeline.rank

    @property
    def capture_facts(self) -> CaptureFacts:
        """Facts about the process that `capture` recorded; empty if another program wrote the trace."""
        return capture_facts_of(self.timeline)

    @property
    def has_et(self) -> bool:
        """Return whether there is an Execution Trace; it is not read for this."""
        return self.stages.et is not None

    @property
    def et(self) -> ExecutionTrace | None:
        """The Execution Trace; None if there is none: launches, times and dependencies need none."""
        return None if self.stages.et is None else self.stages.et()

    @property
    def host_tree(self) -> pl.DataFrame:
        """Nesting and times of host events, from their intervals alone: `model.schema.HOST_TREE`."""
        return self.stages.host_tree()

    @property
    def host_tree_by_et(self) -> pl.DataFrame:
        """The same, where the Execution Trace says what an op without length lies in: intervals leave it open."""
        return self.stages.host_tree_by_et()

    @property
    def host_links(self) -> pl.DataFrame:
        """Host op to node: `model.schema.HOST_LINKS`."""
        return self.stages.host_links()

    @property
    def node_links(self) -> pl.DataFrame:
        """Node to host op: `model.schema.NODE_LINKS`."""
        return self.stages.node_links()

    @property
    def matched(self) -> Matched | None:
        """Mapping of ops where ids prove no links; None if they do."""
        return self.stages.matched()

    @property
    def launches(self) -> pl.DataFrame:
        """Device event to the call and the op that launched it, from the Kineto trace: `model.schema.LAUNCHES`."""
        return self.stages.launches()

    @property
    def device_links(self) -> pl.DataFrame:
        """The same with the op's node in the Execution Trace: `model.schema.DEVICE_LINKS`."""
        return self.stages.device_links()

    @property
    def forward_backward(self) -> pl.DataFrame:
        """Forward op to backward op: `model.schema.FORWARD_BACKWARD`."""
        return self.stages.forward_backward()

    @property
    def dependencies(self) -> pl.DataFrame:
        """Dependencies and their evidence: `model.schema.DEPENDENCIES`."""
        return self.stages.dependencies()

    @property
    def coverage(self) -> Coverage:
        """Link coverage by method, and reasons of orphans."""
        return self.stages.coverage()

    @property
    def gaps(self) -> tuple[FoundGap, ...]:
        """What the trace shows not at all, or not as it was; the worst first."""
        return () if self.judge is None else self.derived(self.judge)

    @property
    def hidden(self) -> frozenset[Need]:
        """Data that the program had and the trace does not have, in any step: what needs it is not answered."""
        return frozenset().union(*(found.gap.hides for found in self.gaps if found.is_whole))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of linking; computes every stage that may have findings."""
        return tuple(finding for stage in self.stages.findings for finding in stage.findings())

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """Findings in both traces, of linking, and gaps; computes the same as `findings`."""
        of_et = self.et.findings if self.et is not None else ()
        return (*of_et, *self.timeline.findings, *self.findings, *self.findings_of_gaps)

    @property
    def known_findings(self) -> tuple[Finding, ...]:
        """Findings of `all_findings`, in that order, from everything read and computed so far."""
        et = self.stages.et
        of_et = et().findings if et is not None and et.is_computed else ()
        known = [stage.findings() for stage in self.stages.findings if stage.of.is_computed]
        return (
            *of_et,
            *self.timeline.findings,
            *(finding for some in known for finding in some),
            *self.findings_of_gaps,
        )

    @property
    def findings_of_gaps(self) -> tuple[Finding, ...]:
        """Findings about its gaps."""
        return tuple(found.finding for found in self.gaps)

    def is_linked_with(self, et: ExecutionTrace) -> bool:
        """Return whether its Execution Trace is that very object; none is read for this."""
        stage = self.stages.et
        return stage is not None and stage.is_computed and stage() is et

    def compute_all(self) -> LinkedTrace:
        """Compute every stage now; returns the linked trace itself.

        Raises:
            InputError: the Execution Trace cannot be read, or is of another program.
            ArgumentError: the annotation or iteration to match by is not there.
        """
        for stage in self._named_stages().values():
            stage()
        for noticed in self.stages.findings:
            noticed.findings()
        return self

    def __repr__(self) -> str:
        """Return a short description; computes nothing."""
        names = [name for name, stage in self._named_stages().items() if stage.is_computed]
        return f"LinkedTrace(rank={self.rank}, kineto={self.timeline.path!r}, computed=[{', '.join(names)}])"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook, and what of it is computed so far; computes nothing."""
        facts = {
            "rank": self.rank,
            "Kineto trace": self.timeline.path,
            "events": self.timeline.events.height,
            "Execution Trace": self.has_et,
        }
        stages = self._named_stages().items()
        values = {name: stage() for name, stage in stages if stage.is_computed}
        rows = [(name, value.height) for name, value in values.items() if isinstance(value, pl.DataFrame)]
        parts = notebook.rows_html("Computed so far", ("table", "rows"), rows, len(rows)) if rows else ""
        return notebook.shown("Linked trace", notebook.facts_html(facts), parts)

    def _named_stages(self) -> dict[str, Stage[Any]]:
        found = asdict(self.stages)
        return {name: stage for name, stage in found.items() if isinstance(stage, Stage)}
