"""What a query may name, for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from tracebraid.api.querying.tables import CATALOG
from tracebraid.errors import ArgumentError
from tracebraid.model.column import Column
from tracebraid.queries.catalog import Viewable
from tracebraid.queries.text import type_of

__all__ = ["QueryColumn", "QueryName", "query_functions", "query_table", "query_tables"]

_LIKENESS = 0.6
"""How alike a name must be to be suggested, 0 to 1: the default of difflib."""


@dataclass(frozen=True)
class QueryColumn:
    """A column of a table or view: its name, its type in SQL, and what it means."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True)
class QueryName:
    """What a query may name.

    Args:
        name: how it names it: the shortest that means it.
        full_name: its name with its schema; of a function how it is called.
        doc: what a row is, or what the function returns.
        columns: of a table or view.
    """

    name: str
    full_name: str
    doc: str
    columns: tuple[QueryColumn, ...] = ()


def query_tables() -> list[QueryName]:
    """The tables and views that a query may name, in the order of their schemas."""
    return [_named(viewable) for viewable in CATALOG.viewables]


def query_functions() -> list[QueryName]:
    """The functions that a query may use beside those of DuckDB."""
    return [QueryName(macro.call, macro.call, macro.doc) for macro in CATALOG.macros]


def query_table(name: str) -> QueryName:
    """A table or view by its name, short or full.

    Raises:
        ArgumentError: there is none.
    """
    found = CATALOG.find(name)
    if found is None:
        near = get_close_matches(name.lower(), CATALOG.names, 3, _LIKENESS)
        advice = f"did you mean {' or '.join(near)}?" if near else "tracebraid sql --tables lists them"
        raise ArgumentError(f"there is no table or view {name!r}; {advice}")
    return _named(found)


def _named(viewable: Viewable) -> QueryName:
    full = f"{viewable.schema.value}.{viewable.name}"
    return QueryName(CATALOG.short_name(viewable), full, viewable.doc, tuple(map(_column, viewable.columns)))


def _column(column: Column) -> QueryColumn:
    return QueryColumn(column.name, type_of(column), column.doc)
