"""Merged slices stand for every event once, and hide none that is long."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.analysis.slices.merging import merged, merging_width


def _line(lengths_and_gaps: list[tuple[int, int]]) -> pl.DataFrame:
    """Slices of a line, one behind the other."""
    now, rows = 0, []
    for number, (length, gap) in enumerate(lengths_and_gaps):
        now += gap
        rows.append((number, 0, 0, now, length))
        now += length
    schema = dict.fromkeys(("event_id", "lane", "level", "ts_ns", "dur_ns"), pl.Int64())
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_few_slices_stay_as_they_are() -> None:
    slices = _line([(5, 0), (1, 1), (0, 3)])
    width = merging_width(slices, 3)
    found, rows = merged(slices, width)
    assert width == 0
    assert found.get_column("event_id").to_list() == [0, 1, 2] == rows.to_list()
    assert found.get_column("count").to_list() == [1, 1, 1]


def test_short_slices_become_a_slice_that_says_how_many_they_are() -> None:
    slices = _line([(100, 0), (1, 12), (2, 1), (3, 1), (100, 10)])
    found, rows = merged(slices, 16)
    assert found.select("start_ns", "end_ns", "count", "busy_ns", "event_id").rows() == [
        (0, 100, 1, 100, 0),
        (112, 120, 3, 6, None),
        (130, 230, 1, 100, 4),
    ]
    assert rows.to_list() == [0, 1, 1, 1, 2]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=60), st.integers(1, 60)
)
def test_every_event_is_counted_and_lines_stay_without_overlaps(
    slices: list[tuple[int, int]], most: int
) -> None:
    line = _line(slices)
    width = merging_width(line, most)
    found, rows = merged(line, width)
    assert found.height <= most
    assert found.get_column("count").sum() == len(slices)
    assert found.get_column("busy_ns").sum() == sum(length for length, _ in slices)
    ends, starts = found.get_column("end_ns").to_list(), found.get_column("start_ns").to_list()
    assert all(end <= start for end, start in zip(ends[:-1], starts[1:], strict=True))
    for (_, _, _, start, length), row in zip(line.iter_rows(), rows, strict=True):
        assert starts[row] <= start
        assert start + length <= ends[row]
    assert found.filter(pl.col("count") > 1).height == 0 or width > 0


@pytest.mark.parametrize("most", [1, 2])
def test_lines_are_not_merged_with_each_other(most: int) -> None:
    slices = _line([(1, 0)] * 6).with_columns(pl.Series("level", [0, 1] * 3))
    found, _ = merged(slices, merging_width(slices, most))
    assert found.get_column("level").to_list() == [0, 1]
    assert found.get_column("count").to_list() == [3, 3]
