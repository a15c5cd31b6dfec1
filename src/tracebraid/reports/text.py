"""Text of a trace as a terminal may show it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape

from tracebraid.model.printable import printable

__all__ = ["cell", "printable", "shortened", "some_of"]

_NAMES_LISTED = 4
"""Of more names the first stand in a line, and the number of the others."""


def cell(text: str) -> str:
    """The text as it stands, for a cell of a table: no markup in it counts."""
    return escape(printable(text))


def shortened(text: str, most: int = 72) -> str:
    """The text; where it is longer than that, without its middle: names of kernels differ at their ends."""
    half = max(1, (most - 3) // 2)
    return text if len(text) <= most else f"{text[: most - 3 - half]}...{text[-half:]}"


def some_of(names: Sequence[str]) -> str:
    """The names in a line; of many the first, and how many others there are."""
    if len(names) <= _NAMES_LISTED:
        return ", ".join(names)
    first = names[: _NAMES_LISTED - 1]
    return f"{', '.join(first)} and {len(names) - len(first)} others"
