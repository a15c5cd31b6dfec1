"""`tracebraid summary`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.text import Text

from tracebraid import api
from tracebraid.cli.output import progress, say, say_findings, say_json
from tracebraid.cli.ranks import UNREADABLE, ask_ranks
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.answers.idle import idle_tables
from tracebraid.reports.breakdown_bars import breakdown_bars, step_sparklines
from tracebraid.reports.machine import coverage_data, finding_data, rows_data
from tracebraid.reports.terminal import breakdown_table, kernels_table, launchers_line, ops_table

_CAUSES_SHOWN = 5
"""Causes of idle time for each device."""
_OF_RANKS = "Which rank the others wait for, and why: tracebraid analyze stragglers; what would help: tracebraid advise"
"""Where the ranks' own breakdowns end."""

__all__ = ["Summary", "show_tables", "summarise", "summarise_rank", "summary"]


def summary(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder of traces, or one Kineto trace.")],
    top: Annotated[int, typer.Option("--top", min=1, help="Rows of kernels and ops to show.")] = 10,
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    window: Annotated[
        int | None, typer.Option("--window", help="Which window of a capture, from 0; by default the last.")
    ] = None,
    annotation: Annotated[
        str, typer.Option("--annotation", help="The annotation that marks a step.")
    ] = PROFILER_STEP,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Say where the time goes: the breakdown of each rank and step, the top kernels, the top ops."""
    with progress("reading") as update:
        found = summarise(api.open(path, window=window), rank, annotation, json, update)
    if json:
        say_json({"ranks": found.ranks, "findings": [finding_data(finding) for finding in found.findings]})
    else:
        show_tables(found, top, annotation)
        say_findings(found.findings)
    if any(finding.code is UNREADABLE for finding in found.findings):
        raise typer.Exit(1)


@dataclass
class Summary:
    """What was found: breakdowns of all ranks, the rest of the first; with `whole` all of each rank."""

    findings: list[Finding]
    breakdowns: list[pl.DataFrame] = field(default_factory=list)
    first: tuple[int, pl.DataFrame, pl.DataFrame] | None = None
    launchers: pl.DataFrame | None = None
    idle: tuple[pl.DataFrame, pl.DataFrame] | None = None
    ranks: list[dict[str, Any]] = field(default_factory=list)


def summarise(job: Job, rank: int | None, annotation: str, whole: bool, update: api.Progress) -> Summary:
    """Ask all ranks, or one, for their breakdown, and the first or (`whole`) each for its kernels and ops."""
    found = Summary(list(job.findings))
    ranks = job.ranks if rank is None else [rank]
    question = partial(summarise_rank, found, annotation, whole)
    for _ in ask_ranks(job, ranks, question, update, found.findings):
        pass
    return found


def summarise_rank(found: Summary, annotation: str, whole: bool, linked: LinkedTrace) -> None:
    """Add the answers of a rank to a summary, all or none."""
    breakdown = api.breakdown(linked, annotation)
    if found.first is None or whole:
        kernels, ops, launchers = api.kernels(linked), api.ops(linked), api.launchers(linked)
        causes, blame = (
            api.idle_causes(linked, annotation=annotation),
            api.idle_blame(linked, annotation=annotation),
        )
        if whole:
            tables = {
                "breakdown": breakdown,
                "idle_causes": causes,
                "kernels": kernels,
                "launchers": launchers,
                "ops": ops,
            }
            data = {name: rows_data(frame) for name, frame in tables.items()}
            found.ranks.append({**coverage_data(linked.rank, linked.coverage), **data})
        if found.first is None:
            found.first, found.launchers = (linked.rank, kernels, ops), launchers
            found.idle = causes, blame
    found.breakdowns.append(breakdown)
    found.findings += linked.known_findings


def show_tables(found: Summary, top: int, annotation: str = PROFILER_STEP) -> None:
    """Print the breakdown of all ranks, and the top kernels and ops of the first."""
    assert found.first is not None, "a job has at least one rank with a Kineto trace"
    rank, kernels, ops = found.first
    breakdowns = pl.concat(found.breakdowns)
    say(breakdown_table(breakdowns))
    lines = [*breakdown_bars(breakdowns), *step_sparklines(breakdowns)]
    if lines:
        say(*map(Text, lines), "")
    if len(found.breakdowns) > 1:
        say(f"Idle time, kernels and ops of rank {rank}; --rank shows another.")
    if found.idle is not None:
        say(*idle_tables(*found.idle, _CAUSES_SHOWN))
    if not kernels.is_empty() and found.launchers is not None:
        say(kernels_table(kernels, top), launchers_line(found.launchers))
        say(ops_table(ops, top, "device", annotation))
    say(ops_table(ops, top, "host", annotation))
    if len(found.breakdowns) > 1 and any((frame["communication_ns"] > 0).any() for frame in found.breakdowns):
        say(_OF_RANKS)
