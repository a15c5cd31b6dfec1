"""The command line of Chakra's chakra_converter."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tracebraid.errors import ArgumentError

__all__ = [
    "InputFile",
    "InputType",
    "LogFile",
    "NumNpus",
    "NumPasses",
    "OutputFile",
    "Simulate",
    "refuse_text",
]


class InputType(Enum):
    """What is converted, by Chakra's names."""

    PYTORCH = "PyTorch"
    TEXT = "Text"


InputFile: TypeAlias = Annotated[
    Path, typer.Option("--input", metavar="ET_PLUS", help="The linked trace (ET+ JSON) of a rank.")
]
OutputFile: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--output", metavar="ET", help="Where its .et file is written; one that is there is replaced."
    ),
]
Simulate: TypeAlias = Annotated[
    bool, typer.Option("--simulate", help="Say afterwards whether all nodes of the file can run.")
]
LogFile: TypeAlias = Annotated[
    Path | None, typer.Option("--log-filename", metavar="LOG", help="Taken, and changes nothing.")
]
NumNpus: TypeAlias = Annotated[
    int | None,
    typer.Option("--num-npus", help="Of Text, which is not converted: see `tracebraid chakra generate`."),
]
NumPasses: TypeAlias = Annotated[
    int | None,
    typer.Option("--num-passes", help="Of Text, which is not converted: see `tracebraid chakra generate`."),
]


def refuse_text(input_type: InputType, num_npus: int | None, num_passes: int | None) -> None:
    """Refuse what only Chakra's converter of text does.

    Raises:
        ArgumentError: the input is a model described as text, or an option of that is given.
    """
    if input_type is InputType.TEXT:
        raise ArgumentError(
            "Text, ASTRA-sim's description of a model by layers, is not converted: "
            "make such a job with `tracebraid chakra generate`, or convert it with Chakra's own chakra_converter"
        )
    if num_npus is not None or num_passes is not None:
        raise ArgumentError("--num-npus and --num-passes are options of Text: leave them out for PyTorch")
