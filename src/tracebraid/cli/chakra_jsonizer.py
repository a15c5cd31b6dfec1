"""`tracebraid chakra-jsonizer`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from tracebraid.chakra.as_json import chakra_jsonizer as write_json
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.output import say_findings
from tracebraid.cli.parameters import Option

InputFilename: TypeAlias = Annotated[Path, Option("--input_filename", metavar="ET", help="The .et file.")]
OutputFilename: TypeAlias = Annotated[
    Path, Option("--output_filename", metavar="FILE", help="Where its JSON is written.")
]


@command(Group.REPLACEMENT, 4, Extra.CHAKRA)
def chakra_jsonizer(input_filename: InputFilename, output_filename: OutputFilename) -> None:
    """Write an .et file as JSON, with the options of Chakra's chakra_jsonizer."""
    say_findings(write_json(input_filename, output_filename))
