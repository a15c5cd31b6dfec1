"""Tables that fit into the width of a terminal: texts are shortened, and what matters least is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table

from tracebraid.model.printable import printable
from tracebraid.reports.names import cell, distinct_names

SEPARATOR_WIDTH = 3
"""Characters between two columns of a table in the style of all reports."""
_LEAST_FIRST_TEXT = 28
"""Minimum characters of the first text, which identifies the row."""
_MOST_TEXT = 72
"""Maximum characters of a text."""


class Shown(Struct, frozen=True):
    """A shown column.

    Args:
        name: its name in the answer.
        heading: its heading; wraps at spaces.
        is_text: whether it is text, which may be shortened but stays distinct; numbers are never shortened.
        cells: a text for each row.
        least: minimum characters of a text; beyond that, columns are dropped instead.
        width: its width in characters; 0: not fitted yet.
        rank: columns of the highest rank are dropped first, from the right.
    """

    name: str
    heading: str
    is_text: bool
    cells: Sequence[str]
    least: int = 20
    width: int = 0
    rank: int = 0

    @property
    def heading_width(self) -> int:
        """Return the length of the longest word of its heading."""
        return max(map(cell_len, self.heading.split()), default=0)

    @property
    def cells_width(self) -> int:
        """Return the width of its cells without shortening."""
        return max(map(cell_len, self.cells), default=0)


def fitted(columns: Sequence[Shown], width: int, kept: int = 1) -> list[Shown]:
    """Fit columns into a width: drop those of the highest rank, and shorten texts."""
    shown = list(columns)
    while len(shown) > kept and _total(_least(shown)) > width:
        out = max(range(kept, len(shown)), key=lambda number: (shown[number].rank, number))
        shown.pop(out)
    least = _least(shown)
    wanted = [_wanted(column, have) for column, have in zip(shown, least, strict=True)]
    widths = _shared(least, wanted, width - _total(least))
    return [_of_width(column, most) for column, most in zip(shown, widths, strict=True)]


def _wanted(column: Shown, least: int) -> int:
    cells = min(_MOST_TEXT, column.cells_width) if column.is_text else column.cells_width
    return max(least, cells, cell_len(column.heading))


def _of_width(column: Shown, width: int) -> Shown:
    cells = distinct_names(column.cells, width) if column.is_text else column.cells
    return replace(column, cells=cells, width=width)


def _least(columns: Sequence[Shown]) -> list[int]:
    """Return the minimum width of each column."""
    first = next((i for i, column in enumerate(columns) if column.is_text), -1)
    limits = [max(column.least, _LEAST_FIRST_TEXT * (i == first)) for i, column in enumerate(columns)]
    return [
        max(column.heading_width, min(column.cells_width, limit) if column.is_text else column.cells_width)
        for column, limit in zip(columns, limits, strict=True)
    ]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + SEPARATOR_WIDTH * (len(widths) - 1)


def _shared(least: Sequence[int], wanted: Sequence[int], spare: int) -> list[int]:
    """Distribute spare width equally among columns that need more."""
    widths = list(least)
    hungry = [i for i in range(len(widths)) if widths[i] < wanted[i]]
    while spare > 0 and hungry:
        for i in hungry[:spare]:
            widths[i] += 1
        spare -= len(hungry)
        hungry = [i for i in hungry if widths[i] < wanted[i]]
    return widths


WIDEST = 160
"""Width of output to a file or pipe, in characters: the widest table fits."""


class Head(NamedTuple):
    """Head of a column.

    Args:
        heading: wraps at spaces.
        justify: of its cells: left or right.
        shortens: whether its cells may be shortened.
        rank: columns of the highest rank are dropped first if there is no room, from the right.
    """

    heading: str
    justify: str = "right"
    shortens: bool = False
    rank: int = 0


def fitted_table(
    title: str, heads: Sequence[Head], rows: Sequence[Sequence[str]], width: int, kept: int
) -> Table:
    """Build a table with one line for each row; empty columns are dropped.

    Its caption lists the columns for which there is no room.
    """
    filled = [number for number in range(len(heads)) if not rows or any(row[number] for row in rows)]
    heads, rows = [heads[number] for number in filled], [[row[number] for number in filled] for row in rows]
    kept = sum(number < kept for number in filled)
    cells = list(zip(*([printable(text) for text in row] for row in rows), strict=True)) or [()] * len(heads)
    columns = [
        Shown(str(number), head.heading, head.shortens, texts, rank=head.rank)
        for number, (head, texts) in enumerate(zip(heads, cells, strict=True))
    ]
    shown = fitted(columns, width, kept)
    justified = [(column.heading, heads[int(column.name)].justify) for column in shown]
    table = table_of(title, justified)
    table.min_width = min(width, cell_len(title))
    for drawn, column in zip(table.columns, shown, strict=True):
        drawn.width = column.width
    for texts in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*map(cell, texts))
    names = {column.name for column in shown}
    out = [column.heading for column in columns if column.name not in names]
    return captioned(table, f"no room for: {', '.join(out)}") if out else table


def line_width(table: Table) -> int:
    """Return the line width of a fitted table in characters; 0 for an unfitted one."""
    return sum(column.width or 0 for column in table.columns) + SEPARATOR_WIDTH * (len(table.columns) - 1)


def captioned(table: Table, line: str) -> Table:
    """Add a line below the table."""
    table.caption = f"{table.caption}\n{line}" if table.caption else line
    return table


def table_of(title: str, columns: Sequence[tuple[str, str]]) -> Table:
    """Create an empty table in the common style, from headings and justification of columns."""
    table = Table(title=title or None, title_justify="left", title_style="bold", caption_justify="left")
    table.box, table.show_edge, table.pad_edge = SIMPLE_HEAD, False, False
    for name, justify in columns:
        wraps = justify == "left"
        table.add_column(name, justify="left" if wraps else "right", overflow="fold")
    return table
