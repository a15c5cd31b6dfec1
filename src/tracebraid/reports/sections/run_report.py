"""The report of a run: its sections, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Callable

from tracebraid.model.report.parts import Report, Section
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


def run_report(results: RunResults, title: str) -> Report:
    """The report of a run."""
    found = (section(results) for section in SECTIONS)
    return Report(title, tuple(section for section in found if section is not None))
