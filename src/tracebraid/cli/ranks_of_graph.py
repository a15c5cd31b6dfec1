"""The dependency graph that commands ask: of all ranks that can be read, with what was noticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import typer

from tracebraid import api
from tracebraid.cli.output import progress, say_findings
from tracebraid.cli.ranks import UNREADABLE, ask_ranks
from tracebraid.model.finding import Finding
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.job import Job
from tracebraid.reports.machine import finding_data

__all__ = ["AskedGraph", "asked_graph", "end", "findings_data"]


@dataclass(frozen=True, eq=False)
class AskedGraph:
    """A dependency graph, and what was noticed in the traces.

    Args:
        graph: of all ranks that can be read.
        findings: of the files, of the traces and of the graph.
    """

    graph: DependencyGraph
    findings: tuple[Finding, ...]


def asked_graph(job: Job, annotation: str) -> AskedGraph:
    """The dependency graph of the ranks of a job; a rank that cannot be read is left out, and a finding says so.

    Raises:
        InputError: no rank can be read.
        MissingLibraryError: numba is not installed.
    """
    found = list(job.findings)

    question = partial(api.rank_of_graph, annotation=annotation)
    with progress("reading") as update:
        parts = list(ask_ranks(job, job.ranks, question, update, found))
        graph = api.graph_of_ranks(parts, annotation)
    return AskedGraph(graph, tuple(dict.fromkeys((*found, *graph.findings))))


def findings_data(findings: Sequence[Finding]) -> dict[str, object]:
    """What was noticed, for an answer in JSON."""
    return {"findings": [finding_data(finding) for finding in findings]}


def end(findings: Sequence[Finding]) -> None:
    """Print what was noticed.

    Raises:
        Exit: with code 1, where a rank could not be read.
    """
    say_findings(findings)
    if any(finding.code is UNREADABLE for finding in findings):
        raise typer.Exit(1)
