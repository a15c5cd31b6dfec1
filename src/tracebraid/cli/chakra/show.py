"""`tracebraid chakra show`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from tracebraid import chakra
from tracebraid.chakra.codes import NodeType
from tracebraid.chakra.part import PartChoice
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.job_options import path_or_url
from tracebraid.cli.output import note, say_findings
from tracebraid.cli.parameters import Argument, Option
from tracebraid.errors import ArgumentError

_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})")


@command(Group.CHAKRA, 4, Extra.CHAKRA)
def show(
    path: Annotated[str, Argument(metavar="FILE", help="An .et file.", parser=path_or_url)],
    output: Annotated[
        Path, Option("-o", "--output", metavar="GRAPH", help="The new file: .svg, .dot or .graphml.")
    ],
    node: Annotated[
        list[int] | None,
        Option("--node", metavar="ID", help="This node. Can be repeated."),
    ] = None,
    near: Annotated[
        int,
        Option("--near", min=0, metavar="K", help="Add nodes up to K dependencies away, in both directions."),
    ] = 0,
    ids: Annotated[
        str | None, Option("--ids", metavar="A-B", help="Nodes with these ids, both included.")
    ] = None,
    name: Annotated[
        str | None, Option("--name", metavar="TEXT", help="Nodes with this text in their names.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        Option("--type", metavar="TYPE", help="Nodes of this type, such as COMM_COLL_NODE. Can be repeated."),
    ] = None,
    step: Annotated[str | None, Option("--step", metavar="NAME", help="Nodes of this step.")] = None,
    top: Annotated[
        int | None,
        Option("--top", min=1, metavar="K", help="Only the K nodes with the most time."),
    ] = None,
) -> None:
    """Draw part of an .et file as SVG, or write it as DOT or GraphML for other tools.

    Options combine to select nodes; --near adds their neighbours. Without options the whole file is shown.
    """
    choice = PartChoice(tuple(node or ()), _ids(ids), name, _types(kind or ()), step, top, near)
    shown = chakra.show(path, output, choice)
    say_findings(shown.findings)
    note(f"{output}: {shown.nodes:,} of {shown.nodes_of_file:,} nodes")


def _ids(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise ArgumentError(f"{text!r} is not a range of ids; write the first and the last, such as 10-60")
    first, last = int(match[1]), int(match[2])
    if first > last:
        raise ArgumentError(f"{text!r} ends before it begins; write {last}-{first} for these ids")
    return first, last


def _types(names: list[str] | tuple[str, ...]) -> tuple[NodeType, ...]:
    for name in names:
        if name.upper() not in NodeType.__members__:
            raise ArgumentError(f"unknown type {name!r}; known are {', '.join(NodeType.__members__)}")
    return tuple(NodeType[name.upper()] for name in names)
