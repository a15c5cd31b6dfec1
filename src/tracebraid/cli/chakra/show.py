"""`tracebraid chakra show`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.job_options import path_or_url
from tracebraid.cli.output import note, say_findings
from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.codes import NodeType
from tracebraid.model.chakra.part import PartChoice

__all__ = ["show"]

_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})")


def show(
    path: Annotated[str, typer.Argument(metavar="FILE", help="An .et file.", parser=path_or_url)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="GRAPH", help="The new file: .svg, .dot or .graphml.")
    ],
    node: Annotated[
        list[int] | None,
        typer.Option("--node", metavar="ID", help="This node. May be given several times."),
    ] = None,
    near: Annotated[
        int,
        typer.Option(
            "--near", min=0, metavar="K", help="Also what is up to K dependencies away, either way."
        ),
    ] = 0,
    ids: Annotated[
        str | None, typer.Option("--ids", metavar="A-B", help="Nodes with these ids, both included.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="TEXT", help="Nodes with this text in their names.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="Nodes of this type, such as COMM_COLL_NODE. Several times."
        ),
    ] = None,
    step: Annotated[str | None, typer.Option("--step", metavar="NAME", help="Nodes of this step.")] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", min=1, metavar="K", help="Of all these the K that take the most time."),
    ] = None,
) -> None:
    """Show a part of an .et file as a picture (SVG), or as DOT or GraphML for other tools.

    Options narrow what is shown together; --near widens it again. Without any it is the whole file.
    """
    try:
        choice = PartChoice(tuple(node or ()), _ids(ids), name, _types(kind or ()), step, top, near)
        shown = api.show_chakra(path, output, choice)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    say_findings(shown.findings)
    note(f"{output}: {shown.nodes:,} of {shown.nodes_of_file:,} nodes")


def _ids(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise ArgumentError(f"{text!r} is no range of ids: write the first and the last, such as 10-60")
    return int(match[1]), int(match[2])


def _types(names: list[str] | tuple[str, ...]) -> tuple[NodeType, ...]:
    for name in names:
        if name.upper() not in NodeType.__members__:
            raise ArgumentError(f"there is no type {name!r}; there are {', '.join(NodeType.__members__)}")
    return tuple(NodeType[name.upper()] for name in names)
