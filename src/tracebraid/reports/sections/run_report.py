"""The report of a run: its sections, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.report.parts import Note, Report, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.changes import changes
from tracebraid.reports.sections.collectives import collectives
from tracebraid.reports.sections.flame import flame
from tracebraid.reports.sections.head import head
from tracebraid.reports.sections.heat import heat
from tracebraid.reports.sections.idle import idle
from tracebraid.reports.sections.job import job
from tracebraid.reports.sections.memory import memory
from tracebraid.reports.sections.roofline import roofline
from tracebraid.reports.sections.stragglers import stragglers
from tracebraid.reports.sections.sweep import sweep
from tracebraid.reports.sections.tables import TABLES
from tracebraid.reports.sections.timeline import timeline
from tracebraid.reports.sections.trust import trust

__all__ = ["SECTIONS", "run_report"]

SECTIONS: tuple[Callable[[RunResults], Section | None], ...] = (
    head,
    changes,
    job,
    heat,
    stragglers,
    collectives,
    timeline,
    flame,
    idle,
    memory,
    roofline,
    sweep,
    *TABLES,
    trust,
)
"""Each makes one section; None where the run gives no reason for it."""


_OVER_RANKS = (job, heat, stragglers, collectives)
"""Sections that compare ranks."""


def run_report(results: RunResults, title: str) -> Report:
    """The report of a run."""
    chosen = tuple(finding for finding in results.findings if finding.code is FindingCode.RANKS_CHOSEN)
    found = []
    for make in SECTIONS:
        section = make(results)
        if section is not None:
            found.append(_with_notes(section, chosen) if make in _OVER_RANKS else section)
    return Report(title, tuple(found))


def _with_notes(section: Section, findings: Sequence[Finding]) -> Section:
    """The section, which compares ranks, with what it cannot know on top."""
    notes = [Note(finding.message, code=finding.code.value) for finding in findings]
    return replace(section, parts=[*notes, *section.parts])
