"""Tables in one SQLite database, with the tables `tables` and `columns` that say what they hold."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import polars as pl

from tracebraid.exporters.tables.column_files import ARROW, rows_of
from tracebraid.exporters.tables.exported_table import ExportedTable, columns_data
from tracebraid.exporters.tables.text_files import lists_as_json
from tracebraid.model.column import Kind

__all__ = ["SqliteTables", "sqlite_tables"]

_FULL = "database or disk is full"
"""SQLite's words for a disk that is full."""
_ROWS_AT_ONCE = 16_384
"""So many rows are Python objects at a time."""
_AFFINITY = {Kind.INT: "INTEGER", Kind.BOOL: "INTEGER", Kind.FLOAT: "REAL"}
"""Of other kinds `TEXT`; lists are JSON text."""
_CATALOG = (
    "CREATE TABLE tables (name TEXT PRIMARY KEY, doc TEXT NOT NULL, rows INTEGER NOT NULL)",
    "CREATE TABLE columns (table_name TEXT NOT NULL REFERENCES tables (name), position INTEGER NOT NULL, "
    "name TEXT NOT NULL, type TEXT NOT NULL, unit TEXT NOT NULL, doc TEXT NOT NULL, "
    "PRIMARY KEY (table_name, position))",
)


@contextmanager
def sqlite_tables(path: Path, tables: Sequence[ExportedTable]) -> Iterator[SqliteTables]:
    """A new database in which the tables are; it is complete when the block ends.

    Args:
        path: the new file.
        tables: all tables.

    Raises:
        OSError: it cannot be written.
    """
    # SQLite would make it with rights of its own; so they are those of the user's umask.
    path.touch(exist_ok=False)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            # Until it is complete the file has another name: there is nothing to roll back to.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN")
            yield SqliteTables(connection, tables)
            connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if str(error) == _FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise OSError(None, str(error)) from error


class SqliteTables:
    """Tables in a database."""

    form = ARROW

    def __init__(self, connection: sqlite3.Connection, tables: Sequence[ExportedTable]) -> None:
        self._connection, self._tables = connection, tables
        self._rows: dict[str, int] = {}
        for table in tables:
            columns = ", ".join(
                f'"{column.name}" {_AFFINITY.get(column.kind, "TEXT")}' for column in table.columns
            )
            connection.execute(f'CREATE TABLE "{table.name}" ({columns})')

    def add(self, table: ExportedTable, frame: pl.DataFrame) -> None:
        """Insert the rows."""
        lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
        flat = frame.with_columns(map(lists_as_json, lists))
        values = ", ".join("?" * frame.width)
        for rows in flat.iter_slices(_ROWS_AT_ONCE):
            self._connection.executemany(f'INSERT INTO "{table.name}" VALUES ({values})', rows.rows())
        self._rows[table.name] = self._rows.get(table.name, 0) + frame.height

    def add_file(self, table: ExportedTable, path: Path, rows: int) -> None:
        """Insert the rows of a file."""
        self.add(table, rows_of(path))

    def finish(self) -> None:
        """Write the catalog tables."""
        for statement in _CATALOG:
            self._connection.execute(statement)
        for table in self._tables:
            row = table.name, table.doc, self._rows.get(table.name, 0)
            self._connection.execute("INSERT INTO tables VALUES (?, ?, ?)", row)
            columns = [
                (table.name, position, *column.values())
                for position, column in enumerate(columns_data(table.columns))
            ]
            self._connection.executemany("INSERT INTO columns VALUES (?, ?, ?, ?, ?, ?)", columns)
