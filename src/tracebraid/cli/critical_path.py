"""`tracebraid critical-path`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import note, output_width, say, say_json
from tracebraid.cli.ranks import asked_ranks
from tracebraid.cli.ranks_of_graph import asked_graph, end, findings_data
from tracebraid.cli.table_output import Format, Target, write_table
from tracebraid.errors import ArgumentError
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.critical_path import path_data, path_parts

__all__ = ["critical_path"]

_TOP = 10
"""Rows of each table that are printed, if --top does not say otherwise."""


@with_job_options
def critical_path(
    path: TracePath,
    job_options: JobOptions,
    step: Annotated[
        str | None, typer.Option("--step", metavar="N", help="Only this step: its number, or its name.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", help="The path within this rank, instead of over all ranks.")
    ] = None,
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="K", help="Print the first K rows of each table.")
    ] = _TOP,
    json: Annotated[
        bool, typer.Option("--json", help="Print all segments and the model's error as JSON.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print all segments as CSV.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OVERLAY",
            help="Write the path and its arrows into this new file (.json or .json.gz), for Perfetto.",
        ),
    ] = None,
    replays: Annotated[
        int,
        typer.Option(
            "--replays",
            min=0,
            metavar="N",
            help="Perturbed replays of each step, which say how stable its path is; 0: none.",
        ),
    ] = api.DEFAULT_REPLAYS,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
) -> None:
    """Say what each step's time is made of, end to end, over all ranks: what must be faster for it to be shorter."""
    if json and csv:
        raise typer.BadParameter("give one of --json and --csv")
    if out is not None and not out.name.endswith((".json", ".json.gz")):
        raise typer.BadParameter(f"{out} ends in neither .json nor .json.gz: name such a file")
    Target(None, out).refuse_existing()
    job = job_options.open(path)
    asked_ranks(job, rank)
    asked = asked_graph(job, annotation)
    if rank is not None and rank not in asked.graph.ranks.ranks.get_column("rank"):
        end(asked.findings)
    # A table of segments does not show how well the model reproduces the trace.
    found = _found(asked.graph, api.PathOptions(step, rank, replays), with_error=not csv)
    if out is not None:
        api.write_path_overlay(found, out)
        note(f"{out}: the path and its arrows; open it at https://ui.perfetto.dev")
    if json:
        say_json({**path_data(found), **findings_data(asked.findings)})
    elif csv:
        write_table(found.segments, Target(Format.CSV, None))
    else:
        say(*path_parts(found, str(path), top, output_width()))
    end(asked.findings)


def _found(graph: DependencyGraph, options: api.PathOptions, *, with_error: bool) -> CriticalPath:
    """The path.

    Raises:
        BadParameter: there is no such step or rank.
    """
    try:
        return api.critical_path_of_graph(graph, options, with_error=with_error)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from None
