"""`LinkedTrace`: one rank's Execution Trace and Kineto trace, joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypeVar

import polars as pl

from tracebraid.model import notebook
from tracebraid.model.column import Table
from tracebraid.model.compact import compact
from tracebraid.model.coverage import Coverage
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.kept import KeptValues
from tracebraid.model.matched import Matched
from tracebraid.model.stage import Stage
from tracebraid.model.timeline import Timeline

__all__ = ["LinkStages", "LinkedTrace", "StageFindings"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class StageFindings:
    """What was noticed while a stage was computed.

    Args:
        of: the stage.
        findings: what was noticed; a stage of its own, where noticing costs more than the stage itself.
    """

    of: Stage[Any]
    findings: Stage[tuple[Finding, ...]]


@dataclass(frozen=True, eq=False)
class LinkStages:
    """How each part of a `LinkedTrace` is computed; linking makes them, and each asks those that it needs.

    Args:
        et: reads the Execution Trace; None where there is none.
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
        findings: of the stages that may notice something, in the order in which they are listed.
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
    """One rank's traces, joined. All but the timeline is computed when it is first asked for, and kept.

    Whoever asks for what needs the Execution Trace may meet its errors: `InputError` where the file cannot be read,
    `ProgramError` where it is of another program. Threads may share a linked trace.

    Args:
        timeline: the Kineto trace.
        stages: computes the rest.
    """

    timeline: Timeline
    stages: LinkStages
    _derived: KeptValues = field(default_factory=KeptValues)

    def derived(self, compute: Callable[..., T], *arguments: object) -> T:
        """What a function makes of this linked trace, computed when it is first asked for, and kept.

        Analyses share by it what several of them need. Of a large trace not all of it is kept: see `KeptValues`.

        Args:
            compute: a function of a module, called with the linked trace and the arguments.
            arguments: hashable.
        """
        return self._derived.get((compute, *arguments), partial(compute, self, *arguments))

    def answered(self, key: str, question: Callable[[LinkedTrace], T], table: Table | None = None) -> T:
        """The answer to a question that has a name; a rank of a store may have the answer already.

        Args:
            key: the question's name, the same in every process; what is answered depends on nothing else.
            question: answers it.
            table: the schema of the answer, where it is declared: that of a store has to fit it.
        """
        return question(self)

    @property
    def is_read(self) -> bool:
        """Whether its tables are in memory, or were read: of a store, answers may be all that was read."""
        return True

    def compacted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A small table of this rank, in memory of its own, so that it does not hold the trace."""
        return compact(frame)

    @property
    def rank(self) -> int:
        """The rank."""
        return self.timeline.rank

    @property
    def has_et(self) -> bool:
        """Whether there is an Execution Trace; it is not read for this."""
        return self.stages.et is not None

    @property
    def et(self) -> ExecutionTrace | None:
        """The Execution Trace; None where there is none: launches, times and dependencies need none."""
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
        """What was matched with what, where ids prove no links; None where they do."""
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
        """What waits for what, and by what evidence: `model.schema.DEPENDENCIES`."""
        return self.stages.dependencies()

    @property
    def coverage(self) -> Coverage:
        """How much was linked, how, and why the rest was not."""
        return self.stages.coverage()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What there is to notice while linking; computes every stage that may notice something."""
        return tuple(finding for stage in self.stages.findings for finding in stage.findings())

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """What there is to notice in both traces and while linking them; computes what `findings` does."""
        of_et = self.et.findings if self.et is not None else ()
        return (*of_et, *self.timeline.findings, *self.findings)

    @property
    def known_findings(self) -> tuple[Finding, ...]:
        """Those of `all_findings`, in that order, that come from what was read and computed so far."""
        et = self.stages.et
        of_et = et().findings if et is not None and et.is_computed else ()
        known = [stage.findings() for stage in self.stages.findings if stage.of.is_computed]
        return (*of_et, *self.timeline.findings, *(finding for some in known for finding in some))

    def is_linked_with(self, et: ExecutionTrace) -> bool:
        """Whether its Execution Trace is that very object; none is read for this."""
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
        """What it is, in brief; computes nothing."""
        names = [name for name, stage in self._named_stages().items() if stage.is_computed]
        return f"LinkedTrace(rank={self.rank}, kineto={self.timeline.path!r}, computed=[{', '.join(names)}])"

    def _repr_html_(self) -> str:
        """What it is, for a notebook, and what of it is computed so far; computes nothing."""
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
        found = {member.name: getattr(self.stages, member.name) for member in fields(self.stages)}
        return {name: stage for name, stage in found.items() if isinstance(stage, Stage)}
