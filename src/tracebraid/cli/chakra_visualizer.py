"""`tracebraid chakra-visualizer`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from tracebraid.chakra.graphs import visualize_chakra
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.output import say_findings
from tracebraid.cli.parameters import Option

InputFilename: TypeAlias = Annotated[Path, Option("--input_filename", metavar="ET", help="The .et file.")]
OutputFilename: TypeAlias = Annotated[
    Path,
    Option(
        "--output_filename",
        metavar="GRAPH",
        help="The graph: .dot or .graphml, and .svg, where Chakra's has .pdf.",
    ),
]


@command(Group.REPLACEMENT, 6, Extra.CHAKRA)
def chakra_visualizer(input_filename: InputFilename, output_filename: OutputFilename) -> None:
    """Write an .et file as a graph, with the options of Chakra's chakra_visualizer.

    Pictures are .svg; for .pdf, write .dot and run Graphviz: dot -Tpdf GRAPH.dot -o GRAPH.pdf.
    """
    say_findings(visualize_chakra(input_filename, output_filename))
