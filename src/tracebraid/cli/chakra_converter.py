"""`tracebraid chakra-converter`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, TypeAlias

from rich.text import Text

from tracebraid import chakra
from tracebraid.chakra.reporting import chakra_verdict, converted_lines, lint_lines
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.output import progress, say, say_findings
from tracebraid.cli.parameters import Argument, Option
from tracebraid.errors import ArgumentError


class InputType(Enum):
    """Arguments of a conversion, by Chakra's names."""

    PYTORCH = "PyTorch"
    TEXT = "Text"


InputFile: TypeAlias = Annotated[
    Path, Option("--input", metavar="ET_PLUS", help="The linked trace (ET+ JSON) of a rank.")
]
OutputFile: TypeAlias = Annotated[
    Path,
    Option("--output", metavar="ET", help="Where its .et file is written; one that is there is replaced."),
]
Simulate: TypeAlias = Annotated[
    bool, Option("--simulate", help="Say afterwards whether all nodes of the file can run.")
]
LogFile: TypeAlias = Annotated[
    Path | None, Option("--log-filename", metavar="LOG", help="Taken, and changes nothing.")
]
NumNpus: TypeAlias = Annotated[
    int | None,
    Option("--num-npus", help="Of Text, which is not converted: see `tracebraid chakra generate`."),
]
NumPasses: TypeAlias = Annotated[
    int | None,
    Option("--num-passes", help="Of Text, which is not converted: see `tracebraid chakra generate`."),
]


def refuse_text(input_type: InputType, num_npus: int | None, num_passes: int | None) -> None:
    """Reject what only Chakra's converter of text does.

    Raises:
        ArgumentError: the input is a model described as text, or an option of that is given.
    """
    if input_type is InputType.TEXT:
        raise ArgumentError(
            "Text, ASTRA-sim's description of a model by layers, is not converted: "
            "make such a job with `tracebraid chakra generate`, or convert it with Chakra's own chakra_converter"
        )
    if num_npus is not None or num_passes is not None:
        raise ArgumentError("--num-npus and --num-passes are options of Text: drop them for PyTorch")


@command(Group.REPLACEMENT, 3, Extra.CHAKRA)
def chakra_converter(
    input_type: Annotated[InputType, Argument(help="PyTorch; Text is not converted.")],
    input: InputFile,
    output: OutputFile,
    simulate: Simulate = False,
    log_filename: LogFile = None,
    num_npus: NumNpus = None,
    num_passes: NumPasses = None,
) -> None:
    """Write an .et file from ET+, with the options of Chakra's chakra_converter."""
    refuse_text(input_type, num_npus, num_passes)
    with progress("converting") as update:
        converted = chakra.convert(input, output, overwrite=True, progress=update)
    say(*converted_lines(converted))
    say_findings(converted.findings)
    if simulate:
        checked = chakra.check(output)
        say(*map(Text, lint_lines(checked)), Text(chakra_verdict(checked)))
        if not checked.runs:
            raise SystemExit(1)
