"""Names, texts and types as SQL writes them: nothing from a file becomes SQL in another way."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tracebraid.model.column import Column, Kind

__all__ = ["list_of_paths", "literal", "quoted", "type_of"]

_TYPES = {
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.BOOL: "BOOLEAN",
    Kind.NAME: "VARCHAR",
    Kind.JSON: "VARCHAR",
    Kind.TEXT: "VARCHAR",
    Kind.INT3: "BIGINT[]",
    Kind.INTS: "BIGINT[]",
}


def quoted(name: str) -> str:
    """A name."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text."""
    return "'" + text.replace("'", "''") + "'"


def list_of_paths(paths: Iterable[Path]) -> str:
    """A list of texts."""
    return "[" + ", ".join(literal(str(path)) for path in paths) + "]"


def type_of(column: Column) -> str:
    """The type of a column."""
    return _TYPES[column.kind]
