"""One recording of some work in both forms: JSON, and columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

from polars.testing import assert_frame_equal

import tracebraid
from tests.et_tables import ET_TABLES
from tests.integration.native import native


def record_in_both_forms(
    folder: Path, work: Callable[[], object]
) -> tuple[tracebraid.ExecutionTrace, tracebraid.ExecutionTrace]:
    """What is read of the JSON, and of the columns."""
    with native(folder / "et.json"), native(folder / "et.arrow.zip"):
        work()
    # Other processes try files of which it is not known who wrote them.
    with mock.patch("tracebraid.importers.execution_trace.arrow.survives_decoding", return_value=True):
        return tuple(tracebraid.read_execution_trace(folder / name) for name in ("et.json", "et.arrow.zip"))  # type: ignore[return-value]


def assert_same_trace(one: tracebraid.ExecutionTrace, other: tracebraid.ExecutionTrace) -> None:
    for table in ET_TABLES:
        assert_frame_equal(getattr(one, table), getattr(other, table))
    assert (one.schema, one.rank, one.findings) == (other.schema, other.rank, other.findings)
    assert list(one.header) == list(other.header)
