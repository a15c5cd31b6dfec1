"""`tracebraid export`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.api.job.readable_ranks import UNREADABLE
from tracebraid.cli.chakra_choices import ChakraChoices
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.option_members import with_option_members
from tracebraid.cli.output import note, progress, say_findings
from tracebraid.errors import ArgumentError
from tracebraid.files import refuse_target
from tracebraid.model.export_format import ExportFormat, fits
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.units import size

__all__ = ["export"]

_FORMATS = (
    "perfetto, chrome: a timeline of all ranks (.pftrace.gz, .json.gz); "
    "parquet, arrow, csv, json: all tables, as a folder; sqlite: all tables, as a file (.sqlite); "
    "speedscope, collapsed: flame graphs (.speedscope.json, .collapsed.txt); "
    "dot, graphml: the graph of ops (.dot, .graphml); "
    "chakra: nodes that simulators run, as a folder."
)


@with_job_options
@with_option_members("chakra", ChakraChoices)
def export(
    path: TracePath,
    job_options: JobOptions,
    chakra: ChakraChoices,
    to: Annotated[ExportFormat, typer.Option("--to", metavar="FORMAT", help=_FORMATS)],
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="The new file, or the new folder.")
    ],
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="N", help="Only this step: its number, or its name.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            "--top", min=1, metavar="K", help="Of a graph of ops only the K that take the most time."
        ),
    ] = None,
    near: Annotated[
        str | None,
        typer.Option(
            "--near", metavar="NAME", help="Of a graph of ops only those of this name, and what is near."
        ),
    ] = None,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
) -> None:
    """Hand the run on: to Perfetto, as tables, as flame graphs, as a graph of ops, or to simulators."""
    _check_name(out, to)
    of_chakra = chakra.options(to)
    refuse_target(out)
    job = job_options.open(path)
    with progress("exporting") as update:
        options = api.ExportOptions(rank, step, annotation, update, top, near, of_chakra)
        try:
            done = api.export(job, out, to, options)
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from error
    say_findings(done.findings)
    what = "nodes" if to is ExportFormat.CHAKRA else "rows"
    rows = "" if done.rows is None else f"{done.rows:,} {what} in "
    files = "1 file" if done.files == 1 else f"{done.files:,} files"
    note(f"{out}: {rows}{files}, {size(done.size_bytes)}")
    if to is ExportFormat.CHAKRA:
        _say_how_to_run(out)
    if any(finding.code is UNREADABLE for finding in done.findings):
        raise typer.Exit(1)


def _say_how_to_run(folder: Path) -> None:
    note(f"`tracebraid chakra run {quote(str(folder))}` runs it on networks")
    script = folder / api.SIMULATOR_FOLDER / api.RUN_SCRIPT
    if script.exists():
        note(f"`ASTRA_SIM=BINARY {quote(str(script))}` runs it in ASTRA-sim")


def _check_name(out: Path, to: ExportFormat) -> None:
    """Refuse a name that says another format.

    Raises:
        BadParameter: names the ends that fit.
    """
    if fits(out.name, to):
        return
    if to.is_folder:
        each = "rank" if to is ExportFormat.CHAKRA else "table"
        raise typer.BadParameter(
            f"{to.value} is a folder with a file for each {each}; {out.name} names a file"
        )
    ends = " or ".join(to.suffixes[:2])
    raise typer.BadParameter(f"{out.name} is no name of a {to.value} file: let it end in {ends}")
