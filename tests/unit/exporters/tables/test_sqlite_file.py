"""A database of tables is read back by SQLite as the rows that were written."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.unit.exporters.tables.made import EMPTY, NAMES, TABLE, frame_of, rows_of
from tracebraid.exporters.tables.sqlite_file import sqlite_tables


def written(path: Path) -> Path:
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
    found = rows(written(tmp_path / "a.sqlite"), "SELECT * FROM made")
    assert found == [tuple(map(as_stored, row.values())) for row in rows_of(0, 1)]


def test_the_catalog_says_what_there_is(tmp_path: Path) -> None:
    path = written(tmp_path / "a.sqlite")
    assert rows(path, "SELECT * FROM tables") == [
        ("made", TABLE.doc, 2 * len(NAMES)),
        ("none", EMPTY.doc, 0),
    ]
    found = rows(path, "SELECT name, unit, doc FROM columns WHERE table_name = 'made' ORDER BY position")
    units = {"dur_ns": "ns", "share": "1"}
    assert found == [(column.name, units.get(column.name, ""), column.doc) for column in TABLE.columns]
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_the_same_rows_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = (written(tmp_path / name) for name in ("a.sqlite", "b.sqlite"))
    assert first.read_bytes() == second.read_bytes()


def test_a_database_that_cannot_be_opened_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"), sqlite_tables(tmp_path / "none" / "a", (TABLE,)):
        pass
