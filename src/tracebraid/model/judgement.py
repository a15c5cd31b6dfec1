"""`Judgement`: whether the two traces of a rank link, by which method, and how reliably."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace


@dataclass(frozen=True)
class Judgement:
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
