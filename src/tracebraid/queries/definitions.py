"""What is defined in the engine: a view for each table, the views that join them, and macros."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tracebraid.queries.catalog import Catalog, Macro, SourceTable, SqlSchema
from tracebraid.queries.statement import Named
from tracebraid.queries.text import list_of_paths, literal, quoted, type_of

__all__ = ["definitions", "everything"]

_SEARCHED = [schema.value for schema in SqlSchema if schema is not SqlSchema.PER_STEP]
_RANK_IN_NAME = r"rank_([0-9]+)\.parquet$"
"""Of the name of a file that holds the rows of a rank."""


def everything(catalog: Catalog) -> Named:
    """All of a catalog."""
    return Named(
        catalog.tables, {view: view.query() for view in catalog.views}, frozenset(catalog.macros_by_name)
    )


def definitions(
    catalog: Catalog, named: Named, files: Mapping[SourceTable, Sequence[Path]] | None
) -> Iterator[str]:
    """The statements that define what a query needs.

    Args:
        catalog: all that there is.
        named: what of it is defined.
        files: the Parquet files of each table; None: all tables are empty.
    """
    for schema in SqlSchema:
        if schema is not SqlSchema.MAIN:
            yield f"CREATE SCHEMA {schema.value}"
    yield f"SET search_path = {literal(','.join(_SEARCHED))}"
    for table in named.tables:
        name = f"{table.schema.value}.{quoted(table.name)}"
        yield f"CREATE VIEW {name} AS {_select(table, () if files is None else files[table])}"
    for view, query in named.views.items():
        yield f"CREATE VIEW main.{quoted(view.name)} AS {query}"
    for macro in catalog.macros:
        if macro.name in named.macros:
            yield _macro(macro)


def _select(table: SourceTable, files: Sequence[Path]) -> str:
    if not files:
        empty = ", ".join(f"NULL::{type_of(column)} AS {quoted(column.name)}" for column in table.columns)
        return f"SELECT {empty} WHERE false"
    in_file = table.columns[1:] if table.of_rank else table.columns
    columns = [f"{quoted(column.name)}::{type_of(column)} AS {quoted(column.name)}" for column in in_file]
    if table.of_rank:
        # Of the file's name alone, so that a condition on `rank` leaves out whole files.
        columns.insert(0, f"regexp_extract(filename, {literal(_RANK_IN_NAME)}, 1)::BIGINT AS rank")
    options = "filename = true, hive_partitioning = false"
    return f"SELECT {', '.join(columns)} FROM read_parquet({list_of_paths(files)}, {options})"


def _macro(macro: Macro) -> str:
    as_what = "AS TABLE" if macro.is_table else "AS"
    return f"CREATE MACRO main.{macro.name}({', '.join(macro.parameters)}) {as_what} {macro.body}"
