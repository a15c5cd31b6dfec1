"""What a query may name: tables, views that join them, and macros."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from tracebraid.model.column import Column, Kind, Table

__all__ = ["Catalog", "Macro", "SourceTable", "SqlSchema", "View", "Viewable"]

_RANK = Column("rank", Kind.INT, "the rank")


class SqlSchema(Enum):
    """What a table's full name begins with, in the order in which a name alone is looked up."""

    MAIN = "main"
    """Views that join tables."""
    TIMELINE = "timeline"
    ET = "et"
    LINKS = "links"
    CONTEXT = "context"
    RANKS = "ranks"
    ANSWERS = "answers"
    PER_STEP = "per_step"
    """Answers by step; these are always named in full."""


@dataclass(frozen=True, eq=False)
class SourceTable:
    """A table that is read, or computed.

    Args:
        schema: what its full name begins with.
        table: its columns.
        of_rank: there is a file for each rank, whose name says which; else one file holds the rows of all.
    """

    schema: SqlSchema
    table: Table
    of_rank: bool = True

    @property
    def name(self) -> str:
        """Its name without the schema."""
        return self.table.name

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns; of a table that has a file for each rank `rank` comes first."""
        if not self.of_rank:
            return self.table.columns
        return (_RANK, *(column for column in self.table.columns if column.name != _RANK.name))

    @property
    def doc(self) -> str:
        """What a row is."""
        return self.table.doc


@dataclass(frozen=True, eq=False)
class View:
    """A view that joins tables, in the schema `main`.

    Args:
        table: its name, what a row is, and its columns.
        query: selects these columns.
    """

    table: Table
    query: str
    schema: SqlSchema = SqlSchema.MAIN

    @property
    def name(self) -> str:
        """Its name."""
        return self.table.name

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns."""
        return self.table.columns

    @property
    def doc(self) -> str:
        """What a row is."""
        return self.table.doc


Viewable = SourceTable | View


@dataclass(frozen=True)
class Macro:
    """A function of SQL.

    Args:
        name: its name.
        parameters: the names of its parameters.
        doc: what it returns.
        body: an expression, or of a table macro a query.
        is_table: it stands in `from`.
    """

    name: str
    parameters: tuple[str, ...]
    doc: str
    body: str
    is_table: bool = False

    @property
    def call(self) -> str:
        """How it is called."""
        return f"{self.name}({', '.join(self.parameters)})"


@dataclass(frozen=True, eq=False)
class Catalog:
    """All that a query may name.

    Args:
        tables: what is read or computed.
        views: what joins them.
        macros: functions.
    """

    tables: tuple[SourceTable, ...]
    views: tuple[View, ...]
    macros: tuple[Macro, ...]

    @property
    def viewables(self) -> tuple[Viewable, ...]:
        """Views and tables, in the order of the schemas."""
        order = list(SqlSchema)
        every: Iterable[Viewable] = (*self.views, *self.tables)
        return tuple(sorted(every, key=lambda viewable: order.index(viewable.schema)))

    @cached_property
    def macros_by_name(self) -> dict[str, Macro]:
        """The macros by their names."""
        return {macro.name: macro for macro in self.macros}

    @cached_property
    def _by_name(self) -> dict[str, Viewable]:
        named: dict[str, Viewable] = {}
        for viewable in self.viewables:
            named[f"{viewable.schema.value}.{viewable.name}"] = viewable
            if viewable.schema is not SqlSchema.PER_STEP:
                named.setdefault(viewable.name, viewable)
        return named

    @property
    def names(self) -> list[str]:
        """All names that a query may use for a table or view, short ones and full ones."""
        return list(self._by_name)

    def find(self, name: str) -> Viewable | None:
        """The table or view of a name, short or full, in any case; None: there is none."""
        return self._by_name.get(name.lower())

    def short_name(self, viewable: Viewable) -> str:
        """The shortest name of a table or view that means it and no other."""
        return (
            viewable.name
            if self.find(viewable.name) is viewable
            else f"{viewable.schema.value}.{viewable.name}"
        )
