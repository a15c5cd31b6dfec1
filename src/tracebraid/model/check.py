"""`Check`: what is right and wrong with a capture, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from msgspec import Struct

from tracebraid.model.coverage import Coverage
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import Severity
from tracebraid.model.linked_trace import LinkedTrace


class Diagnosis(Struct, frozen=True):
    """A finding with its severity and advice."""

    finding: Finding
    severity: Severity
    advice: str


class CheckedRank(Struct, frozen=True):
    """One rank of a capture.

    Args:
        rank: the rank.
        window: the folder of its window, relative to what was checked; "" where there is one window only.
        et: path of the Execution Trace, or None.
        kineto: path of the Kineto trace, or None.
        steps: names of the steps in the Kineto trace.
        coverage: how much was linked; None if a file is missing or unreadable.
        confidence: the lowest confidence of a link of a host op, 0 to 1; None if none is linked.
        clock: how its clock goes against those of the other ranks: its row of `CLOCKS`; None if it is alone.
    """

    rank: int
    window: str
    et: str | None
    kineto: str | None
    steps: tuple[str, ...]
    coverage: Coverage | None
    confidence: float | None = None
    clock: Mapping[str, str | int | float | None] | None = None


class Check(Struct, frozen=True):
    """The result of a check.

    Args:
        path: what was checked.
        ranks: each rank, of each window.
        diagnoses: what was found, errors first.
    """

    path: str
    ranks: tuple[CheckedRank, ...]
    diagnoses: tuple[Diagnosis, ...]

    @property
    def links(self) -> bool:
        """Return whether there is no error: what is there can be linked and trusted."""
        return all(diagnosis.severity is not Severity.ERROR for diagnosis in self.diagnoses)


class Repair(Struct, frozen=True):
    """Changes of a repaired Execution Trace.

    Args:
        path: the Execution Trace.
        nodes: how many nodes it has.
        changed: ids of the nodes that have another parent now.
        written: whether the file was written again.
        left: ids of the nodes that stay where they are, since nothing proves which of the two parents is right.
    """

    path: str
    nodes: int
    changed: tuple[int, ...]
    written: bool
    left: tuple[int, ...] = ()


class Judgement(Struct, frozen=True):
    """Judgement of one rank by `check` and `link`.

    Args:
        methods: by which methods its host ops were linked, see `model.schema.HOST_LINKS`; empty if none is.
        confidence: the lowest confidence of a link of a host op, 0 to 1; None if none is linked.
        findings: findings while reading and linking, and why the two traces do not link where they do not.
    """

    methods: tuple[str, ...]
    confidence: float | None
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, linked: LinkedTrace, findings: list[Finding]) -> Judgement:
        """The judgement of a rank, with what was found about it."""
        confidence = linked.host_links.select(pl.col("confidence").min()).item()
        return cls(tuple(linked.coverage.host_ops.by_method), confidence, tuple(findings))
