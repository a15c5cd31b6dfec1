"""Tables of all ranks in files that other programs read: a module for each format."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Protocol

import msgspec
import polars as pl
from msgspec import Struct

from tracebraid.files import writing
from tracebraid.model.column import Column, Kind, Table, unit_of
from tracebraid.model.spreadsheet import guarded

RANK = Column("rank", Kind.INT, "the rank")

_DTYPES: dict[Kind, pl.DataType] = {
    Kind.INT: pl.Int64(),
    Kind.FLOAT: pl.Float64(),
    Kind.BOOL: pl.Boolean(),
    Kind.NAME: pl.String(),
    Kind.JSON: pl.String(),
    Kind.TEXT: pl.String(),
    Kind.INT3: pl.List(pl.Int64()),
    Kind.INTS: pl.List(pl.Int64()),
}
"""Categories and arrays of fixed length are not read alike by all programs: they are text and lists."""
_TYPES = {
    Kind.INT: "int64",
    Kind.FLOAT: "float64",
    Kind.BOOL: "boolean",
    Kind.NAME: "text",
    Kind.JSON: "JSON text",
    Kind.TEXT: "text",
    Kind.INT3: "list of int64",
    Kind.INTS: "list of int64",
}


class ExportedTable(Struct, frozen=True, eq=False):
    """A table of an export.

    Args:
        name: unique in the export, `[a-z0-9_]+`: its file, or its table in a database.
        doc: the meaning of a row.
        columns: in order.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]

    @property
    def polars_schema(self) -> dict[str, pl.DataType]:
        """Its columns' dtypes in files."""
        return {column.name: _DTYPES[column.kind] for column in self.columns}


class PartForm(Protocol):
    """A format of files of rows."""

    @property
    def write(self) -> Callable[[ExportedTable, pl.DataFrame, Path], None]:
        """Writes rows of a table to a file."""


class TableSink(Protocol):
    """Sink for rows of tables, frame by frame; each format has its own."""

    def add(self, table: ExportedTable, frame: pl.DataFrame) -> None:
        """Add rows to a table; they are `plain`."""

    @property
    def form(self) -> PartForm:
        """Writer of rows to separate files, which are later merged into the tables."""

    def add_file(self, table: ExportedTable, path: Path, rows: int) -> None:
        """Add the rows of such a file, which the tables may keep; there is at least one, and they are `plain`."""

    def finish(self) -> None:
        """Complete all tables: those to which nothing was added have no rows."""


def exported(group: str, table: Table, *, ranked: bool = False) -> ExportedTable:
    """A table of the model as it is exported."""
    has_rank = any(column.name == RANK.name for column in table.columns)
    columns = (RANK, *table.columns) if ranked and not has_rank else table.columns
    return ExportedTable(f"{group}_{table.name}", table.doc, columns)


def with_rank(frame: pl.DataFrame, rank: int) -> pl.DataFrame:
    """A frame with the column `rank`."""
    return frame.with_columns(pl.lit(rank, dtype=pl.Int64).alias(RANK.name))


def plain(table: ExportedTable, frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of a table, with the dtypes that they have in files; rows stay as they are."""
    return frame.select(pl.col(name).cast(dtype) for name, dtype in table.polars_schema.items())


def columns_data(columns: Sequence[Column]) -> list[dict[str, str]]:
    """Describe each column by name, type, unit and meaning, as JSON values."""
    return [
        {
            "name": column.name,
            "type": _TYPES[column.kind],
            "unit": unit_of(column.name),
            "doc": column.doc,
        }
        for column in columns
    ]


def file_of(folder: Path, table: ExportedTable, suffix: str) -> Path:
    """The file of a table in a folder of tables."""
    return folder / f"{table.name}.{suffix}"


FORMAT_VERSION = 1
"""Raised when tables are arranged otherwise."""

_README = """# Tables of a run

Written by Tracebraid. `schema.json` says the same for programs: each table, its file, its rows, and of each column
its type, unit and meaning. Times are int64 nanoseconds on the unix clock of the rank, unless the column says else.

- `timeline_*`: the Kineto traces. `rank` and `event_id` join them with each other and with the links.
- `et_*`: the Execution Traces. `rank` and `node_id` join them.
- `links_*`: what linking adds: which node is which op, what launched what, what waits for what.
- `ranks_*`: what joins the ranks. `answers_*`: what the analyses answer.
- `run_*`: the files, their headers, and what was noticed in them.
"""


def write_catalog(
    folder: Path, tables: Sequence[ExportedTable], rows: Mapping[str, int], suffix: str, notes: str = ""
) -> None:
    """Write the catalog of a folder."""
    data = {
        "format": FORMAT_VERSION,
        "tables": [
            {
                "name": table.name,
                "file": f"{table.name}.{suffix}",
                "rows": rows.get(table.name, 0),
                "doc": table.doc,
                "columns": columns_data(table.columns),
            }
            for table in tables
        ],
    }
    text = msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"
    (folder / "schema.json").write_bytes(text)
    parts = [
        _README,
        notes and f"\n{notes}\n",
        *(_section(table, rows.get(table.name, 0)) for table in tables),
    ]
    (folder / "README.md").write_text("".join(parts), encoding="utf-8", newline="\n")


def _section(table: ExportedTable, rows: int) -> str:
    lines = [
        f"\n## {table.name}\n\n{table.doc} Rows: {rows:,}.\n\n| column | unit | meaning |\n|---|---|---|\n"
    ]
    for column in table.columns:
        meaning = column.doc.replace("|", "\\|")
        lines.append(f"| `{column.name}` | {unit_of(column.name)} | {meaning} |\n")
    return "".join(lines)


_METADATA_KEY = "tracebraid"
"""Parquet metadata key of a table's name, meaning, and columns as JSON."""
_NEARLY_FULL_BYTES = 1 << 20
"""A disk with less is full for a table: the writer of Parquet does not always say why it failed."""
_PARQUET_NOTES = (
    f"Each file's metadata has the key `{_METADATA_KEY}`: the table's entry of `schema.json`, as JSON text."
)


class ColumnForm(Struct, frozen=True):
    """A format of columns.

    Args:
        suffix: of the files.
        write: writes rows of a table to a file.
        read: rows of files, without reading them yet.
        join: writes rows that are not read yet to a file.
        notes: what else is to know.
    """

    suffix: str
    write: Callable[[ExportedTable, pl.DataFrame, Path], None]
    read: Callable[[list[Path]], pl.LazyFrame]
    join: Callable[[ExportedTable, pl.LazyFrame, Path], None]
    notes: str = ""


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    """Name the file where it cannot be written: Polars raises an error of its own where a disk is full."""
    with writing(path):
        try:
            yield
        except pl.exceptions.ComputeError as error:
            full = shutil.disk_usage(path.parent).free < _NEARLY_FULL_BYTES
            raise (
                OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if full else OSError(str(error))
            ) from None


def _write_parquet(table: ExportedTable, frame: pl.DataFrame, path: Path) -> None:
    with _errors_named(path):
        frame.write_parquet(path, metadata=_metadata(table))


def _join_parquet(table: ExportedTable, rows: pl.LazyFrame, path: Path) -> None:
    with _errors_named(path):
        rows.sink_parquet(path, metadata=_metadata(table))


def _metadata(table: ExportedTable) -> dict[str, str]:
    data = {"name": table.name, "doc": table.doc, "columns": columns_data(table.columns)}
    return {_METADATA_KEY: msgspec.json.encode(data).decode()}


def _write_arrow(table: ExportedTable, frame: pl.DataFrame, path: Path) -> None:
    # Not every reader knows the newest types of Arrow.
    with _errors_named(path):
        frame.write_ipc(path, compat_level=pl.CompatLevel.oldest())


def _join_arrow(table: ExportedTable, rows: pl.LazyFrame, path: Path) -> None:
    with _errors_named(path):
        rows.sink_ipc(path, compat_level=pl.CompatLevel.oldest())


# The names of folders say nothing of the rows: neither patterns nor columns are read out of them.
def _read_parquet(paths: list[Path]) -> pl.LazyFrame:
    return pl.scan_parquet(paths, glob=False, hive_partitioning=False)


def _read_arrow(paths: list[Path]) -> pl.LazyFrame:
    return pl.scan_ipc(paths, glob=False, hive_partitioning=False)


PARQUET = ColumnForm("parquet", _write_parquet, _read_parquet, _join_parquet, _PARQUET_NOTES)


def rows_of(part: Path) -> pl.DataFrame:
    """The rows of a file that `ARROW` wrote, which may be deleted then."""
    return pl.read_ipc(part.read_bytes())


ARROW = ColumnForm(
    "arrow", _write_arrow, _read_arrow, _join_arrow, "The files are Arrow IPC files (Feather, version 2)."
)


class ColumnFiles:
    """Tables as Parquet or Arrow in a folder."""

    def __init__(self, folder: Path, tables: Sequence[ExportedTable], form: ColumnForm) -> None:
        self._folder, self._tables, self.form = folder, tables, form
        self._parts: dict[str, list[Path]] = {}
        self._rows: dict[str, int] = {}

    def add(self, table: ExportedTable, frame: pl.DataFrame) -> None:
        """Write the rows to a part."""
        if frame.is_empty():
            return
        self.form.write(table, frame, self._part(table, frame.height))

    def add_file(self, table: ExportedTable, path: Path, rows: int) -> None:
        """Take the file as a part."""
        path.rename(self._part(table, rows))

    def _part(self, table: ExportedTable, rows: int) -> Path:
        """Return the path of the next part of a table, with a number of rows."""
        parts = self._parts.setdefault(table.name, [])
        parts.append(self._folder / f".{table.name}.{len(parts)}.part")
        self._rows[table.name] = self._rows.get(table.name, 0) + rows
        return parts[-1]

    def finish(self) -> None:
        """Join the parts of each table, and write the catalog."""
        for table in self._tables:
            parts, target = self._parts.get(table.name, []), file_of(self._folder, table, self.form.suffix)
            if not parts:
                self.form.write(table, pl.DataFrame(schema=table.polars_schema), target)
            elif len(parts) == 1:
                parts[0].rename(target)
            else:
                self.form.join(table, self.form.read(parts), target)
                for part in parts:
                    part.unlink()
        write_catalog(self._folder, self._tables, self._rows, self.form.suffix, self.form.notes)


_LINE_END = "\r\n"
"""RFC 4180, section 2."""
_CSV_NOTES = (
    'The files are CSV as RFC 4180 has it, in UTF-8. An empty cell is null, `""` is empty text; lists are JSON text. '
    "So that a spreadsheet runs no formula out of a name, a text that begins with `=`, `+`, `-`, `@`, tab, CR, LF "
    "or an apostrophe has an apostrophe before it: who needs the exact names takes one away."
)
_JSON_NOTES = (
    "Each file is a JSON list with an object for each row. Numbers that JSON does not have are null."
)


class TextForm(Struct, frozen=True):
    """A format of text.

    Args:
        suffix: of the files.
        head: the start of a file.
        rows: rows as text; `first` if the file has none yet.
        tail: its end.
        notes: what else is to know.
    """

    suffix: str
    head: Callable[[ExportedTable], bytes]
    rows: Callable[[pl.DataFrame, bool], bytes]
    tail: bytes
    notes: str


def lists_as_json(column: str) -> pl.Expr:
    """A column of lists of integers as JSON text."""
    values = pl.col(column).list.eval(pl.element().cast(pl.String).fill_null("null")).list.join(",")
    return pl.concat_str(pl.lit("["), values, pl.lit("]")).alias(column)


def _csv_head(table: ExportedTable) -> bytes:
    return (",".join(column.name for column in table.columns) + _LINE_END).encode()


def _csv_rows(frame: pl.DataFrame, first: bool) -> bytes:
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    flat = frame.with_columns(*map(guarded, texts), *map(lists_as_json, lists))
    buffer = BytesIO()
    flat.write_csv(buffer, include_header=False, line_terminator=_LINE_END)
    return buffer.getvalue()


def _json_rows(frame: pl.DataFrame, first: bool) -> bytes:
    buffer = BytesIO()
    frame.write_ndjson(buffer)
    # Line ends within a text are escaped: each of these ends a row.
    rows = buffer.getvalue().rstrip(b"\n").replace(b"\n", b",\n")
    return rows if first else b",\n" + rows


CSV = TextForm("csv", _csv_head, _csv_rows, b"", _CSV_NOTES)
JSON = TextForm("json", lambda table: b"[\n", _json_rows, b"\n]\n", _JSON_NOTES)

_ROWS_AT_ONCE = 65_536
"""Number of rows held as text in memory."""


class TextFiles:
    """Tables as CSV or JSON in a folder."""

    form = ARROW

    def __init__(self, folder: Path, tables: Sequence[ExportedTable], form: TextForm) -> None:
        self._folder, self._tables, self._form = folder, tables, form
        self._rows: dict[str, int] = {}
        for table in tables:
            file_of(folder, table, form.suffix).write_bytes(form.head(table))

    def add(self, table: ExportedTable, frame: pl.DataFrame) -> None:
        """Append the rows to the table's file."""
        if frame.is_empty():
            return
        with file_of(self._folder, table, self._form.suffix).open("ab") as file:
            for rows in frame.iter_slices(_ROWS_AT_ONCE):
                written = self._rows.get(table.name, 0)
                file.write(self._form.rows(rows, written == 0))
                self._rows[table.name] = written + rows.height

    def add_file(self, table: ExportedTable, path: Path, rows: int) -> None:
        """Append the rows of a file."""
        self.add(table, rows_of(path))

    def finish(self) -> None:
        """End each file, and write the catalog."""
        for table in self._tables:
            with file_of(self._folder, table, self._form.suffix).open("ab") as file:
                file.write(self._form.tail)
        write_catalog(self._folder, self._tables, self._rows, self._form.suffix, self._form.notes)


_FULL = "database or disk is full"
"""SQLite's words for a disk that is full."""
_SQLITE_FILE_ROWS_AT_ONCE = 16_384
"""Number of rows held as Python objects."""
_AFFINITY = {Kind.INT: "INTEGER", Kind.BOOL: "INTEGER", Kind.FLOAT: "REAL"}
"""SQLite types; other kinds are `TEXT`, lists are JSON text."""
_CATALOG = (
    "CREATE TABLE tables (name TEXT PRIMARY KEY, doc TEXT NOT NULL, rows INTEGER NOT NULL)",
    "CREATE TABLE columns (table_name TEXT NOT NULL REFERENCES tables (name), position INTEGER NOT NULL, "
    "name TEXT NOT NULL, type TEXT NOT NULL, unit TEXT NOT NULL, doc TEXT NOT NULL, "
    "PRIMARY KEY (table_name, position))",
)


@contextmanager
def sqlite_tables(path: Path, tables: Sequence[ExportedTable]) -> Iterator[SqliteTables]:
    """A new database in which the tables are; it is complete when the block ends."""
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
        for rows in flat.iter_slices(_SQLITE_FILE_ROWS_AT_ONCE):
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
