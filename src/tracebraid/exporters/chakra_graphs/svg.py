"""A part of Chakra's graph as a picture: SVG, without a script, a style sheet or anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape

from tracebraid.exporters.chakra_graphs.captions import captions
from tracebraid.exporters.chakra_graphs.colours import MISSING, Colours, colours_of
from tracebraid.exporters.chakra_graphs.layout import Box, Layout, layout_of
from tracebraid.exporters.op_graphs.legible import legible
from tracebraid.model.chakra.part import ChakraPart, DependencyKind
from tracebraid.model.printable import printable

__all__ = ["svg_lines"]

_BOX_WIDTH, _BOX_HEIGHT = 350, 38
_COLUMN_WIDTH, _ROW_HEIGHT = 410, 58
"""Pixels from a box to the next: arrows run between."""
_MARGIN, _HEAD_HEIGHT = 34, 96
_NAME_CHARS, _CAPTION_CHARS = 50, 52
"""Characters that fit into a box at 12 and 11 pixels."""
_LEAST_WIDTH = 760
"""Pixels that the legend needs."""
_LINE = "#555555"
_ELLIPSIS = "…"


def svg_lines(part: ChakraPart, title: str) -> Iterator[bytes]:
    """The file, line by line.

    Args:
        part: what is drawn.
        title: what it is of, such as the name of the file.
    """
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
    """From box to box: straight down, in a bow past what lies between, or from side to side."""
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
