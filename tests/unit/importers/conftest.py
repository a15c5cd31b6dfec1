"""Fixtures of the tests of the native scanners."""

from __future__ import annotations

import ctypes

import pytest

from tracebraid.errors import CaptureError, OutputError
from tracebraid.importers.native_scan import NativeScan
from tracebraid.native import library as native


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    """The native library; the test is skipped where it cannot be built."""
    try:
        native.build()
    except (CaptureError, OutputError) as error:
        pytest.skip(str(error))
    library = native.native_library(is_worth_building=False)
    assert library is not None
    return library


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a scanner took each chunk that it was given."""
    taken: list[bool] = []
    add = NativeScan.add

    def counted(scan: NativeScan, data: bytes) -> bool:
        taken.append(add(scan, data))
        return taken[-1]

    monkeypatch.setattr(NativeScan, "add", counted)
    return taken
