"""The command line of Chakra's chakra_visualizer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

__all__ = ["InputFilename", "OutputFilename"]

InputFilename: TypeAlias = Annotated[
    Path, typer.Option("--input_filename", metavar="ET", help="The .et file.")
]
OutputFilename: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--output_filename",
        metavar="GRAPH",
        help="The graph: .dot or .graphml, and .svg, where Chakra's has .pdf.",
    ),
]
