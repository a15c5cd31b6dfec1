"""`show_chakra`: a part of an `.et` file as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracebraid.chakra.showing.part import chosen_part, whole_part
from tracebraid.chakra.wire.reading import read_rank
from tracebraid.errors import ArgumentError
from tracebraid.exporters.chakra_graphs.dot import dot_lines
from tracebraid.exporters.chakra_graphs.graphml import graphml_lines
from tracebraid.exporters.chakra_graphs.svg import svg_lines
from tracebraid.exporters.chakra_graphs.visualizer_form import visualizer_dot, visualizer_graphml
from tracebraid.files import refuse_inputs, refuse_target, write_whole
from tracebraid.filesystem.paths import name_of, text_of
from tracebraid.model.chakra.part import ChakraPart, PartChoice
from tracebraid.model.finding import Finding

__all__ = ["MOST_DRAWN", "MOST_WRITTEN", "ShownChakra", "show_chakra", "visualize_chakra"]

MOST_DRAWN = 500
"""Nodes of a picture: at 58 pixels each a chain of them is 29,000 pixels high, what browsers still show at once."""
MOST_WRITTEN = 50_000
"""Nodes of a graph for other tools, which take minutes to lay out a tenth of them."""


@dataclass(frozen=True)
class ShownChakra:
    """What was written.

    Args:
        path: the new file.
        nodes: in it.
        nodes_of_file: how many the `.et` file has.
        findings: what was noticed in that.
    """

    path: Path
    nodes: int
    nodes_of_file: int
    findings: tuple[Finding, ...]


def show_chakra(path: str | Path, output: str | Path, choice: PartChoice | None = None) -> ShownChakra:
    """Write a part of an `.et` file as DOT, GraphML or SVG, by the ending of the new file.

    Args:
        path: the `.et` file or its URL.
        output: the new file: `.dot` or `.gv`, `.graphml`, `.svg`, each also with `.gz`.
        choice: which nodes; None: all.

    Raises:
        ArgumentError: the ending is another, no node is chosen, or more than can be shown.
        InputError: the file cannot be read.
        OutputError: the new file is there already, or cannot be written.
        MissingLibraryError: protobuf or numba is not installed.

    Example:
        >>> from tracebraid import PartChoice, show_chakra
        >>> show_chakra("job.0.et", "step.svg", PartChoice(step="0", top=20))  # doctest: +SKIP
    """
    target = Path(output)
    most, lines = _writer(target, _WRITERS)
    refuse_target(target)
    part = _checked(chosen_part(read_rank(path), choice or PartChoice()), target, most)
    write_whole(target, lines(part, name_of(text_of(path))), overwrite=False)
    return ShownChakra(target, part.nodes.height, part.nodes_of_file, part.findings)


def visualize_chakra(path: Path, output: Path) -> tuple[Finding, ...]:
    """Write an `.et` file as Chakra's visualizer does; a file that is there is replaced, as it does.

    Args:
        path: the `.et` file.
        output: `.dot`, `.graphml`, or `.svg` in place of its `.pdf`.

    Returns:
        What was noticed in the file.

    Raises:
        ArgumentError: the ending is another, or there are too many nodes for a picture.
        InputError: the file cannot be read.
        OutputError: the new file cannot be written, or is the file that is read.
        MissingLibraryError: protobuf or numba is not installed.
    """
    most, lines = _writer(output, _VISUALIZER)
    refuse_inputs(output, [path])
    rank = read_rank(path)
    part = whole_part(rank)
    write_whole(output, lines(_checked(part, output, most), name_of(text_of(path))), overwrite=True)
    return part.findings


def _checked(part: ChakraPart, target: Path, most: int | None) -> ChakraPart:
    if most is not None and part.nodes.height + len(part.missing) > most:
        raise ArgumentError(
            f"{part.nodes.height:,} of the {part.nodes_of_file:,} nodes are too many for {target.name}, which takes "
            f"{most:,}: choose a step, a range of ids, a name, what takes the most time, or what is near a node"
        )
    return part


_Lines = Callable[[ChakraPart, str], Iterator[bytes]]
_Writer = tuple[int | None, _Lines]
"""The most nodes that a format takes, and what writes it."""

_WRITERS: dict[str, _Writer] = {
    ".dot": (MOST_WRITTEN, lambda part, _: dot_lines(part)),
    ".gv": (MOST_WRITTEN, lambda part, _: dot_lines(part)),
    ".graphml": (MOST_WRITTEN, lambda part, _: graphml_lines(part)),
    ".svg": (MOST_DRAWN, svg_lines),
}
_VISUALIZER: dict[str, _Writer] = {
    ".dot": (None, lambda part, _: visualizer_dot(part)),
    ".graphml": (None, lambda part, _: visualizer_graphml(part)),
    ".svg": (MOST_DRAWN, svg_lines),
}


def _writer(target: Path, writers: dict[str, _Writer]) -> _Writer:
    ending = Path(target.name.removesuffix(".gz")).suffix
    if ending not in writers:
        raise ArgumentError(f"{target.name} ends in none of {', '.join(writers)}: name such a file")
    return writers[ending]
