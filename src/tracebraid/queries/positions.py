"""Where in a query something stands, as people count."""

from __future__ import annotations

__all__ = ["position_at", "position_of"]


def position_at(query: str, offset: int) -> str:
    """The line and column, from 1, of a number of bytes; "" where it is below 0 or behind the end."""
    data = query.encode("utf-8", "surrogatepass")
    if not 0 <= offset <= len(data):
        return ""
    before = data[:offset].decode("utf-8", "ignore")
    return position_of(before.count("\n") + 1, len(before) - before.rfind("\n"))


def position_of(line: int, column: int) -> str:
    """A line and column, from 1, as a text."""
    return f"line {line}, column {column}"
