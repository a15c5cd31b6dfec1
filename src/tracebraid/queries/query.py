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
from tracebraid.queries.statement import Named, Statement, named_by, statement_of

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
        named = _with_all_below(engine, catalog, statement, found)
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
    engine: Database, catalog: Catalog, statement: Statement, found: Sequence[Viewable]
) -> Named:
    """What is named, and what its views and macros name in turn.

    A macro may want any column of the views that it or the query names.
    """
    macros = _macros(catalog, statement)
    words = None if any(macro.is_table for macro in macros) else statement.words
    texts: dict[Viewable | Macro, str] = {}
    left: list[Viewable | Macro] = [*found, *macros]
    while left:
        used = left.pop()
        if used in texts:
            continue
        texts[used] = _text_of(used, words)
        if texts[used]:
            inner = statement_of(engine.tree(texts[used]), texts[used])
            left += named_by(inner, catalog, texts[used], with_files=False)
            left += _macros(catalog, inner)
    return Named(
        tuple(used for used in texts if isinstance(used, SourceTable)),
        {used: text for used, text in texts.items() if isinstance(used, View)},
        frozenset(used.name for used in texts if isinstance(used, Macro)),
    )


def _macros(catalog: Catalog, statement: Statement) -> list[Macro]:
    functions = {use.name for use in statement.functions}
    return [macro for macro in catalog.macros if macro.name in functions]


def _text_of(used: Viewable | Macro, words: Collection[str] | None) -> str:
    """The query of a view or macro; "": a table has none."""
    if isinstance(used, SourceTable):
        return ""
    if isinstance(used, View):
        return used.query(words)
    return used.body if used.is_table else f"SELECT {used.body}"
