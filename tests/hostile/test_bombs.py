"""Small files that unpack to more than fits into memory: refused, with the limit, before they take it."""

from __future__ import annotations

import io
import resource
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.et_archives import archive, members
from tests.unit.importers.nsys.nsys_file import kernel, whole, write_export
from tracebraid.errors import InputError, NotATraceError
from tracebraid.model.et_arrow import RECORDED_TABLES, member_of

GIB = 1 << 30


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_an_archive_whose_members_unpack_to_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    path = archive(tmp_path, members(nodes=None))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as made, made.open("nodes.arrow", "w") as file:
        for _ in range(300):
            file.write(bytes(1 << 20))
    before = peak_bytes()
    with pytest.raises(NotATraceError, match="more than 500 times its size"):
        tracebraid.read_execution_trace(path)
    assert peak_bytes() - before < GIB // 8


def test_columns_that_unpack_to_gigabytes_end_the_trial_alone(tmp_path: Path) -> None:
    """A column of zeros, compressed 3,000 times: the member is small, and what it says is not."""
    table = RECORDED_TABLES[0]
    many = pl.select(pl.repeat(0, 40_000_000, dtype=pl.Int64).alias("node_id"))
    zeros = many.with_columns(pl.lit(0).alias(column.name) for column in table.columns[2:8])
    content = io.BytesIO()
    zeros.write_ipc(content, compression="zstd")
    path = archive(tmp_path, members(**{member_of(table).removesuffix(".arrow"): content.getvalue()}))
    del many, zeros
    before = peak_bytes()
    with pytest.raises(NotATraceError, match="cannot be decoded"):
        tracebraid.read_execution_trace(path)
    assert peak_bytes() - before < GIB // 8


def test_texts_that_many_rows_share_are_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracebraid.importers.nsys.tables.unpacked_at_most_bytes", lambda size_bytes: size_bytes)
    rows = [kernel("k" * 5000, 10 * n + 1, 10 * n + 5, n) for n in range(20)]
    path = write_export(tmp_path / "nsys_0.sqlite", whole(*rows))
    assert tracebraid.read_timeline(path).events.height == 20
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE other (value TEXT)")
        database.execute("DROP TABLE other")
        database.execute("UPDATE StringIds SET value = 'k'")
        database.executemany("INSERT INTO NVTX_EVENTS (text) VALUES (?)", [("x" * 3000,)] * 40)
        database.commit()
    monkeypatch.setattr("tracebraid.importers.nsys.tables.unpacked_at_most_bytes", lambda size_bytes: 50_000)
    with pytest.raises(InputError, match="more than 500 times its size"):
        tracebraid.read_timeline(path)
