"""`tracebraid chakra json`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from tracebraid.chakra.as_json import chakra_conversion
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.job_options import path_or_url
from tracebraid.cli.output import say_findings
from tracebraid.cli.parameters import Argument, Option
from tracebraid.errors import ArgumentError
from tracebraid.files import write_whole


@command(Group.CHAKRA, 5, Extra.CHAKRA)
def json(
    file: Annotated[
        str,
        Argument(metavar="FILE", help="An .et file, or its JSON; - for standard input.", parser=path_or_url),
    ],
    out: Annotated[
        Path | None,
        Option("-o", "--output", metavar="OUT", help="Write to this new file; gzip if it ends in .gz."),
    ] = None,
    lines: Annotated[
        bool, Option("--lines", help="Write JSON lines: one for the metadata and one for each node.")
    ] = False,
) -> None:
    """Convert an .et file to JSON, or such JSON back to the same .et file, byte for byte.

    The direction follows from FILE's name, else from its first bytes. JSON of Chakra's own jsonizer is accepted too.
    """
    conversion = chakra_conversion(file, lines)
    if out is not None:
        write_whole(out, conversion.chunks, overwrite=False)
    elif not conversion.to_json and sys.stdout.isatty():
        raise ArgumentError("an .et file is no text: name a file with -o")
    else:
        for chunk in conversion.chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
    say_findings(conversion.findings)
