"""The one module that knows DuckDB: a database in memory that reads what it is given, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import polars as pl

from tracebraid.errors import MissingLibraryError, QueryError
from tracebraid.queries.limits import QueryLimits
from tracebraid.queries.messages import query_error
from tracebraid.queries.positions import position_at
from tracebraid.queries.results import plain_columns, unreadable_type
from tracebraid.queries.text import list_of_paths, literal, quoted

__all__ = ["Database", "database"]

_T = TypeVar("_T")

_MIB = 2**20
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    # Else a name in a query could mean a variable of the Python program.
    "python_enable_replacements": "false",
}
_SIGNALS_EVERY_S = 0.1
"""Between two looks at signals while a query runs."""
_EXPLAIN = "EXPLAIN\n"
"""Before a query: it is bound, and not run. The line of its own keeps the columns of errors."""


@contextmanager
def database(limits: QueryLimits, scratch: Path, readable: Iterable[Path]) -> Iterator[Database]:
    """A database in memory.

    Args:
        limits: what a query may use.
        scratch: a folder for what does not fit into memory.
        readable: folders that hold tables.

    Raises:
        MissingLibraryError: duckdb is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingLibraryError(
            "SQL needs duckdb, which is not installed here. Install it with: pip install 'tracebraid[sql]'"
        ) from error
    connection = duckdb.connect(":memory:", config=_CONFIG)
    try:
        folders = list_of_paths(path.resolve() for path in (*readable, *limits.folders))
        settings = (
            f"SET memory_limit = '{max(1, limits.memory_bytes // _MIB)}MiB'",
            f"SET max_temp_directory_size = '{max(1, limits.spill_bytes // _MIB)}MiB'",
            f"SET temp_directory = {literal(str(scratch))}",
            f"SET allowed_directories = {folders}",
            "SET enable_external_access = false",
        )
        _interruptibly(connection, lambda: [connection.execute(statement) for statement in settings])
        yield Database(connection, limits)
    finally:
        connection.close()


class Database:
    """What `database` makes. After `define` its settings cannot be changed."""

    def __init__(self, connection: Any, limits: QueryLimits) -> None:
        self._connection, self._limits = connection, limits

    def define(self, statements: Iterable[str]) -> None:
        """Define views and macros, and lock the settings.

        Raises:
            QueryError: a file that a view reads is none that can be read.
        """
        _interruptibly(self._connection, partial(self._define, statements))

    def _define(self, statements: Iterable[str]) -> None:
        for statement in statements:
            with self._errors(statement):
                self._connection.execute(statement)
        self._connection.execute("SET lock_configuration = true")

    def tree(self, query: str) -> Any:
        """The syntax tree of a query, as DuckDB's `json_serialize_sql` has it.

        Raises:
            QueryError: it is no SQL, or no query.
        """
        if not query.isascii() and any("\ud800" <= letter <= "\udfff" for letter in query):
            raise QueryError("it holds a byte that is no text", "Write the query in UTF-8")
        with self._errors(query):
            rows = self._rows("SELECT json_serialize_sql(?::VARCHAR)", [query])
        tree = msgspec.json.decode(rows[0][0])
        if not tree["error"]:
            return tree
        if tree["error_type"] != "parser":
            raise QueryError(
                "this is no query that only reads", "Give one that begins with select, with or from"
            )
        where = position_at(query, int(tree["position"])) if "position" in tree else ""
        raise QueryError(tree["error_message"], "Correct it there", where)

    def check(self, query: str) -> None:
        """Bind a query, and do not run it.

        Raises:
            QueryError: it is wrong.
        """
        with self._errors(query, lines_before=1):
            self._rows(_EXPLAIN + query)

    def _rows(self, *words: Any) -> list[Any]:
        found: list[Any] = _interruptibly(
            self._connection, lambda: self._connection.execute(*words).fetchall()
        )
        return found

    def answer(self, query: str, limit: int | None = None) -> pl.DataFrame:
        """Run a query; Ctrl-C stops it.

        Args:
            query: one that `check` found right.
            limit: the first rows alone; None: all.

        Raises:
            QueryError: it fails, needs too much, or a column is of a type without an equal in polars.
        """
        with self._errors(query):
            return _interruptibly(self._connection, partial(self._answer, query, limit))

    def _answer(self, query: str, limit: int | None) -> pl.DataFrame:
        relation = self._connection.sql(query)
        kinds = [(str(kind), kind.id) for kind in relation.types]
        names = _distinct(relation.columns)
        for name, (text, _) in zip(names, kinds, strict=True):
            if unreadable_type(text):
                raise QueryError(
                    f"column {name} is of type {text}", "Cast it, as in column::varchar or epoch(column)"
                )
        if names != relation.columns:
            relation = relation.project(
                ", ".join(f"#{number} AS {quoted(name)}" for number, name in enumerate(names, 1))
            )
        if limit is not None:
            relation = relation.limit(limit)
        return plain_columns(pl.DataFrame(_Stream(_computed(relation))))

    @contextmanager
    def _errors(self, query: str, lines_before: int = 0) -> Iterator[None]:
        """Convert DuckDB's errors of the block."""
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException:
            mib = self._limits.memory_bytes // _MIB
            raise QueryError(
                f"it needs more than the {mib} MiB of memory, or the temporary space, that a query may use",
                "Ask for fewer rows or ranks, or allow more with --memory",
            ) from None
        except (duckdb.Error, pl.exceptions.ComputeError) as error:
            raise query_error(str(error), query, lines_before) from None


def _computed(relation: Any) -> Any:
    """The rows, computed: while polars takes those of a stream, no signal is looked at."""
    # DuckDB 2 has another name for it.
    return relation.materialize() if hasattr(type(relation), "materialize") else relation.execute()


class _Stream:
    """A result as polars takes it. polars keeps the classes that it meets, and so all of DuckDB, to the very end."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, as Arrow's C interface has them."""
        return self._relation.__arrow_c_stream__(requested_schema)


def _distinct(names: list[str]) -> list[str]:
    """Names of columns, of which those that come again have a number."""
    seen: set[str] = set()
    found = []
    for name in names:
        number, own = 1, name
        while own in seen:
            number += 1
            own = f"{name}_{number}"
        seen.add(own)
        found.append(own)
    return found


def _interruptibly(connection: Any, work: Callable[[], _T]) -> _T:
    """Work in a thread, while this one waits for signals.

    DuckDB does not look at them at every moment of a query, and where it does, Ctrl-C becomes an error of its own.
    """
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(work)
        try:
            while not wait([running], _SIGNALS_EVERY_S).done:
                pass
        except KeyboardInterrupt:
            while not wait([running], _SIGNALS_EVERY_S).done:
                connection.interrupt()
            raise
        return running.result()
