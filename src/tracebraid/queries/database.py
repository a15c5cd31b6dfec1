"""Limits of a query: memory, disk, and folders of files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from msgspec import Struct

from tracebraid.child_process.worker import Worker, signal_name
from tracebraid.errors import EngineError, QueryError
from tracebraid.extras import Extra, require
from tracebraid.queries.catalog import Catalog, Macro, SourceTable, SqlSchema, View, Viewable
from tracebraid.queries.engine import DONE, NO_MEMORY, WRONG, list_of_paths, literal, quoted, type_of
from tracebraid.queries.statement import Named, Statement, named_by, refuse_functions, statement_of

QUERY_MEMORY_BYTES = 4 * 2**30
"""Half of a small laptop's memory."""
_SPILL_BYTES = 64 * 2**30
"""Default limit of spilled data: 16 times the memory."""


class QueryLimits(Struct, frozen=True):
    """Resource limits of a query.

    Args:
        memory_bytes: memory of the engine; its process may take some more for its libraries.
        spill_bytes: temporary files, in a folder that is deleted after the query.
        folders: folders whose files it may read with `read_csv`, `read_json`, `read_parquet` and `read_text`.
    """

    memory_bytes: int = QUERY_MEMORY_BYTES
    spill_bytes: int = _SPILL_BYTES
    folders: tuple[Path, ...] = ()


_SERVE = "tracebraid.queries.engine:serve"
_MIB = 2**20
_AT_LEAST_MIB = 1


@contextmanager
def database(limits: QueryLimits) -> Iterator[Database]:
    """Start the process of a database; it is killed when the block ends."""
    require(Extra.SQL)
    memory_mib = max(_AT_LEAST_MIB, limits.memory_bytes // _MIB)
    try:
        # Libraries that run out of memory say so there. The slices of a result need no threads, whose stacks count as
        # memory.
        worker = Worker.start(_SERVE, str(memory_mib), threads=1, quiet=True)
    except OSError as error:
        problem = f"no process for the query can be started ({error.strerror or error})"
        raise EngineError(f"{problem}; free some memory or processes, and try again") from None
    try:
        yield Database(worker, limits)
    finally:
        worker.close()


class Database:
    """Handle of a database process. Its methods wait for the process, and raise Ctrl-C meanwhile."""

    def __init__(self, worker: Worker, limits: QueryLimits) -> None:
        self._worker, self._limits = worker, limits

    def open(self, scratch: Path, readable: Iterable[Path]) -> None:
        """Start again with an empty database."""
        folders = list_of_paths(path.resolve() for path in (*readable, *self._limits.folders))
        spill_mib = max(_AT_LEAST_MIB, self._limits.spill_bytes // _MIB)
        self._ask("open", spill_mib, str(scratch.absolute()), folders)

    def define(self, statements: Iterable[str]) -> None:
        """Define views and macros, and lock the settings."""
        self._ask("define", list(statements))

    def has_function(self, name: str) -> bool:
        """Return whether the engine has a function of a name, in lower case."""
        return bool(self._ask("has_function", name))

    def tree(self, query: str) -> Any:
        """The syntax tree of a query, as DuckDB's `json_serialize_sql` has it."""
        if not query.isascii() and any("\ud800" <= letter <= "\udfff" for letter in query):
            raise QueryError("it contains a byte that is not text", "Write the query in UTF-8")
        return msgspec.json.decode(self._ask("tree", query))

    def check(self, query: str) -> None:
        """Bind a query without running it."""
        self._ask("check", query)

    def answer(self, query: str, limit: int | None = None) -> Iterator[pl.DataFrame]:
        """Run a query; yield its rows in slices, at least one."""
        self._ask("run", query, limit)
        return self._slices()

    def _slices(self) -> Iterator[pl.DataFrame]:
        while (data := self._ask("next")) is not None:
            yield pl.read_ipc(data)

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Send a request; return the value of the reply."""
        with suppress(BrokenPipeError):
            self._worker.send(msgspec.msgpack.encode((name, *arguments)))
        reply = self._worker.receive()
        if reply is None:
            raise self._ended()
        kind, *values = msgspec.msgpack.decode(reply)
        if kind == DONE:
            return values[0]
        if kind == WRONG:
            raise QueryError(*values)
        if kind == NO_MEMORY:
            raise self._no_memory()
        raise EngineError(f"the process of the query failed\n{values[0]}")

    def _ended(self) -> QueryError | EngineError:
        code = self._worker.ended()
        if code < 0:
            # A library that is refused memory ends the process, in one of several ways.
            return self._no_memory(f" (its process ended by {signal_name(-code)})")
        return EngineError(f"the process of the query ended with exit code {code}")

    def _no_memory(self, how: str = "") -> QueryError:
        mib = self._limits.memory_bytes // _MIB
        return QueryError(
            f"it needs more than the {mib} MiB of memory, or the temporary space, that a query may use{how}",
            "Ask for fewer rows or ranks, or allow more with --memory",
        )


_SEARCHED = [schema.value for schema in SqlSchema if schema is not SqlSchema.PER_STEP]
_RANK_IN_NAME = r"rank_([0-9]+)\.parquet$"
"""Pattern of the name of a file with a rank's rows."""


def everything(catalog: Catalog) -> Named:
    """All of a catalog."""
    return Named(
        catalog.tables, {view: view.query() for view in catalog.views}, frozenset(catalog.macros_by_name)
    )


def definitions(
    catalog: Catalog, named: Named, files: Mapping[SourceTable, Sequence[Path]] | None
) -> Iterator[str]:
    """The statements that define what a query needs."""
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


class CheckedQuery(Struct, frozen=True, eq=False):
    """A valid query and its dependencies.

    Args:
        text: the query.
        catalog: the catalog.
        named: the tables, views and macros that it names.
    """

    text: str
    catalog: Catalog
    named: Named


def check(
    engine: Database, query: str, catalog: Catalog, scratch: Path, *, with_files: bool = False
) -> CheckedQuery:
    """Validate a query and determine its dependencies, without reading data."""
    engine.open(scratch, ())
    statement = statement_of(engine.tree(query), query)
    refuse_functions(statement, catalog, query, engine.has_function, with_files=with_files)
    found = named_by(statement, catalog, query, with_files=with_files)
    named = _with_all_below(engine, catalog, statement, found)
    engine.define(definitions(catalog, everything(catalog), None))
    engine.check(query)
    return CheckedQuery(query, catalog, named)


def answer(
    engine: Database,
    checked: CheckedQuery,
    files: Mapping[SourceTable, Sequence[Path]],
    scratch: Path,
    limit: int | None = None,
) -> Iterator[pl.DataFrame]:
    """The rows of a query, in slices."""
    engine.open(scratch, sorted({file.parent for of_table in files.values() for file in of_table}))
    engine.define(definitions(checked.catalog, checked.named, files))
    return engine.answer(checked.text, limit)


def _with_all_below(
    engine: Database, catalog: Catalog, statement: Statement, found: Sequence[Viewable]
) -> Named:
    """Return the named tables, and those that their views and macros name in turn.

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
    """Return the query of a view or macro; "" for a table."""
    if isinstance(used, SourceTable):
        return ""
    if isinstance(used, View):
        return used.query(words)
    return used.body if used.is_table else f"SELECT {used.body}"
