"""`tracebraid chakra convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.output import progress, say, say_findings, say_json
from tracebraid.model.chakra.codes import Dialect
from tracebraid.reports.chakra_converted import converted_data, converted_lines

__all__ = ["convert"]


def convert(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="ET_PLUS...", help="Linked traces (ET+ JSON): a file per rank, or their folder."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="OUT", help="A new file NAME.RANK.et; of several ranks a new folder."
        ),
    ],
    prefix: Annotated[str, typer.Option("--prefix", help="Of the files in the folder.")] = "job",
    simulator: Annotated[
        Dialect,
        typer.Option(
            "--simulator",
            help="astra-sim: collectives that it does not run become such as move the same bytes.",
        ),
    ] = Dialect.CHAKRA,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Convert linked traces (ET+ of Tracebraid or of Chakra's linker) to .et files."""
    with progress("converting") as update:
        converted = api.convert_chakra(paths, out, dialect=simulator, prefix=prefix, progress=update)
    if json:
        say_json(converted_data(converted))
    else:
        say(*converted_lines(converted))
        say_findings(converted.findings)
