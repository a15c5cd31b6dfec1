"""On a line, slices do not overlap, and each lies below what holds it."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.analysis.slices.levels import MOST_OVERLAPPING, levels_of

_SCHEMA = {"lane": pl.Int64, "ts_ns": pl.Int64, "dur_ns": pl.Int64, "depth": pl.Int64}


def _levels(slices: list[tuple[int, int, int]], depths: list[int | None] | None = None) -> pl.DataFrame:
    """The slices (lane, start, end) in their order, with their lines."""
    rows = [(lane, start, end - start) for lane, start, end in slices]
    found = [(*row, depth) for row, depth in zip(rows, depths or [None] * len(rows), strict=True)]
    frame = pl.DataFrame(found, schema=_SCHEMA, orient="row")
    frame = frame.sort("lane", "ts_ns", "dur_ns", descending=[False, False, True])
    return frame.with_columns(levels_of(frame))


def test_known_nesting_is_kept() -> None:
    found = _levels([(0, 0, 100), (0, 10, 90), (0, 20, 30), (0, 95, 99), (0, 100, 120)], [0, 1, 2, 1, 0])
    assert found.get_column("level").to_list() == [0, 1, 2, 1, 0]


def test_what_overlaps_without_nesting_takes_a_line_of_its_own() -> None:
    found = _levels([(3, 0, 10), (3, 5, 15), (3, 8, 20), (3, 15, 16), (3, 20, 30), (4, 0, 10)])
    assert found.get_column("level").to_list() == [0, 1, 2, 3, 0, 0]


def test_an_inner_slice_lies_below_what_holds_it_where_others_overlap() -> None:
    found = _levels([(0, 0, 10), (0, 5, 15), (0, 11, 14)])
    assert found.get_column("level").to_list() == [0, 1, 2]


def test_more_overlaps_than_lines_share_the_last() -> None:
    many = MOST_OVERLAPPING + 5
    found = _levels([(0, number, 1000 + number) for number in range(many)])
    assert found.height == many
    assert found.get_column("level").max() == MOST_OVERLAPPING - 1


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(0, 30)).map(
            lambda row: (row[0], row[1], row[1] + row[2])
        ),
        max_size=40,
    )
)
def test_slices_of_a_line_never_overlap_and_inner_ones_lie_lower(slices: list[tuple[int, int, int]]) -> None:
    rows = _levels(slices).iter_rows(named=True)
    drawn = [(row["lane"], row["level"], row["ts_ns"], row["ts_ns"] + row["dur_ns"]) for row in rows]
    assert len(drawn) == len(slices)
    for number, (lane, level, start, end) in enumerate(drawn):
        for other_lane, other_level, other_start, other_end in drawn[number + 1 :]:
            if lane != other_lane or other_start >= end:
                continue
            assert level != other_level
            if other_end <= end and start < other_start:
                assert other_level > level
