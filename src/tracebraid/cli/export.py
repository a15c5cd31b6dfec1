"""`tracebraid export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.output import note
from tracebraid.model.export_format import ExportFormat
from tracebraid.model.step import PROFILER_STEP

__all__ = ["export"]


def export(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder of traces, or one Kineto trace.")],
    to: Annotated[ExportFormat, typer.Option("--to", help="The format.")],
    out: Annotated[Path, typer.Option("-o", "--output", help="The new file, or the new folder of tables.")],
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="N", help="Only this step: its number, or its name.")
    ] = None,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
) -> None:
    """Hand the run on: to Perfetto, as tables with their schemas, as flame graphs, or as a graph of ops."""
    api.export(api.open(path), out, to, api.ExportOptions(rank, step, annotation))
    note(f"{out}: written")
