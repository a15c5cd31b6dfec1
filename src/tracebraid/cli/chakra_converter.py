"""`tracebraid chakra-converter`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from tracebraid import api
from tracebraid.cli.output import progress, say, say_findings
from tracebraid.compat.chakra_converter import (
    InputFile,
    InputType,
    LogFile,
    NumNpus,
    NumPasses,
    OutputFile,
    Simulate,
    refuse_text,
)
from tracebraid.reports.chakra_check import chakra_verdict, lint_text
from tracebraid.reports.chakra_converted import converted_lines

__all__ = ["chakra_converter"]


def chakra_converter(
    input_type: Annotated[InputType, typer.Argument(help="PyTorch; Text is not converted.")],
    input: InputFile,
    output: OutputFile,
    simulate: Simulate = False,
    log_filename: LogFile = None,
    num_npus: NumNpus = None,
    num_passes: NumPasses = None,
) -> None:
    """Convert as Chakra's chakra_converter does, with its options: write an .et file from ET+."""
    refuse_text(input_type, num_npus, num_passes)
    with progress("converting") as update:
        converted = api.convert_chakra(input, output, overwrite=True, progress=update)
    say(*converted_lines(converted))
    say_findings(converted.findings)
    if simulate:
        checked = api.check_chakra(output)
        say(*(Text(lint_text(finding)) for finding in checked.findings), Text(chakra_verdict(checked)))
        if not checked.runs:
            raise typer.Exit(1)
