"""Names, texts and types as SQL writes them: nothing from a file becomes SQL in another way."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from tracebraid.child_process.worker import Parent, limit_files, limit_memory
from tracebraid.errors import QueryError
from tracebraid.model.column import Column, Kind

if TYPE_CHECKING:
    import polars as pl

_TYPES = {
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.BOOL: "BOOLEAN",
    Kind.NAME: "VARCHAR",
    Kind.JSON: "VARCHAR",
    Kind.TEXT: "VARCHAR",
    Kind.INT3: "BIGINT[]",
    Kind.INTS: "BIGINT[]",
}


def quoted(name: str) -> str:
    """A name."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text."""
    return "'" + text.replace("'", "''") + "'"


def list_of_paths(paths: Iterable[Path]) -> str:
    """A list of texts."""
    return "[" + ", ".join(literal(str(path)) for path in paths) + "]"


def type_of(column: Column) -> str:
    """The type of a column."""
    return _TYPES[column.kind]


def position_at(query: str, offset: int) -> str:
    """Return the line and column, from 1, of a byte offset; "" if outside the text."""
    data = query.encode("utf-8", "surrogatepass")
    if not 0 <= offset <= len(data):
        return ""
    before = data[:offset].decode("utf-8", "ignore")
    return position_of(before.count("\n") + 1, len(before) - before.rfind("\n"))


def position_of(line: int, column: int) -> str:
    """A line and column, from 1, as a text."""
    return f"line {line}, column {column}"


_KIND = re.compile(r"^(?:got external error: )?(?:[A-Z][\w -]* (?:Error|Exception): )?")
"""Engine's name of an error kind."""
_LOCATION = re.compile(r"\n+LINE (\d+): ([^\n]*)\n( *)\^[^\n]*", re.S)
_SUGGESTION = re.compile(r"\s*\n\s*(Did you mean|Candidate \w+:|Either|Possible solutions|You might)", re.S)
_CUT = "..."
"""Marks the ends of a long line that the engine truncates."""
_CANDIDATES = 4
"""Maximum lines of a suggestion: a function may have dozens of forms."""
_ADVICE = "Correct it there"


def query_error(message: str, query: str, lines_before: int = 0) -> QueryError:
    """Convert an error of DuckDB."""
    where = ""
    located = _LOCATION.search(message)
    if located:
        message = message[: located.start()]
        where = _where(
            query, int(located[1]) - lines_before, located[2], len(located[3]) - len(f"LINE {located[1]}: ")
        )
    problem, _, rest = _split(_KIND.sub("", message).strip())
    return QueryError(problem, _advice(rest), where)


def _where(query: str, line: int, excerpt: str, before: int) -> str:
    """Return the position of a character offset within an excerpt; "" if not found."""
    lines = query.split("\n")
    if not 0 < line <= len(lines):
        return ""
    starts_cut = excerpt.startswith(_CUT)
    bare = excerpt[len(_CUT) * starts_cut :].removesuffix(_CUT)
    at = lines[line - 1].find(bare)
    if at < 0 or (at > 0 and not starts_cut):
        return ""
    return position_of(line, at + before - len(_CUT) * starts_cut + 1)


def _split(message: str) -> tuple[str, str, str]:
    """Split an error into the problem and the engine's suggestion."""
    found = _SUGGESTION.search(message)
    if found is None:
        return _in_a_line(message), "", ""
    return _in_a_line(message[: found.start()]), "", message[found.start() :].strip()


def _advice(rest: str) -> str:
    lines = [line.strip() for line in rest.split("\n") if line.strip()]
    kept = lines[: 1 + _CANDIDATES]
    more = [_CUT] if len(lines) > len(kept) else []
    return _in_a_line(" ".join([*kept[:1], ", ".join(kept[1:] + more)])) or _ADVICE


def _in_a_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".!")


DONE = "done"
WRONG = "wrong"
NO_MEMORY = "no-memory"
FAILED = "failed"
"""First byte of a reply: a value follows, the parts of a `QueryError`, nothing, or a traceback."""

_MIB = 2**20
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    # Else a name in a query could mean a variable of the Python program.
    "python_enable_replacements": "false",
}
_SETTINGS = (
    # Else these are the machine's, and the same query has other answers elsewhere.
    "TimeZone = 'UTC'",
    "Calendar = 'gregorian'",
    "enable_external_access = false",
)
_EXPLAIN = "EXPLAIN\n"
"""Prefix that binds a query without running it. Its own line preserves the columns of errors."""
_RESULTS = "tracebraid_result"
_RESULT = f"{_RESULTS}.answer"
"""Database for the result, and its only table. It is a file: rows go there as they come, and no memory limit counts
them."""
_OVERHEAD_MIB = 384
_OVERHEAD_OF_THREAD_MIB = 16
"""Memory of the process beyond the engine's own count: polars, a slice of the result and what writes it (250 MiB were
measured), and for each thread its stack of 8 MiB and as much of vectors."""
_DISK_FULL = tuple(os.strerror(number) for number in (errno.EFBIG, errno.ENOSPC))
"""Part of errors where the temporary space is used up."""
_FIRST_ROWS = 1024
_ROWS_GROW = 8
_SLICE_BYTES = 16 * _MIB
_SLICE_VALUES = 1 << 18
"""Slices of the result: the first has few rows, later ones a target size in bytes by the previous slice, with a
limit on
more values: as JSON each is an object of Python, however few bits it has here."""


def serve(replies_fd: str, folder: str, memory_mib: str) -> None:
    """Answer requests in a child."""
    parent = Parent(replies_fd, folder)
    sys.excepthook = _Failure(parent)
    engine = _Engine(int(memory_mib))
    more_mib = int(memory_mib) + _OVERHEAD_MIB + _OVERHEAD_OF_THREAD_MIB * (os.cpu_count() or 1)
    limit_memory(_data_bytes() + more_mib * _MIB)
    while True:
        name, *arguments = msgspec.msgpack.decode(parent.receive())
        parent.reply(msgspec.msgpack.encode(_reply(getattr(engine, name), arguments)))
        if name == "check":
            # The parent reads traces now: polars, which rows are made with, is loaded meanwhile.
            import tracebraid.queries.results  # noqa: F401


class _Failure:
    """Sends an unexpected error before the process ends."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Handle an exception as `sys.excepthook`."""
        lines = traceback.format_exception(kind, error, trace)
        self._parent.reply(msgspec.msgpack.encode((FAILED, "".join(lines))))


def _data_bytes() -> int:
    """Memory of this process, as `RLIMIT_DATA` counts it; 0 if the system does not say."""
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no file of anybody
        return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _reply(work: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
    import duckdb

    try:
        return DONE, work(*arguments)
    except QueryError as error:
        return WRONG, error.problem, error.advice, error.where
    except (MemoryError, duckdb.OutOfMemoryException):
        return (NO_MEMORY,)
    except (OSError, duckdb.Error) as error:
        if _is_full(error):
            return (NO_MEMORY,)
        raise


def _is_full(error: Exception) -> bool:
    """Return whether an error says that the temporary space is used up."""
    return any(reason in str(error) for reason in _DISK_FULL)


class _Engine:
    """Handler of requests: each public method is one."""

    def __init__(self, memory_mib: int) -> None:
        import duckdb

        self._connect = duckdb.connect
        self._connection: Any = None
        self._memory_mib = memory_mib
        self._slices: Iterator[bytes] = iter(())

    def open(self, spill_mib: int, scratch: str, folders: str) -> None:
        """Begin with an empty database."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._connect(":memory:", config=_CONFIG)
        Path(scratch).mkdir(parents=True, exist_ok=True)
        limit_files(spill_mib * _MIB)
        result = Path(scratch) / "result.duckdb"
        result.unlink(missing_ok=True)
        self._rows(f"ATTACH {literal(str(result))} AS {_RESULTS}")
        for setting in (
            f"memory_limit = '{self._memory_mib}MiB'",
            f"max_temp_directory_size = '{spill_mib}MiB'",
            f"temp_directory = {literal(str(Path(scratch) / 'spilled'))}",
            f"allowed_directories = {folders}",
            *_SETTINGS,
        ):
            self._rows(f"SET {setting}")

    def define(self, statements: Sequence[str]) -> None:
        """Define views and macros, and lock the settings."""
        for statement in statements:
            with _errors(statement):
                self._rows(statement)
        self._rows("SET lock_configuration = true")

    def has_function(self, name: str) -> bool:
        """Return whether the engine has a function of a name."""
        return bool(
            self._rows("SELECT 1 FROM duckdb_functions() WHERE lower(function_name) = ? LIMIT 1", [name])
        )

    def tree(self, query: str) -> str:
        """The syntax tree of a query, as `json_serialize_sql` has it."""
        with _errors(query):
            rows = self._rows("SELECT json_serialize_sql(?::VARCHAR)", [query])
        tree = msgspec.json.decode(rows[0][0])
        if not tree["error"]:
            return str(rows[0][0])
        if tree["error_type"] != "parser":
            raise QueryError(
                "this is not a read-only query", "Give one that begins with select, with or from"
            )
        where = position_at(query, int(tree["position"])) if "position" in tree else ""
        raise QueryError(tree["error_message"], "Correct it there", where)

    def check(self, query: str) -> None:
        """Bind a query, and do not run it."""
        with _errors(query, lines_before=1):
            self._rows(_EXPLAIN + query)

    def run(self, query: str, limit: int | None) -> None:
        """Run a query; its rows become a table, which is written to a file as they come."""
        from tracebraid.queries.results import unreadable_type

        with _errors(query):
            relation = self._connection.sql(query)
            names = _distinct(relation.columns)
            for name, kind in zip(names, relation.types, strict=True):
                if unreadable_type(str(kind)):
                    raise QueryError(
                        f"column {name} is of type {kind}",
                        "Cast it, as in column::varchar or epoch(column)",
                    )
            columns = ", ".join(f"#{number} AS {quoted(name)}" for number, name in enumerate(names, 1))
            relation = relation.project(columns)
            self._connection.execute(f"DROP TABLE IF EXISTS {_RESULT}")
            (relation if limit is None else relation.limit(limit)).create(_RESULT)
            self._slices = self._sliced()

    def next(self) -> bytes | None:
        """The next rows of the result, as an Arrow file; the first have a schema if not rows; None: that was all."""
        with _errors(""):
            return next(self._slices, None)

    def _sliced(self) -> Iterator[bytes]:
        from tracebraid.queries.results import frame_of, plain_types

        schema = frame_of(self._connection.sql(f"FROM {_RESULT} LIMIT 0")).schema
        types = plain_types(schema, self._is_int64)
        most_rows = max(1, _SLICE_VALUES // len(schema))
        ((height,),) = self._rows(f"SELECT count(*) FROM {_RESULT}")
        start, rows = 0, _FIRST_ROWS
        while start < height or start == 0:
            where = f"rowid >= {start} AND rowid < {start + rows}"
            relation = self._connection.sql(f"FROM {_RESULT} WHERE {where}")
            frame = frame_of(relation).cast(types)
            yield arrow_file(frame)
            start += rows
            fitting = _SLICE_BYTES * frame.height // max(1, int(frame.estimated_size()))
            rows = max(1, min(fitting, rows * _ROWS_GROW, most_rows))

    def _is_int64(self, column: str) -> bool:
        """Return whether all values of a column of whole numbers fit into 64 bits."""
        fits = f"bool_and({quoted(column)} BETWEEN {-(2**63)} AND {2**63 - 1})"
        ((whole,),) = self._rows(f"SELECT coalesce({fits}, true) FROM {_RESULT}")
        return bool(whole)

    def _rows(self, *words: Any) -> list[Any]:
        found: list[Any] = self._connection.execute(*words).fetchall()
        return found


@contextmanager
def _errors(query: str, lines_before: int = 0) -> Iterator[None]:
    """Convert DuckDB's errors of the block, except out of memory or temporary space."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        if _is_full(error):
            raise MemoryError from error
        raise query_error(str(error), query, lines_before) from None


def arrow_file(frame: pl.DataFrame) -> bytes:
    """Return a frame as an Arrow file."""
    buffer = io.BytesIO()
    try:
        frame.write_ipc(buffer)
    except OSError as error:
        # It writes to memory alone.
        raise MemoryError from error
    return buffer.getvalue()


def _distinct(names: list[str]) -> list[str]:
    """Make column names unique by appending numbers."""
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
