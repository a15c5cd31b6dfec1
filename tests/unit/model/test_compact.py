"""Tables that outlive what they were taken from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tracebraid.model.compact import compact

_PROGRAM = """
import os
from pathlib import Path
import polars as pl
from tracebraid.model.compact import compact
kept = []
for number in range(200):
    trace = pl.DataFrame({"name": [f"{number} of {row}, a name of some length" * 20 for row in range(1_000)]})
    kept.append(%s(trace[[1, 2]]))
print(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE"))
"""


def test_the_table_stays_as_it_is() -> None:
    frame = pl.DataFrame(
        {
            "a name longer than twelve": ["long enough to be referred to", None, ""],
            "rank": [1, 2, None],
            "object": pl.Series([object(), None, 3], dtype=pl.Object),
            "code": pl.Series(["a", "b", None], dtype=pl.Categorical),
            "ranks": [[1, 2], None, []],
        }
    )
    found = compact(frame)
    assert found.schema == frame.schema
    for name in frame.columns:
        assert found.get_column(name).to_list() == frame.get_column(name).to_list()


@pytest.mark.parametrize("frame", [pl.DataFrame(), pl.DataFrame({"a": pl.Series([], dtype=pl.String)})])
def test_an_empty_table_stays_empty(frame: pl.DataFrame) -> None:
    assert compact(frame).equals(frame)


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="says what a process holds")
def test_the_text_of_what_it_was_taken_from_is_released() -> None:
    def held(kept: str) -> int:
        run = subprocess.run(
            [sys.executable, "-c", _PROGRAM % kept], capture_output=True, text=True, check=True
        )
        return int(run.stdout)

    assert held("compact") * 1.5 < held("")
