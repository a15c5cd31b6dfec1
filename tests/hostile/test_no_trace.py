"""What is no trace, or none of the kind that was asked for, is refused in one clear error."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.reading import (
    DEEP,
    ET,
    KINETO,
    refused,
)
from tracebraid.errors import InputError, WrongTraceError
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.kineto.reader import read_timeline


@pytest.mark.parametrize("read", [read_timeline, read_execution_trace])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n\n",
        b"\x00" * 500,
        b"\x89PNG\r\n\x1a\n" + b"\x00" * 100,
        b"\xff\xfe{\x00",
        b"{",
        b"[",
        b"{}",
        b"[]",
        b"5",
        b"null",
        b'"traceEvents"',
        b'{"a": [1, 2]}',
        b'{"traceEvents": null}',
        b'{"traceEvents": 5, "nodes": {}}',
        b'{"traceEvents": [5, "x", null]}',
        b'{"nodes": [5, "x", null]}',
        b"hello, world",
        b"\xef\xbb\xbf",
        b"\x1f\x8b",
        gzip.compress(b""),
        gzip.compress(b"\x89PNG\r\n\x1a\n"),
        gzip.compress(gzip.compress(KINETO.encode())),
        DEEP.encode(),
        b'{"a":' * 100_000,
        random.Random(3).randbytes(3000),
    ],
    ids=range(26),
)
def test_what_is_no_trace_is_refused_in_one_error(
    tmp_path: Path, read: Callable[[Path], object], data: bytes
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(data)
    refused(lambda: read(path), path)


@pytest.mark.parametrize("read", [read_timeline, read_execution_trace])
def test_folders_missing_files_and_odd_paths_are_refused(
    tmp_path: Path, read: Callable[[Path | str], object]
) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path, tmp_path / "gone", tmp_path / "loop", "a\0b", "x" * 5000, ""):
        with pytest.raises(InputError) as caught:
            read(path)
        assert caught.value.advice


def test_a_trace_of_the_other_kind_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(ET)
    assert isinstance(refused(lambda: read_timeline(path), path), WrongTraceError)
    path.write_text(KINETO)
    assert isinstance(refused(lambda: read_execution_trace(path), path), WrongTraceError)
