"""`tracebraid pack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.job_options import JobOptions, TracePath, engine_named, with_job_options
from tracebraid.cli.matching import Match, matching_of
from tracebraid.cli.output import note, progress, say_findings
from tracebraid.errors import ArgumentError
from tracebraid.reports.units import size

__all__ = ["pack"]


@with_job_options
def pack(
    path: TracePath,
    job_options: JobOptions,
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="STORE", help="The folder of the store: JOB.tbstore.")
    ],
    match: Match = "auto",
    steps: Annotated[
        str | None,
        typer.Option(
            "--steps", metavar="3,5-8", help="Pack only what belongs to these steps: numbers and ranges."
        ),
    ] = None,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Pack all ranks again, those too that are there already.")
    ] = False,
) -> None:
    """Pack traces into a store, which every command takes in their place and reads in a tenth of the time."""
    if job_options.cache:
        raise typer.BadParameter("--cache is of no use here: the store itself is what is kept")
    matching = matching_of(match)
    with progress("packing") as update:
        try:
            packed = api.pack(
                path,
                out,
                engine=engine_named(job_options.engine, job_options.address),
                matching=matching,
                window=job_options.window,
                steps=steps,
                ranks=job_options.ranks,
                sample=job_options.sample,
                from_scratch=from_scratch,
                progress=update,
            )
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from error
    say_findings(packed.findings)
    kept = f", {len(packed.kept):,} kept" if packed.kept else ""
    failed = f", {len(packed.failed):,} unreadable" if packed.failed else ""
    note(f"{out}: {len(packed.packed):,} ranks packed{kept}{failed}, {size(packed.size_bytes)}")
    if packed.failed:
        raise typer.Exit(1)
