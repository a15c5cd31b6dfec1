"""Small files that unpack to more than fits into memory: refused, with the limit, before they take it."""

from __future__ import annotations

import io
import resource
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.et_archives import archive, members
from tests.unit.importers.nsys.nsys_file import call, kernel, nvtx, whole, write_export
from tests.waiting import HANG_S
from tracebraid.errors import InputError, NotATraceError
from tracebraid.model.op_schema import RECORDED_TABLES, member_of
from tracebraid.store.parquet import frame_of, pages_bytes

GIB = 1 << 30


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_an_archive_whose_members_unpack_to_more_than_the_limit_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path, members(nodes=bytes(100_000)))
    limit = "tracebraid.importers.execution_trace.arrow.unpacked_at_most_bytes"
    monkeypatch.setattr(limit, lambda size_bytes: 50_000)
    with pytest.raises(NotATraceError, match="unpack to more than 500 times its size"):
        tracebraid.read_execution_trace(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_compressions_of_recorders_are_unpacked(tmp_path: Path, method: int) -> None:
    """Each other raises errors of its own on damaged bytes."""
    path = tmp_path / "torch_et_3.arrow.zip"
    with zipfile.ZipFile(path, "w", method) as made:
        for member, data in members().items():
            made.writestr(member, data)
    with pytest.raises(NotATraceError, match="a compression that no recorder"):
        tracebraid.read_execution_trace(path)


@pytest.mark.full
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


def test_texts_that_many_rows_share_are_read_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [nvtx("x" * 3000, 10 * n + 1, 10 * n + 5) for n in range(20)]
    path = write_export(tmp_path / "nsys_0.sqlite", whole(*rows))
    assert tracebraid.read_timeline(path).events.height == 20
    monkeypatch.setattr("tracebraid.importers.nsys.tables.unpacked_at_most_bytes", lambda size_bytes: 50_000)
    with pytest.raises(InputError, match="more than 500 times its size"):
        tracebraid.read_timeline(path)


def test_a_parquet_file_of_one_long_value_is_refused_by_the_heads_of_its_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = io.BytesIO()
    pl.DataFrame({"a": ["x" * 1_000_000]}).write_parquet(content, compression="zstd")
    assert 1_000_000 <= pages_bytes(content.getvalue()) < 1_001_000
    assert frame_of(content.getvalue()).height == 1
    monkeypatch.setattr("tracebraid.store.parquet.unpacked_at_most_bytes", lambda size_bytes: 900_000)
    with pytest.raises(ValueError, match="more than 500 times its size"):
        frame_of(content.getvalue())


def test_a_long_text_of_many_rows_is_refused_before_it_is_written_out(tmp_path: Path) -> None:
    """The file has it once, and the rows take 100 GB."""
    text = pl.Series("name", ["x" * 1_000_000], dtype=pl.Categorical)
    content = io.BytesIO()
    pl.DataFrame({"name": text.new_from_index(0, 100_000)}).write_parquet(content, compression="zstd")
    assert len(content.getvalue()) < 100_000
    with pytest.raises(ValueError, match="take 100,000,000,000 bytes in their rows, more than 4,000 times"):
        frame_of(content.getvalue())


@pytest.mark.full
def test_of_an_archive_too_a_long_text_of_many_nodes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracebraid.model.text_bytes._UNCHECKED_BYTES", 10)
    monkeypatch.setattr("tracebraid.model.text_bytes._RATIO_AT_MOST", 0)
    with pytest.raises(NotATraceError, match="bytes in their rows"):
        tracebraid.read_execution_trace(archive(tmp_path, members()))


def test_columns_of_a_parquet_file_that_lie_in_the_same_pages_are_refused() -> None:
    """Each of them is decoded, so that a few pages would fill memory."""
    file = io.BytesIO()
    pl.DataFrame({name: [name * 1_000] for name in "abcd"}).write_parquet(file, compression="uncompressed")
    content = file.getvalue()
    assert pages_bytes(content) > 4_000
    end_bytes = int.from_bytes(content[-8:-4], "little") + 8
    with pytest.raises(ValueError, match="overlap or lie outside"):
        pages_bytes(b"PAR1" + content[-end_bytes:])


@pytest.mark.parametrize(
    "kind", ["VIEW x AS SELECT 1 AS start, 2 AS end", "VIRTUAL TABLE x USING fts5(start, end)"]
)
def test_no_statement_of_a_database_is_run(tmp_path: Path, kind: str) -> None:
    """Views and virtual tables in the place of tables: what they give is computed."""
    path = write_export(tmp_path / "nsys_0.sqlite", whole(nvtx("kept", 1, 5)))
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE {kind.replace(' x ', ' CUPTI_ACTIVITY_KIND_KERNEL ')}")
        database.commit()
    assert tracebraid.read_timeline(path).events.get_column("name").to_list() == ["kept"]


# --- Thousands of steps at one moment, as damaged exports have them: memory is linear in the in ------


STEPS = 3072
GROWTH_AT_MOST_BYTES = 256 << 20
"""Of a process that asks such an export; a row for each step and moment takes more than 1 GB."""
ASK = """
import resource, sys, tracebraid
def peak_bytes(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
job = tracebraid.open(sys.argv[1])
before = peak_bytes()
for name in ("queue_series", "ops", "launches", "validity", "idle_causes"):
    tracebraid.analyze(name, job)
print(peak_bytes() - before)
"""


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12,288 NVTX rows, a quarter of them steps at once."""
    rows = [
        row
        for number in range(STEPS)
        for row in (
            nvtx("ProfilerStep#1", number, 10_000),
            *(nvtx("aten::mm, seq = 3", 3_100 + number, 9_000) for _ in range(3)),
        )
    ]
    work = [
        row
        for number in range(100)
        for row in (
            call("cudaLaunchKernel_v7000", 4_000 + 20 * number, 4_005 + 20 * number, number + 1),
            kernel("gemm", 4_010 + 20 * number, 4_020 + 20 * number, number + 1),
        )
    ]
    path = tmp_path_factory.mktemp("steps") / "nsys_0.sqlite"
    return write_export(path, whole(*rows, *work))


@pytest.mark.full
def test_what_asks_for_the_step_of_a_moment_takes_memory_linear_in_the_input(export: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK, export], capture_output=True, text=True, check=True, timeout=HANG_S
    )
    assert int(done.stdout) < GROWTH_AT_MOST_BYTES


@pytest.mark.parametrize("name", ["idle_causes", "idle_blame", "idle_gaps"])
def test_rows_for_each_of_very_many_steps_at_once_are_refused(export: Path, name: str) -> None:
    with pytest.raises(InputError) as caught:
        tracebraid.analyze(name, tracebraid.open(export), per_step=True)
    assert caught.value.path == str(export)
