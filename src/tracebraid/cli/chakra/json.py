"""`tracebraid chakra json`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tracebraid.api.chakra.json_text import chakra_conversion
from tracebraid.cli.job_options import path_or_url
from tracebraid.cli.output import say_findings
from tracebraid.files import write_whole

__all__ = ["json"]


def json(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="An .et file, or JSON of one; - is standard input.", parser=path_or_url
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="OUT", help="Write into this new file; gzip where it ends in .gz."
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="A line for the metadata and one for each node, and no document.")
    ] = False,
) -> None:
    """Turn an .et file into JSON, or such JSON into an .et file again, with the same bytes.

    Which of the two FILE is, its name tells, or its first bytes. JSON of Chakra's own jsonizer is taken, too.
    """
    conversion = chakra_conversion(file, lines)
    if out is not None:
        write_whole(out, conversion.chunks, overwrite=False)
    elif not conversion.to_json and sys.stdout.isatty():
        raise typer.BadParameter("an .et file is no text: name a file with -o")
    else:
        for chunk in conversion.chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    say_findings(conversion.findings)
