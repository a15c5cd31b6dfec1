"""What `tracebraid what-if` prints of a job without a change: a sweep, straggler metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracebraid import api
from tracebraid.cli.output import output_width, progress, say, say_findings, say_json
from tracebraid.cli.table_output import Format, Target, write_table
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.job import Job
from tracebraid.reports.straggler_metrics import straggler_data, straggler_parts
from tracebraid.reports.sweep import sweep_data, sweep_parts

__all__ = ["Shown", "say_stragglers", "say_sweep"]


@dataclass(frozen=True)
class Shown:
    """How an answer is printed.

    Args:
        top: rows of each table for people.
        json: as JSON.
        csv: all rows, as CSV.
    """

    top: int
    json: bool
    csv: bool


def say_sweep(job: Job, by: Sequence[str], annotation: str, shown: Shown) -> None:
    """Print what a step gains for each group of work."""
    graph = _graph(job, annotation)
    found = api.sweep(graph, by=by, annotation=annotation)
    if shown.json:
        say_json(sweep_data(found))
    elif shown.csv:
        write_table(found, Target(Format.CSV, None))
    else:
        say(*sweep_parts(found, shown.top, output_width()))
    say_findings(graph.findings)


def say_stragglers(job: Job, annotation: str, shown: Shown) -> None:
    """Print what stragglers cost."""
    graph = _graph(job, annotation)
    found = api.straggler_metrics(graph, annotation=annotation)
    if shown.json:
        say_json(straggler_data(found))
    elif shown.csv:
        write_table(found, Target(Format.CSV, None))
    else:
        say(*straggler_parts(found, shown.top, output_width()))
    say_findings(graph.findings)


def _graph(job: Job, annotation: str) -> DependencyGraph:
    with progress("reading"):
        return api.dependency_graph(job, annotation=annotation)
