"""The tables of an SQLite file that Nsight Systems exported: opened, and read by columns that may be missing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path

import polars as pl
from msgspec import Struct, field

from tracebraid.errors import InputError, NotATraceError
from tracebraid.filesystem.compression import RATIO_AT_MOST, unpacked_at_most_bytes
from tracebraid.filesystem.paths import reading
from tracebraid.model.finding import Finding, FindingCase, Loss
from tracebraid.model.finding_code import FindingCode

EXPORT_AGAIN = "Export it again: nsys export --type sqlite FILE.nsys-rep"

_CUPTI = "CUPTI_ACTIVITY_KIND_"
EVENT_TABLES = (
    *(_CUPTI + kind for kind in ("RUNTIME", "KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE", "SYNCHRONIZATION")),
    "NVTX_EVENTS",
)
"""Tables whose rows become events; a file without any is not a trace."""

_STRINGS = "StringIds"
_ROWS_AT_ONCE = 1 << 16
"""Rows that are fetched as Python objects at once."""
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
"""Tables with own rows: views and virtual tables would run code from the file."""
_DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""Errors of sqlite3 on a damaged database; the last if its own message quotes undecodable text."""


class Export(Struct, frozen=True, dict=True):
    """An opened export.

    Args:
        path: the file, as the caller named it.
        connection: the database, read-only.
        columns: the columns of each table that exists.
        findings: filled while reading: what cannot be read.
    """

    path: str
    connection: sqlite3.Connection
    columns: dict[str, frozenset[str]]
    findings: list[Finding] = field(default_factory=list)

    @cached_property
    def strings(self) -> pl.DataFrame:
        """The table of all texts that other tables name by number: id and value."""
        return rows_of(self, _STRINGS, ["id"], ["value"]).unique("id", keep="first", maintain_order=True)


@contextmanager
def open_export(path: str | Path) -> Iterator[Export]:
    """Open an export for reading, and close it after the block."""
    name = str(path)
    try:
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    except _DAMAGE as error:
        raise _unreadable(name, error) from None
    with closing(connection):
        with reading(path):
            size_bytes = Path(path).stat().st_size
        connection.text_factory = _Texts(name, unpacked_at_most_bytes(size_bytes)).decoded
        try:
            columns = _columns(connection)
            whole_bytes = _pragma(connection, "page_size") * _pragma(connection, "page_count")
        except _DAMAGE as error:
            raise _unreadable(name, error) from None
        if size_bytes < whole_bytes:
            # SQLite itself would read zeros for what is missing of the last page.
            raise InputError(name, "this SQLite database is truncated", EXPORT_AGAIN)
        _refuse_without_events(name, columns)
        yield Export(name, connection, columns)


class _Texts(Struct):
    """The texts of a database: pages that many rows share would give more of them than fit into memory.

    Args:
        path: of the database.
        left_bytes: remaining bytes that may be read.
    """

    path: str
    left_bytes: int

    def decoded(self, raw: bytes) -> str:
        """A text."""
        self.left_bytes -= len(raw)
        if self.left_bytes < 0:
            problem = f"the texts in this SQLite database take more than {RATIO_AT_MOST} times its size"
            raise InputError(self.path, problem, EXPORT_AGAIN)
        return raw.decode("utf-8", "replace")


def rows_of(export: Export, table: str, ints: Sequence[str], texts: Sequence[str] = ()) -> pl.DataFrame:
    """Some columns of a table, in the order of the file; a column or table that is not there gives nulls or no rows.

    SQLite keeps whatever was written into a cell: an integer or text of another type counts as missing. Rows behind
    a damaged page are lost, with a finding.
    """
    schema: dict[str, pl.DataType] = {
        **dict.fromkeys(ints, pl.Int64()),
        **dict.fromkeys(texts, pl.String()),
    }
    existing = export.columns.get(table)
    if existing is None:
        return pl.DataFrame(schema=schema)
    picks = [_pick(name, "integer", existing) for name in ints] + [
        _pick(name, "text", existing) for name in texts
    ]
    chunks = [pl.DataFrame(schema=schema)]
    try:
        cursor = export.connection.execute(f'SELECT {", ".join(picks)} FROM "{table}"')
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            chunks.append(pl.DataFrame(rows, schema=schema, orient="row"))
    except _DAMAGE as error:
        details = {"case": FindingCase.TABLE_DAMAGED, "error": str(error)}
        export.findings.append(
            Finding(FindingCode.EVENT_UNREADABLE, export.path, table, loss=Loss(), details=details)
        )
    return pl.concat(chunks)


def with_string(export: Export, rows: pl.DataFrame, key: str, name: str) -> pl.DataFrame:
    """Add the text that a column's string ids stand for, as the column `name`; null if there is none."""
    strings = export.strings.rename({"id": key, "value": name})
    return rows.join(strings, on=key, how="left", maintain_order="left")


def _columns(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    names = [row[0] for row in connection.execute(_TABLES)]
    quoted = {name: name.replace('"', '""') for name in names}
    return {
        name: frozenset(row[1] for row in connection.execute(f'PRAGMA table_info("{quoted[name]}")'))
        for name in names
        if not name.startswith("sqlite_")
    }


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _pick(column: str, kind: str, have: frozenset[str]) -> str:
    if column not in have:
        return "NULL"
    return f'CASE typeof("{column}") WHEN \'{kind}\' THEN "{column}" END'


def _refuse_without_events(path: str, columns: dict[str, frozenset[str]]) -> None:
    if any(table in columns for table in EVENT_TABLES):
        return
    if _STRINGS in columns:
        raise InputError(
            path,
            "this export of Nsight Systems has neither CUDA nor NVTX events",
            "Record with: nsys profile --trace cuda,nvtx COMMAND",
        )
    raise NotATraceError(
        path,
        "this SQLite database is not an export of Nsight Systems"
        if columns
        else "this SQLite database is empty",
        "Expected what `nsys export --type sqlite` writes, with tables such as CUPTI_ACTIVITY_KIND_KERNEL",
    )


def _unreadable(path: str, error: Exception) -> InputError:
    return InputError(path, f"this SQLite database cannot be read ({error})", EXPORT_AGAIN)
