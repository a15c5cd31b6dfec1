"""`tracebraid what-if`."""

from __future__ import annotations

from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import say, say_json
from tracebraid.cli.ranks_of_graph import AskedGraph, asked_graph, end, findings_data
from tracebraid.cli.simulation_answers import Shown, say_stragglers, say_sweep
from tracebraid.cli.table_output import Format, Target, write_table
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph.sweep import SweepBy
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.what_if import what_if_data, what_if_parts

__all__ = ["what_if"]


@with_job_options
def what_if(
    path: TracePath,
    job_options: JobOptions,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--change",
            metavar="CHANGE",
            help="What is done, such as 'scale 0.5 family=gemm', 'remove op=aten::item', 'bandwidth 2', "
            "'merge 25MB'. May be given several times: each builds on those before.",
        ),
    ] = None,
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep",
            help="Instead of a change: what a step gains if each op, kernel, module, collective, ... is faster.",
        ),
    ] = False,
    by: Annotated[
        list[SweepBy] | None,
        typer.Option("--by", help="Of a sweep only these groups. May be given several times."),
    ] = None,
    stragglers: Annotated[
        bool,
        typer.Option(
            "--stragglers",
            help="Instead of a change: what a step gains if the same operations are equally long on all ranks.",
        ),
    ] = False,
    top: Annotated[
        int, typer.Option("--top", min=1, metavar="K", help="Print the first K rows of each table.")
    ] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print all of the answer as JSON.")] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print the times of steps, before and after, as CSV.")
    ] = False,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
) -> None:
    """Say what a change would bring: the job is replayed from its dependencies with the change and without it."""
    if json and csv:
        raise typer.BadParameter("give one of --json and --csv")
    if bool(change) + sweep + stragglers != 1:
        raise typer.BadParameter("give one of --change, --sweep and --stragglers")
    if by and not sweep:
        raise typer.BadParameter("--by is of --sweep")
    job = job_options.open(path)
    asked = asked_graph(job, annotation)
    shown = Shown(top, json, csv)
    if sweep:
        say_sweep(asked, [kind.value for kind in by or ()], annotation, shown)
    elif stragglers:
        say_stragglers(asked, annotation, shown)
    else:
        _say_changes(asked, change or [], annotation, shown)
    end(asked.findings)


def _say_changes(asked: AskedGraph, changes: list[str], annotation: str, shown: Shown) -> None:
    """Print what changes would bring.

    Raises:
        BadParameter: a change makes no sense, selects nothing, or cannot be.
    """
    try:
        found = api.what_if(asked.graph, *changes, annotation=annotation)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from None
    if shown.json:
        say_json({**what_if_data(found), **findings_data(asked.findings)})
    elif shown.csv:
        write_table(found.steps, Target(Format.CSV, None))
    else:
        say(*what_if_parts(found, shown.top))
