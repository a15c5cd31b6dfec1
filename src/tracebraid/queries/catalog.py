"""What a query may name: tables, views that join them, and macros."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from tracebraid.model.column import Column, Kind, Table

__all__ = ["Catalog", "Join", "Macro", "SourceTable", "SqlSchema", "View", "ViewColumn", "Viewable"]

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


@dataclass(frozen=True)
class Join:
    """A table that a view joins, if a column of it is wanted.

    Args:
        text: the clause; each row of the view finds one row at most.
        after: the aliases of the joins that it refers to.
    """

    text: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class ViewColumn:
    """A column of a view.

    Args:
        column: its name, its type and what it means.
        source: the alias of the join that it comes from; "" where it comes from what is read in any case.
        expression: what it is.
    """

    column: Column
    source: str
    expression: str


@dataclass(frozen=True, eq=False)
class View:
    """A view that joins tables, in the schema `main`.

    Args:
        name: its name.
        doc: what a row is.
        view_columns: its columns.
        base: what is read in any case, behind `FROM`.
        joins: what is read if a column of it is wanted, by aliases.
    """

    name: str
    doc: str
    view_columns: tuple[ViewColumn, ...]
    base: str
    joins: Mapping[str, Join] = field(default_factory=dict)
    schema: SqlSchema = SqlSchema.MAIN

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns."""
        return tuple(own.column for own in self.view_columns)

    @property
    def table(self) -> Table:
        """Its columns as a table."""
        return Table(self.name, self.doc, self.columns)

    def query(self, wanted: Collection[str] | None = None) -> str:
        """What selects its columns; those that are not wanted may be null.

        Args:
            wanted: names of columns, in lower case; None: all.
        """
        aliases: set[str] = set()
        for own in self.view_columns:
            if own.source and (wanted is None or own.column.name in wanted):
                self._need(own.source, aliases)
        columns = ", ".join(
            f'{own.expression if not own.source or own.source in aliases else "NULL"} AS "{own.column.name}"'
            for own in self.view_columns
        )
        joins = " ".join(join.text for alias, join in self.joins.items() if alias in aliases)
        return f"SELECT {columns} FROM {self.base} {joins}"

    def _need(self, alias: str, aliases: set[str]) -> None:
        for other in self.joins[alias].after:
            self._need(other, aliases)
        aliases.add(alias)


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
