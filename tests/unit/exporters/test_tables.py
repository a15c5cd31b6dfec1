"""Tables in folders and in SQLite files."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.planted.tables import EMPTY, NAMES, TABLE, frame_of, rows_of
from tracebraid.exporters.tables import (
    ARROW,
    CSV,
    JSON,
    PARQUET,
    ColumnFiles,
    ExportedTable,
    TableSink,
    TextFiles,
    sqlite_tables,
)

SINKS: dict[str, Callable[[Path, Sequence[ExportedTable]], TableSink]] = {
    "parquet": lambda folder, tables: ColumnFiles(folder, tables, PARQUET),
    "arrow": lambda folder, tables: ColumnFiles(folder, tables, ARROW),
    "csv": lambda folder, tables: TextFiles(folder, tables, CSV),
    "json": lambda folder, tables: TextFiles(folder, tables, JSON),
}


def written(folder: Path, suffix: str, ranks: int) -> Path:
    folder.mkdir()
    sink = SINKS[suffix](folder, (TABLE, EMPTY))
    for rank in range(ranks):
        sink.add(TABLE, frame_of(rank))
    sink.finish()
    return folder


@pytest.mark.parametrize("ranks", [0, 1, 3])
@pytest.mark.parametrize("suffix", SINKS)
def test_a_folder_has_a_file_for_each_table_and_the_catalog(tmp_path: Path, suffix: str, ranks: int) -> None:
    folder = written(tmp_path / "tables", suffix, ranks)
    names = {f"made.{suffix}", f"none.{suffix}", "schema.json", "README.md"}
    assert {path.name for path in folder.iterdir()} == names
    catalog = json.loads((folder / "schema.json").read_text())["tables"]
    assert [(table["name"], table["rows"]) for table in catalog] == [
        ("made", ranks * len(NAMES)),
        ("none", 0),
    ]
    columns = {column["name"]: column for column in catalog[0]["columns"]}
    assert list(columns) == [column.name for column in TABLE.columns]
    assert columns["dur_ns"] == {"name": "dur_ns", "type": "int64", "unit": "ns", "doc": "a number"}


@pytest.mark.parametrize("ranks", [0, 1, 3])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_columns_are_read_back(tmp_path: Path, suffix: str, ranks: int) -> None:
    folder = written(tmp_path / "tables", suffix, ranks)
    read = pl.read_parquet if suffix == "parquet" else pl.read_ipc
    frame = read(folder / f"made.{suffix}")
    assert frame.schema == pl.Schema(TABLE.polars_schema)
    assert frame.to_dicts() == rows_of(*range(ranks))


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_pyarrow_reads_the_same(tmp_path: Path, suffix: str) -> None:
    feather = pytest.importorskip("pyarrow.feather")
    parquet = pytest.importorskip("pyarrow.parquet")
    read = parquet.read_table if suffix == "parquet" else feather.read_table
    path = written(tmp_path / "tables", suffix, 2) / f"made.{suffix}"
    assert read(path).to_pylist() == rows_of(0, 1)


@pytest.mark.parametrize("ranks", [0, 1, 2])
def test_parquet_says_in_its_metadata_what_its_columns_mean(tmp_path: Path, ranks: int) -> None:
    folder = written(tmp_path / "tables", "parquet", ranks)
    found = json.loads(pl.read_parquet_metadata(folder / "made.parquet")["tracebraid"])
    entry = json.loads((folder / "schema.json").read_text())["tables"][0]
    assert found == {key: entry[key] for key in ("name", "doc", "columns")}


@pytest.mark.parametrize("ranks", [0, 1, 3])
def test_json_is_read_back(tmp_path: Path, ranks: int) -> None:
    folder = written(tmp_path / "tables", "json", ranks)
    assert json.loads((folder / "made.json").read_text(encoding="utf-8")) == rows_of(*range(ranks))
    assert json.loads((folder / "none.json").read_text()) == []


def test_csv_is_read_back_but_for_the_apostrophes(tmp_path: Path) -> None:
    path = written(tmp_path / "tables", "csv", 2) / "made.csv"
    with path.open(encoding="utf-8", newline="") as file:
        # Python 3.10 reads no NUL.
        head, *rows = csv.reader(line.replace("\0", "") for line in file)
    assert head == [column.name for column in TABLE.columns]
    names = [row[1] for row in rows]
    assert not any(name.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for name in names)
    assert [name.removeprefix("'") for name in names] == [
        (name or "").replace("\0", "") for name in NAMES
    ] * 2
    expected = rows_of(0, 1)
    assert [int(row[2]) if row[2] else None for row in rows] == [row["dur_ns"] for row in expected]
    assert [float(row[3]) if row[3] else None for row in rows] == [row["share"] for row in expected]
    for index, name in ((4, "finished"), (5, "shape"), (6, "ranks")):
        assert [json.loads(row[index]) if row[index] else None for row in rows] == [
            row[name] for row in expected
        ]


def test_csv_tells_null_from_empty_text(tmp_path: Path) -> None:
    path = written(tmp_path / "tables", "csv", 1) / "made.csv"
    lines = path.read_bytes().split(b"\r\n")
    assert lines[1].startswith(b"0,,")
    assert lines[2].startswith(b'0,"",')


@pytest.mark.parametrize("suffix", SINKS)
def test_the_same_rows_are_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    first, second = (written(tmp_path / name, suffix, 2) for name in ("a", "b"))
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


@pytest.mark.parametrize("suffix", SINKS)
def test_the_name_of_the_folder_says_nothing_of_the_rows(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "rank=7").mkdir()
    written(tmp_path / "plain", suffix, 2)
    written(tmp_path / "rank=7" / "a[1]*?{x}", suffix, 2)
    plain = (tmp_path / "plain" / f"made.{suffix}").read_bytes()
    assert (tmp_path / "rank=7" / "a[1]*?{x}" / f"made.{suffix}").read_bytes() == plain


def written_file(path: Path) -> Path:
    with sqlite_tables(path, (TABLE, EMPTY)) as sink:
        for rank in (0, 1):
            sink.add(TABLE, frame_of(rank))
        sink.finish()
    return path


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def as_stored(value: object) -> object:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list) else value


def test_rows_are_read_back(tmp_path: Path) -> None:
    found = rows(written_file(tmp_path / "a.sqlite"), "SELECT * FROM made")
    assert found == [tuple(map(as_stored, row.values())) for row in rows_of(0, 1)]


def test_the_catalog_says_what_there_is(tmp_path: Path) -> None:
    path = written_file(tmp_path / "a.sqlite")
    assert rows(path, "SELECT * FROM tables") == [("made", TABLE.doc, 2 * len(NAMES)), ("none", EMPTY.doc, 0)]
    found = rows(path, "SELECT name, unit, doc FROM columns WHERE table_name = 'made' ORDER BY position")
    units = {"dur_ns": "ns", "share": "1"}
    assert found == [(column.name, units.get(column.name, ""), column.doc) for column in TABLE.columns]
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_the_same_rows_are_the_same_file(tmp_path: Path) -> None:
    first, second = (written_file(tmp_path / name) for name in ("a.sqlite", "b.sqlite"))
    assert first.read_bytes() == second.read_bytes()


def test_a_database_that_cannot_be_opened_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"), sqlite_tables(tmp_path / "none" / "a", (TABLE,)):
        pass
