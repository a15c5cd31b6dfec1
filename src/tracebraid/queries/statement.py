"""What a query names, from DuckDB's own syntax tree; what is no plain query is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from tracebraid.errors import QueryError
from tracebraid.queries.catalog import Catalog, SourceTable, View, Viewable
from tracebraid.queries.positions import position_at

__all__ = ["Named", "Statement", "named_by", "statement_of"]

_QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
"""Kinds of nodes that read; all others write, or are unknown."""
_TABLE_FUNCTIONS = {
    *("unnest", "generate_series", "range", "repeat", "repeat_row"),
    *("json_each", "json_tree"),
}
"""Those that read nothing but their arguments. Others read files, memory, or the engine's own state."""
_FILE_FUNCTIONS = {
    *("read_csv", "read_csv_auto", "read_json", "read_json_auto", "read_json_objects", "read_ndjson"),
    *("read_ndjson_auto", "read_parquet", "parquet_scan", "read_text"),
}
"""Table functions that read files, where these are allowed."""
_STATE_FUNCTIONS = {
    *("getenv", "current_setting", "write_log", "getvariable", "nextval", "currval", "stats"),
    *("current_query", "current_query_id", "current_transaction_id", "current_connection_id", "txid_current"),
    *("json_serialize_plan", "current_schemas", "in_search_path", "setval", "get_block_size", "set_config"),
    *("finalize", "combine", "to_aggregate_state"),
}
"""Functions that read or write what is not in the tables: the environment, settings, the engine's state."""
_STATE_PREFIXES = ("__", "pg_", "duckdb_", "pragma_")
"""Names of functions that are the engine's own, or say something of it."""
_WHOLE_ROWS = {"STAR", "PIVOT", "SHOW_REF"}
"""Kinds of nodes that take the columns that there are."""
_LIKENESS = 0.6
"""How alike a name must be to be suggested, 0 to 1: the default of difflib."""


@dataclass(frozen=True)
class _Use:
    """That a query names something, and where: the number of its bytes before."""

    name: str
    offset: int
    in_from: bool = False


@dataclass(frozen=True)
class Statement:
    """What a query names.

    Args:
        tables: tables and views.
        functions: functions of both kinds.
        own: names that the query itself gives to its parts.
        words: all that could be the name of a column, in lower case; None: it may want every column.
    """

    tables: tuple[_Use, ...]
    functions: tuple[_Use, ...]
    own: frozenset[str]
    words: frozenset[str] | None


@dataclass(frozen=True, eq=False)
class Named:
    """What of a catalog a query needs.

    Args:
        tables: what is read or computed for it.
        views: the query of each that it uses; none uses another.
        macros: the names of those that it uses.
    """

    tables: tuple[SourceTable, ...]
    views: Mapping[View, str]
    macros: frozenset[str]


def statement_of(tree: Any, query: str) -> Statement:
    """What a query names.

    Args:
        tree: what DuckDB's `json_serialize_sql` makes of it, without an error.
        query: its text.

    Raises:
        QueryError: it is not one query, or does something else than to read.
    """
    statements = tree["statements"]
    if len(statements) != 1:
        problem = "there is no query" if not statements else f"these are {len(statements)} queries"
        raise QueryError(problem, "Give one: select ... from ...")
    tables, functions, own = [], [], set()
    for node in _dicts(statements[0]):
        _refuse(node, query)
        kind = _kind(node)
        if kind == "BASE_TABLE":
            tables.append(_Use(_full_name(node), _offset(node)))
        elif kind == "TABLE_FUNCTION":
            functions.append(_Use(node["function"]["function_name"].lower(), _offset(node), in_from=True))
        elif node.get("class") == "FUNCTION":
            functions.append(_Use(node["function_name"].lower(), _offset(node)))
        if "cte_map" in node:
            own |= {entry["key"].lower() for entry in node["cte_map"]["map"]}
        if kind == "RECURSIVE_CTE_NODE":
            own.add(node["cte_name"].lower())
    return Statement(tuple(tables), tuple(functions), frozenset(own), _words(statements[0]))


def _words(tree: Any) -> frozenset[str] | None:
    """All texts of a tree: whatever a query calls a column by is among them; None: it may want every column."""
    words: set[str] = set()
    rows = {"rowid"}
    for node in _dicts(tree):
        if _kind(node) in _WHOLE_ROWS or node.get("ref_type") == "NATURAL":
            return None
        if node.get("column_name_alias"):
            return None
        if _kind(node) == "BASE_TABLE":
            rows |= {node["table_name"].lower(), str(node.get("alias") or "").lower()}
        for value in node.values():
            items = value if isinstance(value, list) else [value]
            words |= {item.lower() for item in items if isinstance(item, str)}
    columns = (node["column_names"] for node in _dicts(tree) if node.get("class") == "COLUMN_REF")
    if any(len(names) == 1 and names[0].lower() in rows for names in columns):
        # The name of a table is its whole row.
        return None
    return frozenset(words)


def _dicts(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of a tree, without recursion: a query may nest deep."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left.extend(node.values())
        elif isinstance(node, list):
            left.extend(node)


def _refuse(node: dict[str, Any], query: str) -> None:
    """Refuse a node that does something else than to read."""
    kind = _kind(node)
    if "cte_map" in node and kind not in _QUERY_NODES:
        raise QueryError("this is no query that only reads", "Give one that begins with select, with or from")
    if kind == "SHOW_REF" and node.get("query") is None:
        # `describe` and `summarize` have a query; what shows the engine's own state has none.
        raise QueryError(
            "show lists what is in the engine", "tracebraid sql PATH --tables lists tables and views"
        )
    if kind == "VALUE_PARAMETER":
        raise QueryError("the query has a parameter", "Write its value", position_at(query, _offset(node)))


def _kind(node: dict[str, Any]) -> str:
    """The kind of a node; "" of a type of values, which has an object there."""
    kind = node.get("type")
    return kind if isinstance(kind, str) else ""


def _full_name(node: dict[str, Any]) -> str:
    parts = (node.get("catalog_name"), node.get("schema_name"), node["table_name"])
    return ".".join(part for part in parts if part).lower()


_NOWHERE = 2**63
"""From here on DuckDB's numbers of bytes mean that the node stands nowhere in the text."""


def _offset(node: dict[str, Any]) -> int:
    offset = node.get("query_location", _NOWHERE)
    return offset if isinstance(offset, int) and offset < _NOWHERE else -1


def named_by(statement: Statement, catalog: Catalog, query: str, *, with_files: bool) -> tuple[Viewable, ...]:
    """The tables and views that a statement names itself.

    Args:
        statement: what it names.
        catalog: what there is.
        query: its text.
        with_files: it may read files.

    Raises:
        QueryError: there is no such table, or a function may not be used.
    """
    for use in statement.functions:
        _check_function(use, catalog, query, with_files)
    found: list[Viewable] = []
    for use in statement.tables:
        viewable = catalog.find(use.name)
        if viewable is not None:
            found.append(viewable)
        elif use.name not in statement.own and not with_files:
            raise _unknown_table(use, catalog, statement, query)
    return tuple(dict.fromkeys(found))


def _check_function(use: _Use, catalog: Catalog, query: str, with_files: bool) -> None:
    where = position_at(query, use.offset)
    if use.in_from and (use.name in _FILE_FUNCTIONS):
        if not with_files:
            raise QueryError(f"{use.name} reads files, and a query may not", _ALLOW, where)
    elif use.in_from and use.name not in _TABLE_FUNCTIONS and use.name not in catalog.macros_by_name:
        allowed = sorted(_TABLE_FUNCTIONS | {macro.name for macro in catalog.macros if macro.is_table})
        near = get_close_matches(use.name, [*allowed, *catalog.names], 3, _LIKENESS)
        advice = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(allowed)}"
        raise QueryError(f"a query may not use {use.name}(...) as a table", advice, where)
    elif use.name in _STATE_FUNCTIONS or use.name.startswith(_STATE_PREFIXES):
        raise QueryError(
            f"a query may not use {use.name}: it answers from tables alone", "Leave it out", where
        )


_ALLOW = "Allow a folder with --allow-files FOLDER, or allow_files=[folder]"


def _unknown_table(use: _Use, catalog: Catalog, statement: Statement, query: str) -> QueryError:
    near = get_close_matches(use.name, [*catalog.names, *statement.own], 3, _LIKENESS)
    near += [name for name in catalog.names if name.endswith(f".{use.name}") and name not in near]
    advice = f"Did you mean {' or '.join(near[:3])}?" if near else "tracebraid sql PATH --tables lists them"
    return QueryError(f"there is no table {use.name}", advice, position_at(query, use.offset))
