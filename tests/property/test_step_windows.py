"""The step of a moment, whether steps overlap or not; and what of intervals is owned and shared."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tracebraid.analysis.time.intervals import cover_of, owned
from tracebraid.analysis.time.step_windows import in_windows, step_of_moments

steady = settings(deadline=None, derandomize=True, max_examples=200, database=None)

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=8)
SCHEMA = pl.Schema({"step": pl.String(), "start_ns": pl.Int64(), "end_ns": pl.Int64()})


@steady
@given(PAIRS, st.booleans(), st.lists(st.integers(-2, 60), max_size=20))
def test_the_step_of_a_moment_is_the_last_to_start_of_those_that_hold_it(
    pairs: list[tuple[int, int]], apart: bool, moments: list[int]
) -> None:
    spans = sorted((start, start + length) for start, length in pairs)
    if apart:
        spans = [(a, min(b, c)) for (a, b), (c, _) in zip(spans, [*spans, (99, 99)][1:], strict=True)]
    windows = pl.DataFrame(
        [(f"step {i}", *span) for i, span in enumerate(spans)], schema=SCHEMA, orient="row"
    )
    found = step_of_moments(pl.DataFrame({"ts_ns": moments}, schema={"ts_ns": pl.Int64}), windows)
    expected = [
        next((f"step {i}" for i, (a, b) in reversed(list(enumerate(spans))) if a <= moment < b), None)
        for moment in moments
    ]
    assert found.get_column("step").to_list() == expected
    assert found.get_column("step").dtype == pl.String
    assert found.get_column("ts_ns").to_list() == moments


@steady
@given(PAIRS, st.lists(st.integers(-2, 60), max_size=20))
def test_a_moment_is_in_each_window_that_holds_it(pairs: list[tuple[int, int]], moments: list[int]) -> None:
    spans = sorted((start, start + length) for start, length in pairs)
    windows = pl.DataFrame(
        [(f"step {i}", *span) for i, span in enumerate(spans)], schema=SCHEMA, orient="row"
    )
    rows = pl.DataFrame({"at": [None, *moments]}, schema={"at": pl.Int64})
    found = in_windows(rows, "at", windows)
    assert found.select("step", "at").rows() == [
        (f"step {i}", moment)
        for i, (start, end) in enumerate(spans)
        for moment in sorted(moments)
        if start <= moment < end
    ]
    assert found.columns == ["at", *SCHEMA]


def bounds(pairs: list[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = np.array([start for start, _ in pairs], dtype=np.int64)
    return starts, starts + np.array([length for _, length in pairs], dtype=np.int64)


def moments_of(pairs: list[tuple[int, int]]) -> set[int]:
    return {moment for start, length in pairs for moment in range(start, start + length)}


@steady
@given(PAIRS)
def test_each_moment_is_owned_by_the_first_to_start(pairs: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs, key=lambda pair: pair[0])
    starts, ends = owned(*bounds(pairs))
    taken: set[int] = set()
    for (start, length), a, b in zip(pairs, starts.tolist(), ends.tolist(), strict=True):
        assert set(range(a, b)) == set(range(start, start + length)) - taken
        taken |= set(range(start, start + length))


@steady
@given(PAIRS, PAIRS, PAIRS)
def test_what_two_covers_share_within_windows(
    first: list[tuple[int, int]], second: list[tuple[int, int]], windows: list[tuple[int, int]]
) -> None:
    shared = cover_of(*bounds(first)).shared_within(cover_of(*bounds(second)), *bounds(windows))
    both = moments_of(first) & moments_of(second)
    assert shared.tolist() == [len(both & set(range(a, a + n))) for a, n in windows]
