"""`tracebraid chakra-visualizer`."""

from __future__ import annotations

import typer

from tracebraid.api.chakra.showing import visualize_chakra
from tracebraid.cli.output import say_findings
from tracebraid.compat.chakra_visualizer import InputFilename, OutputFilename
from tracebraid.errors import ArgumentError

__all__ = ["chakra_visualizer"]


def chakra_visualizer(input_filename: InputFilename, output_filename: OutputFilename) -> None:
    """Write an .et file as a graph as Chakra's chakra_visualizer does, with its options.

    A picture is .svg here; for .pdf write .dot, and run Graphviz: dot -Tpdf GRAPH.dot -o GRAPH.pdf.
    """
    try:
        say_findings(visualize_chakra(input_filename, output_filename))
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
