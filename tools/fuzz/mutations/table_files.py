"""Changes of tables in Arrow, Parquet and SQLite files."""

from __future__ import annotations

import io
import random
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow as pa
from pyarrow import parquet

from tools.fuzz.mutations.raw_bytes import RAW_CHANGES

_NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 10**15)
_TEXTS = (
    "",
    "\x1b[31m",
    "=1+1",
    "\u202e",
    "\0",
    "<b>",
    "{",
    "[[[[",
    "null",
    "1e999",
    "NaN",
    "9" * 5000,
    "[1,2]",
)
_FLOATS = (float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324)
_TYPES = (
    pl.Int64(), pl.Int32(), pl.UInt64(), pl.Float64(), pl.String(), pl.Boolean(), pl.Binary(), pl.Null(),
    pl.Categorical(), pl.Date(), pl.Datetime("us"), pl.List(pl.Int64()), pl.Decimal(38, 0),
)  # fmt: skip


def changed_frame(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """The table with one change."""
    if not frame.width:
        return pl.DataFrame({"column": [1, 2]})
    return rng.choice(_CHANGES)(frame, rng)


def _value(dtype: pl.DataType, rng: random.Random) -> Any:
    """An odd value of a type."""
    if rng.random() < 0.2:
        return None
    if dtype.is_integer():
        return rng.choice(_NUMBERS)
    if dtype.is_float():
        return rng.choice(_FLOATS)
    if dtype in (pl.String, pl.Categorical):
        return rng.choice(_TEXTS)
    if dtype == pl.Boolean:
        return rng.random() < 0.5
    if isinstance(dtype, pl.List | pl.Array):
        count = dtype.size if isinstance(dtype, pl.Array) else rng.choice((0, 1, 30))
        inner = dtype.inner
        assert isinstance(inner, pl.DataType)
        return [_value(inner, rng) for _ in range(count)]
    return None


def _values(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Odd values in some rows of a column, or in all."""
    name = rng.choice(frame.columns)
    dtype = frame.schema[name]
    count = frame.height if rng.random() < 0.3 else rng.randint(0, min(3, frame.height))
    changed = frame.get_column(name).to_list()
    for row in rng.sample(range(frame.height), count):
        changed[row] = _value(dtype, rng)
    return frame.with_columns(pl.Series(name, changed, dtype=dtype, strict=False))


def _same(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """One value in all rows."""
    name = rng.choice(frame.columns)
    return frame.with_columns(pl.col(name).first()) if frame.height else frame


def _type(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    name, dtype = rng.choice(frame.columns), rng.choice(_TYPES)
    try:
        return frame.with_columns(pl.col(name).cast(dtype, strict=False))
    except pl.exceptions.PolarsError:
        return frame.with_columns(pl.lit(None, dtype=dtype).alias(name))


def _columns(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """A column is missing, has another name or place, or one is too many."""
    name = rng.choice(frame.columns)
    ways: Sequence[Callable[[], pl.DataFrame]] = (
        lambda: frame.drop(name),
        lambda: frame.rename({name: rng.choice(("", "\x1b[0m", "x" * 3000, f"{name}\0", "\u202e"))}),
        lambda: frame.select(rng.sample(frame.columns, frame.width)),
        lambda: frame.with_columns(pl.lit(1).alias("one too many")),
        lambda: frame.select([]),
    )
    return rng.choice(ways)()


def _rows(frame: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Rows are missing, there twice, or in another order."""
    ways: Sequence[Callable[[], pl.DataFrame]] = (
        frame.clear,
        lambda: frame.head(rng.randint(0, frame.height)),
        lambda: frame.reverse(),
        lambda: pl.concat([frame] * rng.choice((2, 50))),
        lambda: frame.sample(fraction=1.0, shuffle=True, seed=rng.randrange(1 << 30)),
    )
    return rng.choice(ways)()


_CHANGES = (_values, _values, _values, _same, _type, _columns, _rows)


_FOOTER_BYTES = 1200
_ODD_BYTES = (
    b"\xff" * 8,
    b"\0" * 8,
    (1 << 62).to_bytes(8, "little"),
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x08",
)
_ARROW: tuple[Literal["uncompressed", "zstd", "lz4"], ...] = ("uncompressed", "zstd", "lz4")
_PARQUET: tuple[Literal["uncompressed", "zstd", "lz4", "snappy", "gzip", "brotli"], ...] = (
    *_ARROW, "snappy", "gzip", "brotli",
)  # fmt: skip


def changed_arrow(data: bytes, rng: random.Random) -> bytes:
    """An Arrow file whose table, layout or bytes are others."""
    compression = rng.choice(_ARROW)
    level = rng.choice((pl.CompatLevel.oldest(), pl.CompatLevel.newest()))

    def write(frame: pl.DataFrame, file: io.BytesIO) -> None:
        frame.write_ipc(file, compression=compression, compat_level=level)

    def read(file: io.BytesIO) -> pl.DataFrame:
        return _frame(pa.ipc.open_file(file).read_all())

    return _changed(data, rng, read, write)


def changed_parquet(data: bytes, rng: random.Random) -> bytes:
    """A Parquet file whose table, layout or bytes are others."""
    compression = rng.choice(_PARQUET)
    rows = rng.choice((None, 1, 7, 1 << 18))

    def write(frame: pl.DataFrame, file: io.BytesIO) -> None:
        frame.write_parquet(file, compression=compression, row_group_size=rows)

    def read(file: io.BytesIO) -> pl.DataFrame:
        return _frame(parquet.read_table(file))

    return _changed(data, rng, read, write)


def _frame(table: pa.Table) -> pl.DataFrame:
    """The table as pyarrow reads and checks it: polars may panic or abort on bytes that were damaged before."""
    table.validate(full=True)
    return pl.DataFrame(pl.from_arrow(table))


def _changed(
    data: bytes,
    rng: random.Random,
    read: Callable[[io.BytesIO], pl.DataFrame],
    write: Callable[[pl.DataFrame, io.BytesIO], None],
) -> bytes:
    if rng.random() < 0.5:
        return _damaged(data, rng)
    try:
        frame = changed_frame(read(io.BytesIO(data)), rng)
        file = io.BytesIO()
        write(frame, file)
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        pa.ArrowException,
        OSError,
        ValueError,
        TypeError,
    ):
        return _damaged(data, rng)
    return file.getvalue() if rng.random() < 0.9 else _damaged(file.getvalue(), rng)


def _damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, mostly in what stands at the end and says where everything lies."""
    if not data or rng.random() < 0.3:
        return rng.choice(RAW_CHANGES)(data, rng)
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = max(0, len(changed) - 1 - rng.randrange(min(len(changed), _FOOTER_BYTES)))
        way = rng.randrange(3)
        if way == 0:
            changed[at] = rng.randrange(256)
        elif way == 1:
            odd = rng.choice(_ODD_BYTES)
            changed[at : at + len(odd)] = odd
        else:
            changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


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
        return _damaged_sqlite(data, rng)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "database"
        path.write_bytes(data)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.create_function("misled", 0, lambda: 1)
            try:
                _change(database, rng)
            except (sqlite3.Error, sqlite3.Warning, UnicodeError, ValueError):
                return _damaged_sqlite(data, rng)
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


def _sqlite_value(
    database: sqlite3.Connection, rng: random.Random, table: str, columns: Sequence[str]
) -> None:
    """An odd value in a column, of all rows or of some."""
    rows = rng.choice(("", " WHERE rowid % 3 = 1", " WHERE rowid = 1"))
    value = rng.choice((*_VALUES, _quoted(rng.choice(columns)), "rowid % 4", "random()"))
    database.execute(f"UPDATE {_quoted(table)} SET {_quoted(rng.choice(columns))} = {value}{rows}")


def _sqlite_rows(
    database: sqlite3.Connection, rng: random.Random, table: str, columns: Sequence[str]
) -> None:
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
    _sqlite_value, _sqlite_value, _sqlite_value, _sqlite_value, _sqlite_rows, _column, _table,
)  # fmt: skip


def _damaged_sqlite(data: bytes, rng: random.Random) -> bytes:
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
