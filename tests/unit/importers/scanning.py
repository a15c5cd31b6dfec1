"""What the tests of both native scanners share: each gives what the Python reader gives, of every input."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tracebraid.importers.chunk_decoding as chunk_decoding
from tools.fuzz.formats import format_of
from tools.fuzz.model import Sample
from tracebraid.errors import InputError
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.timeline import Timeline

Read = Callable[[Path], Timeline | ExecutionTrace]
Compare = Callable[[Path], None]
"""Reads a file with both readers."""
PER_PART = 10


def compare_readers(path: Path, read: Read, library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a file with the native scanner and with the Python reader."""

    def by(chosen: ctypes.CDLL | None) -> Timeline | ExecutionTrace | str:
        monkeypatch.setattr(chunk_decoding, "native_library", lambda _: chosen)
        try:
            return read(path)
        except InputError as error:
            return f"{type(error).__name__}: {error}"

    found, expected = by(library), by(None)
    if isinstance(found, str) or isinstance(expected, str):
        assert found == expected
        return
    assert found.findings == expected.findings
    assert found.header == expected.header
    tables, expected_tables = _tables(found), _tables(expected)
    assert tables.keys() == expected_tables.keys()
    for name, table in expected_tables.items():
        assert_frame_equal(_as_text(tables[name]), _as_text(table), check_exact=True)


def _tables(trace: Timeline | ExecutionTrace) -> dict[str, pl.DataFrame]:
    if isinstance(trace, Timeline):
        return dict(trace.tables)
    names = ("nodes", "values", "collectives", "extra_attrs", "process_groups", "tensors", "tensor_uses")
    return {name: getattr(trace, name) for name in names}


def _as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Names as text: their codes may differ."""
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def samples_of(name: str, folder: Path) -> list[Sample]:
    """Samples of a format of the fuzzer."""
    return list(format_of(name).samples(folder))


def mutants(name: str, samples: list[Sample], part: int, folder: Path) -> list[Path]:
    """Some files with up to three damages each."""
    paths = []
    for seed in range(part * PER_PART, (part + 1) * PER_PART):
        numbers = random.Random(seed)
        files = dict(numbers.choice(samples).files)
        for _ in range(numbers.randint(1, 3)):
            files = dict(numbers.choice(format_of(name).mutations)(files, numbers))
        for file, data in files.items():
            paths.append(folder / f"{seed}-{Path(file).name}")
            paths[-1].write_bytes(data)
    return paths
