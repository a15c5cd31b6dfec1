"""Changes of SQLite databases: values, columns, tables, what stands in their place, and pages."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

__all__ = ["changed_database"]

_VALUES = (
    "NULL", "0", "-1", "9223372036854775807", "-9223372036854775808", "4294967295", "1 << 60", "1.5", "9e999",
    "-9e999", "'text'", "''", "x'ff00fe'", "zeroblob(100000)", "char(27) || '[31m'", "char(8238)", "char(0) || 'a'",
    "CAST(x'fffe' AS TEXT)", "'=1+1'", "printf('%.*c', 50000, 'x')", "'aten::mm, seq = 99999999999999999999'",
    "'aten::mm, op_id = 999999999999999999, sizes = [[], [1, 2]]'", "'a, input_op_ids = [(1,2'",
)  # fmt: skip
_NAMES = ("odd", "\x1b[31m", "\u202e", 'a"b', "", "x" * 5000, "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS")
_PAGE_BYTES = 4096


def changed_database(data: bytes, rng: random.Random) -> bytes:
    """A database with one change; its bytes alone are changed where no statement can change it."""
    if rng.random() < 0.3:
        return _damaged(data, rng)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "database"
        path.write_bytes(data)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.create_function("misled", 0, lambda: 1)
            try:
                _change(database, rng)
            except (sqlite3.Error, sqlite3.Warning, UnicodeError, ValueError):
                return _damaged(data, rng)
        return path.read_bytes()


def _change(database: sqlite3.Connection, rng: random.Random) -> None:
    # Writes to the table of tables are refused otherwise.
    database.execute("PRAGMA writable_schema = ON")
    database.execute("PRAGMA trusted_schema = OFF")
    tables = [
        row[0]
        for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    if not tables:
        return
    table = rng.choice(tables)
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({_quoted(table)})")]
    if columns:
        rng.choice(_WAYS)(database, rng, table, columns)


def _value(database: sqlite3.Connection, rng: random.Random, table: str, columns: Sequence[str]) -> None:
    """An odd value in a column, of all rows or of some."""
    rows = rng.choice(("", " WHERE rowid % 3 = 1", " WHERE rowid = 1"))
    value = rng.choice((*_VALUES, _quoted(rng.choice(columns)), "rowid % 4", "random()"))
    database.execute(f"UPDATE {_quoted(table)} SET {_quoted(rng.choice(columns))} = {value}{rows}")


def _rows(database: sqlite3.Connection, rng: random.Random, table: str, columns: Sequence[str]) -> None:
    """Rows are missing, or there twice or more often."""
    if rng.random() < 0.5:
        database.execute(f"DELETE FROM {_quoted(table)}{rng.choice(('', ' WHERE rowid % 2'))}")
    for _ in range(rng.choice((1, 1, 6))):
        database.execute(f"INSERT INTO {_quoted(table)} SELECT * FROM {_quoted(table)} LIMIT 2000")


def _column(database: sqlite3.Connection, rng: random.Random, table: str, columns: Sequence[str]) -> None:
    """A column is missing, called otherwise, or there is one more."""
    column = _quoted(rng.choice(columns))
    way = rng.randrange(3)
    if way == 0:
        database.execute(f"ALTER TABLE {_quoted(table)} DROP COLUMN {column}")
    elif way == 1:
        database.execute(
            f"ALTER TABLE {_quoted(table)} RENAME COLUMN {column} TO {_quoted(rng.choice(_NAMES))}"
        )
    else:
        new = rng.choice(("start", "end", "text", "eventType", "deprecatedSyncType", *_NAMES))
        database.execute(f"ALTER TABLE {_quoted(table)} ADD COLUMN {_quoted(new)}")


def _table(database: sqlite3.Connection, rng: random.Random, table: str, columns: Sequence[str]) -> None:
    """A table is missing or called otherwise; in its place stands a view, one that has no end, or a virtual table."""
    moved, place = _quoted("moved"), _quoted(table)
    way = rng.randrange(6)
    if way == 0:
        database.execute(f"DROP TABLE {place}")
        return
    database.execute(f"ALTER TABLE {place} RENAME TO {moved if way else _quoted(rng.choice(_NAMES))}")
    listed = ", ".join(map(_quoted, columns))
    if way == 1:
        database.execute(f"CREATE VIEW {place} AS SELECT * FROM {moved}")
    elif way == 2:
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
        database.execute(
            f"CREATE VIEW {place}({listed}) AS {endless} {', '.join('i' for _ in columns)} FROM n"
        )
    elif way == 3:
        database.execute(f"CREATE VIRTUAL TABLE {place} USING fts5({listed})")
    elif way == 4:
        generated = ", ".join(f"{_quoted(name)} AS (zeroblob(1000000000))" for name in columns[1:])
        database.execute(
            f"CREATE TABLE {place} ({_quoted(columns[0])}{', ' if generated else ''}{generated})"
        )
        database.execute(f"INSERT INTO {place} VALUES (1)")
    else:
        # The text of a table that is no statement.
        database.execute(
            "UPDATE sqlite_master SET sql = ? WHERE name = 'moved'", (rng.choice(("", "CREATE", "x" * 99)),)
        )


_WAYS: tuple[Callable[[sqlite3.Connection, random.Random, str, Sequence[str]], None], ...] = (
    _value, _value, _value, _value, _rows, _column, _table,
)  # fmt: skip


def _damaged(data: bytes, rng: random.Random) -> bytes:
    """Some bytes of a page, mostly of its head, are others."""
    if not data:
        return data
    changed = bytearray(data)
    page = rng.randrange(max(1, len(data) // _PAGE_BYTES)) * _PAGE_BYTES
    for _ in range(rng.choice((1, 2, 8))):
        reach = rng.choice((12, 100, _PAGE_BYTES))
        at = min(len(changed) - 1, page + rng.randrange(reach))
        changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    if rng.random() < 0.15:
        return bytes(changed[: page + rng.randrange(_PAGE_BYTES)])
    return bytes(changed)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
