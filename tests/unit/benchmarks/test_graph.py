"""What is measured of a dependency graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.graphs import graph_rows
from tests.planted.scenes import clean


@pytest.mark.slow
def test_each_part_has_a_row(tmp_path: Path) -> None:
    rows = {row.subject: row for row in graph_rows(clean(steps=2).write(tmp_path))}
    assert list(rows) == ["load", "build", "path", "replay", "batch", "errors"]
    assert rows["build"].figures["edges"] > 0
    assert 0 <= rows["path"].figures["explained"] <= 1
    assert rows["errors"].figures["steps"] == 2
    assert rows["errors"].figures["median"] <= 0.02
