"""Columns of text fitted into the width of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from tracebraid.reports.names import distinct_names

__all__ = ["SEPARATOR_WIDTH", "Shown", "fitted"]

SEPARATOR_WIDTH = 3
"""Characters between two columns of a table in the style of all reports."""
_LEAST_FIRST_TEXT = 28
"""The first text, which says what a row is about, is not shortened below this."""
_MOST_TEXT = 72
"""A text is not shown longer than this."""


@dataclass(frozen=True)
class Shown:
    """A column as it is shown.

    Args:
        name: its name in the answer.
        heading: what stands above it; wraps at spaces.
        is_text: text is shortened where it must be, so that what differs stays different; numbers stay whole.
        cells: a text for each row.
        least: a text is not shortened below this; rather the last column is left out.
        width: characters that it takes; 0: not fitted yet.
    """

    name: str
    heading: str
    is_text: bool
    cells: Sequence[str]
    least: int = 20
    width: int = 0

    @property
    def heading_width(self) -> int:
        """Characters of the longest word of its heading."""
        return max(map(cell_len, self.heading.split()), default=0)

    @property
    def cells_width(self) -> int:
        """Characters that its cells take, if none is shortened."""
        return max(map(cell_len, self.cells), default=0)


def fitted(columns: Sequence[Shown], width: int, kept: int = 1) -> list[Shown]:
    """The columns that fit, in their order: the last are left out, and texts shortened.

    Args:
        columns: all that may be shown.
        width: characters in a line.
        kept: so many of the first columns stay in any case.
    """
    shown = list(columns)
    while len(shown) > kept and _total(_least(shown)) > width:
        shown.pop()
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
    """The width of each column at least."""
    first = next((i for i, column in enumerate(columns) if column.is_text), -1)
    limits = [max(column.least, _LEAST_FIRST_TEXT * (i == first)) for i, column in enumerate(columns)]
    return [
        max(column.heading_width, min(column.cells_width, limit) if column.is_text else column.cells_width)
        for column, limit in zip(columns, limits, strict=True)
    ]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + SEPARATOR_WIDTH * (len(widths) - 1)


def _shared(least: Sequence[int], wanted: Sequence[int], spare: int) -> list[int]:
    """The widths, with what is to spare given to those that want more, the same to each."""
    widths = list(least)
    hungry = [i for i in range(len(widths)) if widths[i] < wanted[i]]
    while spare > 0 and hungry:
        for i in hungry[:spare]:
            widths[i] += 1
        spare -= len(hungry)
        hungry = [i for i in hungry if widths[i] < wanted[i]]
    return widths
