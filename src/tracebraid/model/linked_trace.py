"""`LinkedTrace`: one rank's Execution Trace and Kineto trace, joined."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tracebraid.model.coverage import Coverage
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.matched import Matched
from tracebraid.model.timeline import Timeline

__all__ = ["LinkedTrace"]


@dataclass(frozen=True)
class LinkedTrace:
    """One rank's traces, joined.

    Args:
        timeline: the Kineto trace.
        et: the Execution Trace; None where there is none: launches, times and forward-backward links need none.
        host_tree: nesting and times of host events, see `model.schema.HOST_TREE`.
        host_links: host op to node, see `model.schema.HOST_LINKS`.
        node_links: node to host op, see `model.schema.NODE_LINKS`.
        device_links: device event to what launched it, see `model.schema.DEVICE_LINKS`.
        forward_backward: see `model.schema.FORWARD_BACKWARD`.
        dependencies: what waits for what, and by what evidence, see `model.schema.DEPENDENCIES`.
        coverage: how much was linked, how, and why the rest was not.
        matched: what was matched with what, where ids did not tell; None where they did.
        findings: what was noticed while linking.
    """

    timeline: Timeline
    et: ExecutionTrace | None
    host_tree: pl.DataFrame
    host_links: pl.DataFrame
    node_links: pl.DataFrame
    device_links: pl.DataFrame
    forward_backward: pl.DataFrame
    dependencies: pl.DataFrame
    coverage: Coverage
    matched: Matched | None = None
    findings: tuple[Finding, ...] = field(default=())

    def __repr__(self) -> str:
        """What it is, in brief; computes nothing."""
        return f"LinkedTrace(timeline={self.timeline!r}, et={self.et!r})"

    @property
    def rank(self) -> int:
        """The rank."""
        return self.timeline.rank

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """What was noticed while reading both traces and while linking them."""
        of_et = self.et.findings if self.et is not None else ()
        return (*of_et, *self.timeline.findings, *self.findings)
