"""`tracebraid chakra convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tracebraid import chakra
from tracebraid.chakra.codes import Dialect
from tracebraid.chakra.reporting import converted_data, converted_lines
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.output import progress, say, say_findings, say_json
from tracebraid.cli.parameters import Argument, Option


@command(Group.CHAKRA, 7, Extra.CHAKRA)
def convert(
    paths: Annotated[
        list[Path],
        Argument(metavar="ET_PLUS...", help="Linked traces (ET+ JSON): a file per rank, or their folder."),
    ],
    out: Annotated[
        Path,
        Option(
            "-o",
            "--output",
            metavar="OUT",
            help="A new file NAME.RANK.et, or a new folder for several ranks.",
        ),
    ],
    prefix: Annotated[str, Option("--prefix", help="Prefix of the file names in the folder.")] = "job",
    simulator: Annotated[
        Dialect,
        Option(
            "--simulator",
            help="astra-sim: replace unsupported collectives with others that move the same bytes.",
        ),
    ] = Dialect.CHAKRA,
    json: Annotated[bool, Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Convert linked traces (ET+ of Tracebraid or of Chakra's linker) to .et files."""
    with progress("converting") as update:
        converted = chakra.convert(paths, out, dialect=simulator, prefix=prefix, progress=update)
    if json:
        say_json(converted_data(converted))
    else:
        say(*converted_lines(converted))
        say_findings(converted.findings)
