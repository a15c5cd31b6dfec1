"""`tracebraid critical-path`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tracebraid
from tracebraid.api.graphing import DEFAULT_REPLAYS
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import (
    end,
    findings_data,
    note,
    output_width,
    progress,
    say,
    say_json,
    say_worst_gap,
)
from tracebraid.cli.parameters import Option
from tracebraid.cli.table_output import Format, Target, write_table
from tracebraid.errors import ArgumentError
from tracebraid.model.finding import Finding
from tracebraid.reports.critical_path import path_data, path_parts

_TOP = 10
"""Default number of printed rows of each table."""


@command(Group.LOOK, 5)
@with_job_options
def critical_path(
    path: TracePath,
    job_options: JobOptions,
    step: Annotated[
        str | None, Option("--step", metavar="N", help="Only this step: its number, or its name.")
    ] = None,
    rank: Annotated[
        int | None, Option("--rank", help="Path within this rank instead of over all ranks.")
    ] = None,
    top: Annotated[
        int, Option("--top", min=1, metavar="K", help="Print the first K rows of each table.")
    ] = _TOP,
    json: Annotated[bool, Option("--json", help="Print all segments and the model's error as JSON.")] = False,
    csv: Annotated[bool, Option("--csv", help="Print all segments as CSV.")] = False,
    out: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            metavar="OVERLAY",
            help="Write the path with arrows to this new file (.json or .json.gz), for Perfetto.",
        ),
    ] = None,
    replays: Annotated[
        int,
        Option(
            "--replays",
            min=0,
            metavar="N",
            help="Perturbed replays of each step, to measure how stable its path is; 0: none.",
        ),
    ] = DEFAULT_REPLAYS,
) -> None:
    """Show the critical path of each step over all ranks: the work that must get faster to shorten it."""
    if json and csv:
        raise ArgumentError("give one of --json and --csv")
    if out is not None and not out.name.endswith((".json", ".json.gz")):
        raise ArgumentError(f"{out} must end in .json or .json.gz")
    Target(None, out).refuse_existing()
    with progress("answering") as update:
        job = job_options.open(path, update)
        if rank is not None:
            job.check_rank(rank)
        graph = tracebraid.dependency_graph(job)
        if rank is not None and rank not in graph.ranks.ranks.get_column("rank"):
            end(job.findings)
        # A table of segments does not show how well the model reproduces the trace.
        found = tracebraid.critical_path(graph, step=step, rank=rank, replays=replays, with_error=not csv)
    if out is not None:
        tracebraid.write_path_overlay(found, out)
        note(f"{out}: the path and its arrows; open it at https://ui.perfetto.dev")
    findings: Sequence[Finding] = job.findings
    if json:
        say_json({**path_data(found), **findings_data(findings)})
    elif csv:
        write_table(found.segments, Target(Format.CSV, None))
    else:
        findings = say_worst_gap(findings)
        say(*path_parts(found, str(path), top, output_width()))
    end(findings)
