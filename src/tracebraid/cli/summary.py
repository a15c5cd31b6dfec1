"""`tracebraid summary`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from tracebraid import api
from tracebraid.cli.output import progress, say, say_findings, say_json
from tracebraid.model.finding import Finding
from tracebraid.report.machine import coverage_data, finding_data, rows_data
from tracebraid.report.terminal import breakdown_table, kernels_table, ops_table

__all__ = ["summary"]


def summary(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder of traces, or one Kineto trace.")],
    top: Annotated[int, typer.Option("--top", min=1, help="Rows of kernels and ops to show.")] = 10,
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    annotation: Annotated[
        str, typer.Option("--annotation", help="The annotation that marks a step.")
    ] = "ProfilerStep",
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Say where the time goes: the breakdown of each rank and step, the top kernels, the top ops."""
    with progress("reading") as update:
        job = api.open(path, progress=update)
        findings: list[Finding] = list(job.findings)
        ranks: list[dict[str, Any]] = []
        breakdowns: list[pl.DataFrame] = []
        shown: tuple[int, pl.DataFrame, pl.DataFrame] | None = None
        for linked in [job[rank]] if rank is not None else job:
            findings += linked.all_findings
            breakdowns.append(api.breakdown(linked, annotation))
            if not json and shown is not None:
                continue
            kernels, ops = api.kernels(linked), api.ops(linked)
            shown = shown or (linked.rank, kernels, ops)
            if json:
                tables = {
                    "breakdown": rows_data(breakdowns[-1]),
                    "kernels": rows_data(kernels),
                    "ops": rows_data(ops),
                }
                ranks.append({**coverage_data(linked.rank, linked.coverage), **tables})
    if json:
        say_json({"ranks": ranks, "findings": [finding_data(finding) for finding in findings]})
        return
    say(breakdown_table(pl.concat(breakdowns)))
    assert shown is not None, "a job has at least one rank with a Kineto trace"
    if len(breakdowns) > 1:
        say(f"\nKernels and ops of rank {shown[0]}; --rank shows another.")
    if not shown[1].is_empty():
        say(kernels_table(shown[1], top), ops_table(shown[2], top, "device"))
    say(ops_table(shown[2], top, "host"))
    say_findings(findings)
