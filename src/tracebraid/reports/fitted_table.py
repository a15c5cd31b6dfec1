"""Tables that fit into the width of a terminal: texts are shortened, the last columns left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table

from tracebraid.reports.fitting import Shown, fitted
from tracebraid.reports.terminal import table_of
from tracebraid.reports.text import cell, printable

__all__ = ["Head", "fitted_table"]


class Head(NamedTuple):
    """The head of a column.

    Args:
        heading: wraps at spaces.
        justify: of its cells: left or right.
        shortens: whether its cells may be shortened.
    """

    heading: str
    justify: str = "right"
    shortens: bool = False


def fitted_table(
    title: str, heads: Sequence[Head], rows: Sequence[Sequence[str]], width: int, kept: int
) -> Table:
    """A table with a line for each row; columns whose cells are all empty are left out.

    Args:
        title: stands above it.
        heads: of all columns.
        rows: a cell for each head.
        width: characters in a line.
        kept: so many of the first columns stay in any case, if they are not empty.
    """
    filled = [number for number in range(len(heads)) if not rows or any(row[number] for row in rows)]
    heads, rows = [heads[number] for number in filled], [[row[number] for number in filled] for row in rows]
    kept = sum(number < kept for number in filled)
    cells = list(zip(*([printable(text) for text in row] for row in rows), strict=True)) or [()] * len(heads)
    columns = [
        Shown(str(number), head.heading, head.shortens, texts)
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
    return table
