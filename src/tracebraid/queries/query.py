"""A query, answered: checked before anything is read, then run over the files of what it names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracebraid.queries.catalog import Catalog, Macro, SourceTable, View, Viewable
from tracebraid.queries.database import Database, database
from tracebraid.queries.definitions import definitions, everything
from tracebraid.queries.limits import QueryLimits
from tracebraid.queries.statement import Named, named_by, statement_of

__all__ = ["CheckedQuery", "answer", "check"]


@dataclass(frozen=True, eq=False)
class CheckedQuery:
    """A query that is right, and what it needs.

    Args:
        text: the query.
        catalog: all that it could name.
        named: what it does name.
        limits: what it may use.
    """

    text: str
    catalog: Catalog
    named: Named
    limits: QueryLimits


def check(query: str, catalog: Catalog, limits: QueryLimits, scratch: Path) -> CheckedQuery:
    """Whether a query is right, and what it needs; nothing is read.

    Args:
        query: its text.
        catalog: all that it may name.
        limits: what it may use.
        scratch: an empty folder.

    Raises:
        QueryError: it is wrong, or asks for what it may not have.
        MissingLibraryError: duckdb is not installed.
    """
    with database(limits, scratch, ()) as engine:
        statement = statement_of(engine.tree(query), query)
        found = named_by(statement, catalog, query, with_files=bool(limits.folders))
        functions = {use.name for use in statement.functions}
        named = _with_all_below(engine, catalog, found, functions)
        engine.define(definitions(catalog, everything(catalog), None))
        engine.check(query)
    return CheckedQuery(query, catalog, named, limits)


def answer(
    checked: CheckedQuery,
    files: Mapping[SourceTable, Sequence[Path]],
    scratch: Path,
    limit: int | None = None,
) -> pl.DataFrame:
    """The answer of a query.

    Args:
        checked: the query.
        files: the Parquet files of each table that it needs.
        scratch: a folder for what does not fit into memory.
        limit: the first rows alone; None: all.

    Raises:
        QueryError: it fails, or needs too much.
    """
    folders = {file.parent for of_table in files.values() for file in of_table}
    with database(checked.limits, scratch, sorted(folders)) as engine:
        engine.define(definitions(checked.catalog, checked.named, files))
        return engine.answer(checked.text, limit)


def _with_all_below(
    engine: Database, catalog: Catalog, found: Sequence[Viewable], functions: Collection[str]
) -> Named:
    """What is named, and what its views and macros name in turn."""
    seen: dict[Viewable | Macro, None] = {}
    left: list[Viewable | Macro] = [*found, *_macros(catalog, functions)]
    while left:
        used = left.pop()
        if used in seen:
            continue
        seen[used] = None
        text = _text_of(used)
        if text is not None:
            inner = statement_of(engine.tree(text), text)
            left += named_by(inner, catalog, text, with_files=False)
            left += _macros(catalog, {use.name for use in inner.functions})
    return Named(
        tuple(used for used in seen if isinstance(used, SourceTable)),
        tuple(used for used in seen if isinstance(used, View)),
        frozenset(used.name for used in seen if isinstance(used, Macro)),
    )


def _macros(catalog: Catalog, functions: Collection[str]) -> list[Macro]:
    return [macro for macro in catalog.macros if macro.name in functions]


def _text_of(used: Viewable | Macro) -> str | None:
    """The query of a view or macro; None: a table has none."""
    if isinstance(used, SourceTable):
        return None
    if isinstance(used, View):
        return used.query
    return used.body if used.is_table else f"SELECT {used.body}"
