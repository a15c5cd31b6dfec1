"""Write a part of an `.et` file as DOT, GraphML or SVG."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from msgspec import Struct

from tracebraid.chakra.codes import NodeType
from tracebraid.chakra.part import (
    CHAKRA_EDGES,
    ChakraPart,
    DependencyKind,
    PartChoice,
    chosen_part,
    whole_part,
)
from tracebraid.chakra.schema import CHAKRA_NODES
from tracebraid.chakra.wire.reading import read
from tracebraid.errors import ArgumentError
from tracebraid.exporters.op_graphs import GraphmlForm, graphml_document, label, legible, quoted, shortened
from tracebraid.files import refuse_inputs, refuse_target, write_whole
from tracebraid.filesystem.paths import name_of, text_of
from tracebraid.model.column import Column, Kind
from tracebraid.model.finding import Finding
from tracebraid.model.printable import printable
from tracebraid.model.quantities import NS_PER_US, duration, size

MOST_DRAWN = 500
"""Maximum nodes of a picture: a chain at 58 pixels each is 29,000 pixels high, which browsers still display."""
MOST_WRITTEN = 50_000
"""Maximum nodes of a graph for other tools, which take minutes to lay out a tenth of them."""


class ShownChakra(Struct, frozen=True):
    """Summary of the written files.

    Args:
        path: the new file.
        nodes: the number of nodes in it.
        nodes_of_file: the number of nodes in the `.et` file.
        findings: findings in that file.
    """

    path: Path
    nodes: int
    nodes_of_file: int
    findings: tuple[Finding, ...]


def show(path: str | Path, output: str | Path, choice: PartChoice | None = None) -> ShownChakra:
    """Write part of an `.et` file as DOT, GraphML or SVG, by the suffix of the new file.

    Args:
        path: the `.et` file or its URL.
        output: the new file: `.dot` or `.gv`, `.graphml`, `.svg`, each also with `.gz`.
        choice: the selected nodes; None: all.

    Raises:
        ArgumentError: the suffix is unknown, or no nodes or too many are selected.
        InputError: the file cannot be read.
        OutputError: the new file exists, or cannot be written.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> first = tracebraid.chakra.PartChoice(step="0", top=20)
        >>> tracebraid.chakra.show("job.0.et", "step.svg", first)  # doctest: +SKIP
    """
    target = Path(output)
    most, lines = _writer(target, _WRITERS)
    refuse_target(target)
    part = _checked(chosen_part(read(path), choice or PartChoice()), target, most)
    write_whole(target, lines(part, name_of(text_of(path))), overwrite=False)
    return ShownChakra(target, part.nodes.height, part.nodes_of_file, part.findings)


def visualize_chakra(path: Path, output: Path) -> tuple[Finding, ...]:
    """Write an `.et` file as Chakra's visualizer does; an existing file is replaced, as it does."""
    most, lines = _writer(output, _VISUALIZER)
    refuse_inputs(output, [path])
    rank = read(path)
    part = whole_part(rank)
    write_whole(output, lines(_checked(part, output, most), name_of(text_of(path))), overwrite=True)
    return part.findings


def _checked(part: ChakraPart, target: Path, most: int | None) -> ChakraPart:
    if most is not None and part.nodes.height + len(part.missing) > most:
        raise ArgumentError(
            f"{part.nodes.height:,} of the {part.nodes_of_file:,} nodes are too many for {target.name}, which takes "
            f"{most:,}: select a step, a range of ids, a name, the nodes with the most time, or the "
            f"neighbours of a node"
        )
    return part


def captions(node: Mapping[str, Any]) -> Iterator[str]:
    """Facts of a node, the most important first."""
    if node["comm_type"] is not None:
        yield node["comm_type"].lower().replace("_", "-")
    if node["comm_size"] is not None:
        yield size(node["comm_size"])
    if node["pg_name"] is not None:
        yield f"group {node['pg_name']}"
    for column, text in (("comm_src", "from rank"), ("comm_dst", "to rank"), ("comm_tag", "tag")):
        if node[column] is not None:
            yield f"{text} {node[column]}"
    took_ns = node["duration_ns"]
    if took_ns is None and node["duration_micros"] is not None:
        took_ns = node["duration_micros"] * NS_PER_US
    if took_ns:
        yield duration(took_ns)


class Colours(Struct, frozen=True):
    """Label of a node.

    Args:
        fill: of its box.
        line: around it.
        text: what nodes of the type are called.
    """

    fill: str
    line: str
    text: str


MISSING = "#c81e1e"
"""Label of nodes missing in the file."""
_OF_TYPE = {
    NodeType.COMP_NODE.name: Colours("#d6e6fb", "#2b6cb0", "computation"),
    NodeType.COMM_COLL_NODE.name: Colours("#fde3c4", "#b45f06", "collective"),
    NodeType.COMM_SEND_NODE.name: Colours("#d8f0d8", "#2f7d32", "send"),
    NodeType.COMM_RECV_NODE.name: Colours("#cdeeee", "#0f7b7b", "receive"),
    NodeType.MEM_LOAD_NODE.name: Colours("#eadcf7", "#6b3fa0", "memory load"),
    NodeType.MEM_STORE_NODE.name: Colours("#f5d9ec", "#a0307a", "memory store"),
    NodeType.METADATA_NODE.name: Colours("#ebebeb", "#5f5f5f", "metadata"),
}
_OTHER = Colours("#ffffff", "#5f5f5f", "other")


def colours_of(type: str | None) -> Colours:
    """The colours of a node."""
    return _OF_TYPE.get(type or "", _OTHER)


_STYLES = {DependencyKind.DATA: "", DependencyKind.CONTROL: 'arrowhead="tee",style="dashed"'}
_ATTRIBUTES = (
    "type",
    "duration_micros",
    "comm_type",
    "comm_size",
    "pg_name",
    "step",
    "module",
    "stream",
    "thread",
)


def dot_lines(part: ChakraPart) -> Iterator[bytes]:
    """Yield the lines of the file; missing dependencies are dashed."""
    yield b'digraph chakra {\n  graph [rankdir="TB"];\n'
    yield b'  node [fontname="sans-serif",fontsize="10",shape="box",style="filled"];\n'
    for row in part.nodes.iter_rows(named=True):
        colours = colours_of(row["type"])
        attributes = [
            f"label={label(shortened(row['name'] or ''), ', '.join(captions(row)))}",
            f'fillcolor="{colours.fill}",color="{colours.line}"',
            f"name={quoted(row['name'] or '')}",
            *(f"{key}={quoted(str(row[key]))}" for key in _ATTRIBUTES if row[key] is not None),
        ]
        yield f'  "{row["node_id"]}" [{",".join(attributes)}];\n'.encode()
    for node_id in part.missing:
        text = label(f"{node_id}: not in the file")
        yield f'  "{node_id}" [label={text},style="dashed",color="{MISSING}"];\n'.encode()
    for source, target, kind in part.edges.iter_rows():
        style = _STYLES[DependencyKind(kind)]
        kept = f",{style}" if style else ""
        yield f'  "{source}" -> "{target}" [kind="{kind}"{kept}];\n'.encode()
    yield b"}\n"


_IN_FILE = Column("in_file", Kind.BOOL, "false: it is waited for, and is not there")
_FORM = GraphmlForm("chakra", (*CHAKRA_NODES.columns, _IN_FILE), (CHAKRA_EDGES.column("kind"),))


def graphml_lines(part: ChakraPart) -> Iterator[bytes]:
    """The file, line by line: every column of the nodes is a `data` element, nulls are none."""
    return graphml_document(
        _FORM,
        _nodes(part),
        ((str(row["source"]), str(row["target"]), row) for row in part.edges.iter_rows(named=True)),
    )


def _nodes(part: ChakraPart) -> Iterator[tuple[str, dict[str, object]]]:
    for row in part.nodes.iter_rows(named=True):
        yield str(row["node_id"]), {**row, _IN_FILE.name: True}
    blank = dict.fromkeys(column.name for column in CHAKRA_NODES.columns)
    for node_id in part.missing:
        yield str(node_id), {**blank, "node_id": node_id, _IN_FILE.name: False}


_ABREAST = 3
"""Nodes of a layer and lane in a row."""
_THREAD, _STREAM, _TYPE, _MISSING = range(4)
"""Kinds of lanes, from the left."""
_LaneKey = tuple[int, int, str]


class Box(Struct, frozen=True):
    """Position of a node.

    Args:
        node_id: which node.
        column: from the left, over all lanes.
        row: from the top.
        lane: the number of its lane.
    """

    node_id: int
    column: int
    row: int
    lane: int


class Layout(Struct, frozen=True):
    """Layout of all nodes.

    Args:
        boxes: by the id of the node; those that are missing stand in the first row.
        lanes: the title and the first column of each.
        columns: how many.
        rows: how many.
    """

    boxes: Mapping[int, Box]
    lanes: Sequence[tuple[str, int]]
    columns: int
    rows: int


def layout_of(part: ChakraPart) -> Layout:
    """The layout of a part."""
    lane_of = {row["node_id"]: _lane(row) for row in part.nodes.iter_rows(named=True)}
    lane_of |= dict.fromkeys(part.missing, (_MISSING, 0, "not in the file"))
    layers = _layers(part, lane_of)
    keys = sorted(set(lane_of.values()))
    cells: dict[tuple[int, _LaneKey], list[int]] = defaultdict(list)
    for node_id, layer in layers.items():
        cells[layer, lane_of[node_id]].append(node_id)
    widths = dict.fromkeys(keys, 0)
    heights: dict[int, int] = defaultdict(int)
    for (layer, key), members in cells.items():
        widths[key] = max(widths[key], min(len(members), _ABREAST))
        heights[layer] = max(heights[layer], -(-len(members) // _ABREAST))
    first_column, first_row = (
        _starts([widths[key] for key in keys]),
        _starts([heights[n] for n in sorted(heights)]),
    )
    row_of_layer = dict(zip(sorted(heights), first_row, strict=False))
    boxes = {}
    for (layer, key), members in cells.items():
        lane = keys.index(key)
        for position, node_id in enumerate(members):
            down, right = divmod(position, _ABREAST)
            boxes[node_id] = Box(node_id, first_column[lane] + right, row_of_layer[layer] + down, lane)
    lanes = [(key[2], column) for key, column in zip(keys, first_column, strict=False)]
    return Layout(boxes, lanes, first_column[-1], first_row[-1])


def _starts(sizes: Sequence[int]) -> list[int]:
    """Offsets of each, and the end of the last."""
    starts = [0]
    for width in sizes:
        starts.append(starts[-1] + width)
    return starts


def _lane(row: Mapping[str, Any]) -> _LaneKey:
    """Threads of the host come first, then streams, then what is on neither by its type."""
    if row["thread"] is not None:
        return (_THREAD, row["thread"], f"thread {row['thread']}")
    if row["stream"] is not None:
        return (_STREAM, row["stream"], f"stream {row['stream']}")
    return (_TYPE, 0, colours_of(row["type"]).text)


def _layers(part: ChakraPart, lane_of: Mapping[int, _LaneKey]) -> dict[int, int]:
    """The layer of each node, from the top."""
    before: dict[int, set[int]] = {node_id: set() for node_id in lane_of}
    after: dict[int, set[int]] = {node_id: set() for node_id in lane_of}
    for source, target in part.edges.select("source", "target").iter_rows():
        if source != target:
            before[target].add(source)
            after[source].add(target)
    order = list(_cut_order(before, after))
    last: dict[_LaneKey, int] = {}
    for node_id in order:
        lane = lane_of[node_id]
        if lane[0] in (_THREAD, _STREAM):
            if lane in last:
                before[node_id].add(last[lane])
                after[last[lane]].add(node_id)
            last[lane] = node_id
    layers: dict[int, int] = {}
    for node_id in order:
        layers[node_id] = max((layers[dep] + 1 for dep in before[node_id] if dep in layers), default=0)
    for node_id in reversed(order):
        below = [layers[target] for target in after[node_id] if layers[target] > layers[node_id]]
        layers[node_id] = min(below, default=layers[node_id] + 1) - 1
    return {node_id: layers[node_id] for node_id in lane_of}


def _cut_order(before: Mapping[int, set[int]], after: Mapping[int, set[int]]) -> Iterator[int]:
    """Order nodes after their dependencies, else as in the file; a cycle is cut at its first node."""
    ids = list(before)
    position = {node_id: number for number, node_id in enumerate(ids)}
    waiting = {node_id: len(deps) for node_id, deps in before.items() if deps}
    ready = [position[node_id] for node_id in ids if node_id not in waiting]
    while ready or waiting:
        if not ready:
            # Only circles, and what comes behind them, are left: begin at the first of them.
            first = next(iter(waiting))
            del waiting[first]
            ready = [position[first]]
        node_id = ids[heappop(ready)]
        yield node_id
        for target in after[node_id]:
            if target in waiting:
                waiting[target] -= 1
                if not waiting[target]:
                    del waiting[target]
                    heappush(ready, position[target])


_BOX_WIDTH = 350
_BOX_HEIGHT = 38
_COLUMN_WIDTH = 410
_ROW_HEIGHT = 58
"""Pixels from a box to the next: arrows run between."""
_MARGIN = 34
_HEAD_HEIGHT = 96
_NAME_CHARS = 50
_CAPTION_CHARS = 52
"""Characters that fit into a box at 12 and 11 pixels."""
_LEAST_WIDTH = 760
"""Pixels that the legend needs."""
_LINE = "#555555"
_ELLIPSIS = "…"


def svg_lines(part: ChakraPart, title: str) -> Iterator[bytes]:
    """The file, line by line."""
    layout = layout_of(part)
    width = max(_LEAST_WIDTH, 2 * _MARGIN + layout.columns * _COLUMN_WIDTH)
    height = _HEAD_HEIGHT + layout.rows * _ROW_HEIGHT + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" role="img">',
        f"<title>{_safe(title)}</title>",
        _markers(),
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_head(part, title),
        *_lanes(layout, height),
        '<g fill="none" stroke-width="1.4">',
        *_arrows(part, layout),
        "</g>",
        *(_node(row, layout.boxes[row["node_id"]]) for row in part.nodes.iter_rows(named=True)),
        *(_missing(layout.boxes[node_id]) for node_id in part.missing),
        "</svg>",
    ]
    for line in lines:
        yield f"{line}\n".encode()


def _safe(text: str) -> str:
    # A character that turns the direction of writing would turn what stands around it, too.
    return escape(legible(printable(text)), {'"': "&quot;"})


def _fitted(text: str, chars: int) -> str:
    """A text that fits: its beginning and its end."""
    if len(text) <= chars:
        return text
    end = chars * 2 // 3
    return f"{text[: chars - end - 1]}{_ELLIPSIS}{text[-end:]}"


def _markers() -> str:
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        for name, colour in (("arrow", _LINE), ("wrong", MISSING))
    )
    return f"<defs>{heads}</defs>"


def _head(part: ChakraPart, title: str) -> Iterator[str]:
    count = f"{part.nodes.height:,} of {part.nodes_of_file:,} nodes"
    left_out = f"; dependencies on nodes that are not shown: {part.left_out:,}" if part.left_out else ""
    yield f'<text x="{_MARGIN}" y="26" font-size="15" font-weight="bold">{_safe(_fitted(title, 80))}</text>'
    yield f'<text x="{_MARGIN}" y="44" fill="#444444">{count}{left_out}</text>'
    x = _MARGIN
    types = dict.fromkeys(part.nodes.get_column("type").to_list())
    for colours in dict.fromkeys(map(colours_of, types)):
        yield f'<rect x="{x}" y="54" width="14" height="12" rx="2" {_paint(colours)}/>'
        yield f'<text x="{x + 20}" y="64">{colours.text}</text>'
        x += 40 + 7 * len(colours.text)
    if part.edges.filter(kind=DependencyKind.CONTROL.value).height:
        yield f'<path d="M{x} 60h26" stroke="{_LINE}" stroke-dasharray="4 3" marker-end="url(#arrow)"/>'
        yield f'<text x="{x + 34}" y="64">control dependency</text>'


def _paint(colours: Colours) -> str:
    return f'fill="{colours.fill}" stroke="{colours.line}"'


def _lanes(layout: Layout, height: int) -> Iterator[str]:
    for number, (title, column) in enumerate(layout.lanes):
        x = _MARGIN + column * _COLUMN_WIDTH
        if number:
            line = x - (_COLUMN_WIDTH - _BOX_WIDTH) // 2
            yield f'<path d="M{line} {_HEAD_HEIGHT - 18}V{height - 10}" stroke="#dddddd" fill="none"/>'
        yield f'<text x="{x}" y="{_HEAD_HEIGHT - 8}" fill="#666666" font-weight="bold">{_safe(title)}</text>'


def _corner(box: Box) -> tuple[int, int]:
    return _MARGIN + box.column * _COLUMN_WIDTH, _HEAD_HEIGHT + box.row * _ROW_HEIGHT


def _node(row: dict[str, Any], box: Box) -> str:
    x, y = _corner(box)
    name = row["name"] or ""
    facts = ", ".join(captions(row))
    hover = _safe(f"{row['node_id']}: {name} ({row['type']}{', ' if facts else ''}{facts})")
    caption = f"{row['node_id']}: {facts}" if facts else str(row["node_id"])
    shown, below = _safe(_fitted(name, _NAME_CHARS)), _safe(_fitted(caption, _CAPTION_CHARS))
    return (
        f'<g><title>{hover}</title><rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="4" '
        f'{_paint(colours_of(row["type"]))}/><text x="{x + 8}" y="{y + 16}">{shown}</text>'
        f'<text x="{x + 8}" y="{y + 31}" font-size="11" fill="#333333">{below}</text></g>'
    )


def _missing(box: Box) -> str:
    x, y = _corner(box)
    return (
        f'<g><rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="4" fill="#ffffff" '
        f'stroke="{MISSING}" stroke-dasharray="5 3"/><text x="{x + 8}" y="{y + 23}" fill="{MISSING}">'
        f"{box.node_id}: not in the file</text></g>"
    )


def _arrows(part: ChakraPart, layout: Layout) -> Iterator[str]:
    missing = set(part.missing)
    for source, target, kind in part.edges.iter_rows():
        start, end = layout.boxes[source], layout.boxes[target]
        wrong = source in missing or end.row <= start.row
        dashed = ' stroke-dasharray="4 3"' if kind == DependencyKind.CONTROL.value else ""
        colour, head = (MISSING, "wrong") if wrong else (_LINE, "arrow")
        yield f'<path d="{_path(start, end)}" stroke="{colour}"{dashed} marker-end="url(#{head})"/>'


def _path(start: Box, end: Box) -> str:
    """Draw an edge between boxes: straight down, around boxes in between, or from side to side."""
    (x1, y1), (x2, y2) = _corner(start), _corner(end)
    middle1, middle2 = y1 + _BOX_HEIGHT // 2, y2 + _BOX_HEIGHT // 2
    if start.column == end.column:
        if end.row == start.row + 1:
            x = x1 + _BOX_WIDTH // 2
            return f"M{x} {y1 + _BOX_HEIGHT}V{y2}"
        bow = x1 - min(28, 8 + 4 * abs(end.row - start.row))
        return f"M{x1} {middle1}C{bow} {middle1} {bow} {middle2} {x2} {middle2}"
    gap = (_COLUMN_WIDTH - _BOX_WIDTH) // 2
    if start.column < end.column:
        x1 += _BOX_WIDTH
        return f"M{x1} {middle1}C{x1 + gap} {middle1} {x2 - gap} {middle2} {x2} {middle2}"
    x2 += _BOX_WIDTH
    return f"M{x1} {middle1}C{x1 - gap} {middle1} {x2 + gap} {middle2} {x2} {middle2}"


_ARROWS = {DependencyKind.DATA.value: "normal", DependencyKind.CONTROL.value: "tee"}
_VISUALIZER_FORM_FORM = GraphmlForm(
    "", (Column("label", Kind.TEXT, "its name"),), (Column("dependency", Kind.TEXT, "data or control"),)
)


def visualizer_dot(part: ChakraPart) -> Iterator[bytes]:
    """DOT: boxes with the names, and an arrowhead for each list of dependencies; missing nodes are bare ids."""
    yield b"digraph {\n"
    for node_id, name in part.nodes.select("node_id", "name").iter_rows():
        yield f'\t{node_id} [label={label(name or "")} id={quoted(str(node_id))} shape="box"]\n'.encode()
    for source, target, kind in part.edges.iter_rows():
        yield f"\t{source} -> {target} [arrowhead={_ARROWS[kind]}]\n".encode()
    yield b"}\n"


def visualizer_graphml(part: ChakraPart) -> Iterator[bytes]:
    """GraphML with the attributes `label` of nodes and `dependency` of edges.

    An edge of both lists is a control edge.
    """
    nodes: list[tuple[str, dict[str, object]]] = [
        (str(node_id), {"label": name or ""})
        for node_id, name in part.nodes.select("node_id", "name").iter_rows()
    ]
    nodes += [(str(node_id), {"label": None}) for node_id in part.missing]
    last = part.edges.unique(["source", "target"], keep="last", maintain_order=True)
    edges = ((str(source), str(target), {"dependency": kind}) for source, target, kind in last.iter_rows())
    return graphml_document(_VISUALIZER_FORM_FORM, nodes, edges)


_Lines = Callable[[ChakraPart, str], Iterator[bytes]]
_Writer = tuple[int | None, _Lines]
"""Maximum nodes and writer of each format."""
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
