"""What is measured of a dependency graph."""

from __future__ import annotations

from pathlib import Path

from benchmarks.graph import rows_of
from tests.planted.scenes import clean


def test_each_part_has_a_row(tmp_path: Path) -> None:
    rows = {row.subject: row for row in rows_of(clean(steps=2).write(tmp_path))}
    assert list(rows) == ["load", "build", "path", "replay", "batch", "errors"]
    assert rows["build"].figures["edges"] > 0
    assert 0 <= rows["path"].figures["explained"] <= 1
    assert rows["errors"].figures["steps"] == 2
    assert rows["errors"].figures["median"] <= 0.02
