"""`tracebraid report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.output import note
from tracebraid.files import refuse_existing
from tracebraid.model.step import PROFILER_STEP

__all__ = ["report"]


def report(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder of traces, or one Kineto trace.")],
    out: Annotated[Path, typer.Option("-o", "--output", help="Write into this new file.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option("--title", help="What stands on top of the page.")] = None,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
) -> None:
    """Write one page that a team can look at: where the time goes, why, and what would change it."""
    refuse_existing([out])
    api.write_report(api.report(api.open(path), title=title, annotation=annotation), out)
    note(f"{out}: open it in a browser; it needs no network")
