"""`tracebraid pack`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tracebraid
from tracebraid.api.engines import engine_of
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.matching import Match, matching_of
from tracebraid.cli.output import note, progress, say_findings
from tracebraid.cli.parameters import Option
from tracebraid.errors import ArgumentError
from tracebraid.model.quantities import size


@command(Group.EXPORT, 2)
@with_job_options
def pack(
    path: TracePath,
    job_options: JobOptions,
    out: Annotated[
        Path, Option("-o", "--output", metavar="STORE", help="The folder of the store: JOB.tbstore.")
    ],
    match: Match = "auto",
    steps: Annotated[
        str | None,
        Option("--steps", metavar="3,5-8", help="Pack only these steps: numbers and ranges."),
    ] = None,
    from_scratch: Annotated[
        bool, Option("--from-scratch", help="Pack all ranks again, including those in the store.")
    ] = False,
) -> None:
    """Pack traces into a store, which every command accepts in their place and reads in a tenth of the time."""
    if job_options.cache:
        raise ArgumentError("--cache has no effect on pack, as the store is the cache")
    if job_options.device is not None:
        raise ArgumentError("--device is of no use here: name the device to the commands that read the store")
    matching = matching_of(match)
    with progress("packing") as update:
        packed = tracebraid.pack(
            path,
            out,
            engine=engine_of(job_options.engine, job_options.address),
            matching=matching,
            window=job_options.window,
            steps=steps,
            ranks=job_options.ranks,
            sample=job_options.sample,
            from_scratch=from_scratch,
            progress=update,
        )
    say_findings(packed.findings)
    kept = f", {len(packed.kept):,} kept" if packed.kept else ""
    failed = f", {len(packed.failed):,} unreadable" if packed.failed else ""
    note(f"{out}: {len(packed.packed):,} ranks packed{kept}{failed}, {size(packed.size_bytes)}")
    if packed.failed:
        raise SystemExit(1)
