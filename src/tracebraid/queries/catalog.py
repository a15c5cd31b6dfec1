"""Catalog of a query: tables, views that join them, and macros."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import cached_property

from msgspec import Struct, field

from tracebraid.model.column import Column, Kind, Table

_RANK = Column("rank", Kind.INT, "the rank")


class SqlSchema(Enum):
    """Schema of a table, in the order of lookup of unqualified names."""

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


class SourceTable(Struct, frozen=True, eq=False):
    """A table that is read, or computed.

    Args:
        schema: what its full name begins with.
        table: its columns.
        of_rank: one file for each rank, named after it; else one file with the rows of all.
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
        """Return its columns; for a table with a file for each rank, `rank` comes first."""
        if not self.of_rank:
            return self.table.columns
        return (_RANK, *(column for column in self.table.columns if column.name != _RANK.name))

    @property
    def doc(self) -> str:
        """Meaning of a row."""
        return self.table.doc


class Join(Struct, frozen=True):
    """A join of a view, used if a column of it is needed.

    Args:
        text: the clause; it matches at most one row for each row of the view.
        after: the aliases of the joins that it refers to.
    """

    text: str
    after: tuple[str, ...] = ()


class ViewColumn(Struct, frozen=True):
    """A column of a view.

    Args:
        column: its name, type and meaning.
        source: the alias of its join; "" if it comes from the base.
        expression: its expression.
    """

    column: Column
    source: str
    expression: str


class View(Struct, frozen=True, eq=False):
    """A view that joins tables, in the schema `main`.

    Args:
        name: its name.
        doc: the meaning of a row.
        view_columns: its columns.
        base: the clause after `FROM` that is always read.
        joins: joins that are read if a column of theirs is needed, by alias.
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
        """Return the query of its columns; unused columns may be null."""
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


class Macro(Struct, frozen=True):
    """A function of SQL.

    Args:
        name: its name.
        parameters: the names of its parameters.
        doc: its result.
        body: an expression, or of a table macro a query.
        is_table: whether it is a table macro, used in `from`.
    """

    name: str
    parameters: tuple[str, ...]
    doc: str
    body: str
    is_table: bool = False

    @property
    def call(self) -> str:
        """Return its call."""
        return f"{self.name}({', '.join(self.parameters)})"


class Catalog(Struct, frozen=True, eq=False, dict=True):
    """Catalog of tables, views and macros of queries.

    Args:
        tables: tables that are read or computed.
        views: views that join them.
        macros: the functions.
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
        """Return the table or view of a short or full name, ignoring case; None if there is none."""
        return self._by_name.get(name.lower())

    def short_name(self, viewable: Viewable) -> str:
        """Return the shortest unambiguous name of a table or view."""
        return (
            viewable.name
            if self.find(viewable.name) is viewable
            else f"{viewable.schema.value}.{viewable.name}"
        )
