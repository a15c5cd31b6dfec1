"""Render results in a notebook: small HTML tables without scripts, in the notebook's own colours.

Every text is escaped, shortened and limited here, so that no name of a trace can do harm or fill a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from tracebraid.model.column import unit_of
from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, number, percent, quantity, size

if TYPE_CHECKING:
    import polars as pl

    from tracebraid.model.column import Table


_ROWS = 10
"""Rows that are shown of a table."""
_COLUMNS = 10
"""Columns that are shown of a table."""
_CHARACTERS = 96
"""Characters that are shown of a text; of a longer one its begin and its end."""
_SENTENCE = 400
"""The same of a text of several words."""
_ITEMS = 8
"""Items that are shown of a list."""
_MOMENT_NS = 10**17
"""Larger times are moments on the unix clock (the year 1973 and later), smaller ones are durations."""
# Colours are the notebook's, light or dark; lines are its text colour, paler.
_BOX = "font-size:0.9em;max-width:100%;overflow-x:auto"
_TABLE = "border-collapse:collapse;margin:0.3em 0;color:inherit;background:transparent"
_LINE = "border-bottom:1px solid color-mix(in srgb, currentColor 25%, transparent)"
_CELL = "padding:0.1em 0.7em 0.1em 0;vertical-align:top;background:transparent;"
_LEFT, _RIGHT = f"{_CELL}text-align:left", f"{_CELL}text-align:right;white-space:nowrap"


def shown(title: str, *parts: str) -> str:
    """A result as HTML."""
    return f'<div style="{_BOX}"><strong>{_text(title)}</strong>{"".join(parts)}</div>'


def facts_html(facts: Mapping[str, object]) -> str:
    """A line for each fact, with its label; those that are None are left out."""
    lines = [
        f'<tr><th scope="row" style="{_LEFT};font-weight:normal;opacity:0.75">{_text(label)}</th>'
        f'<td style="{_LEFT}">{_value("", value)}</td></tr>'
        for label, value in facts.items()
        if value is not None
    ]
    return f'<table style="{_TABLE}"><tbody>{"".join(lines)}</tbody></table>' if lines else ""


def note_html(text: str) -> str:
    """A line of text."""
    return f'<div style="opacity:0.75">{_text(text, _SENTENCE)}</div>'


def rows_html(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], total: int) -> str:
    """A table; of more than a few rows the first, and how many there are beside them."""
    return _table(caption, dict.fromkeys(heads, ""), list(islice(rows, _ROWS)), total)


def frame_html(caption: str, frame: pl.DataFrame, schema: Table | None = None, names: str = "") -> str:
    """The first rows of a frame."""
    first = frame.head(_ROWS)
    docs = {column.name: column.doc for column in schema.columns} if schema is not None else {}
    picked = [name for name in names.split() if name in frame.columns]
    if not picked:
        filled = [name for name in first.columns if first.get_column(name).null_count() < first.height]
        picked = (filled or first.columns)[:_COLUMNS]
    table = _table(
        caption,
        {name: docs.get(name, "") for name in picked},
        first.select(picked).rows(),
        frame.height,
    )
    left_out = [name for name in frame.columns if name not in picked]
    return table + (note_html(f"also has: {', '.join(left_out)}") if left_out else "")


def _table(caption: str, heads: Mapping[str, str], rows: Sequence[Sequence[object]], total: int) -> str:
    numeric = [any(_is_number(row[i]) for row in rows) for i in range(len(heads))]
    styles = [_RIGHT if right else _LEFT for right in numeric]
    head = "".join(
        f'<th scope="col" style="{style};{_LINE}"{_title(doc)}>{_text(name)}</th>'
        for (name, doc), style in zip(heads.items(), styles, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{style}">{_value(name, value)}</td>'
            for name, value, style in zip(heads, row, styles, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    more = note_html(f"and {total - len(rows):,} more") if total > len(rows) else ""
    caption_html = (
        f'<caption style="text-align:left">{_text(caption, _SENTENCE)}</caption>' if caption else ""
    )
    return f'<table style="{_TABLE}">{caption_html}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def _title(doc: str) -> str:
    return f' title="{escape(doc)}"' if doc else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(name: str, value: object) -> str:
    """A value as HTML, with the unit that the column's name ends in."""
    if value is None:
        return "&ndash;"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return escape(_number(unit_of(name), value))
    if isinstance(value, list | tuple):
        more = f" and {len(value) - _ITEMS} more" if len(value) > _ITEMS else ""
        return _text(", ".join(map(str, value[:_ITEMS])) + more)
    return _text(str(value.value if isinstance(value, Enum) else value))


def _number(unit: str, value: float) -> str:
    if unit == "ns":
        return duration(value) if abs(value) < _MOMENT_NS else f"{value} ns"
    if unit == "1":
        return percent(value)
    if unit == "bytes":
        return size(value)
    if unit in ("bytes/s", "FLOP", "FLOP/s"):
        return f"{quantity(value)}{unit.replace('bytes', 'B')}"
    return f"{value:,}" if isinstance(value, int) else number(value)


def _text(text: str, most: int = _CHARACTERS) -> str:
    """A text that is safe as HTML, in one line and not long."""
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]} … {text[-half:]}"
    return escape(printable(text))
