"""Values at rows of a column, and distinct rows of several."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.model.rows import at_rows, distinct_rows


@pytest.mark.parametrize(
    ("values", "rows", "found"),
    [
        (["a", "b"], [1, -1, 0, 1], ["b", None, "a", "b"]),
        (["a", None], [1, 0], [None, "a"]),
        (["a"], [-1, -1], [None, None]),
        (["a"], [], []),
        ([], [-1], [None]),
        ([], [], []),
    ],
)
@pytest.mark.parametrize("dtype", [pl.String(), pl.Categorical()])
def test_a_row_of_minus_one_is_null(
    dtype: pl.DataType, values: list[str | None], rows: list[int], found: list[str | None]
) -> None:
    column = pl.Series("name", values, dtype=dtype)
    taken = at_rows(column, np.array(rows, dtype=np.int64))
    assert (taken.name, taken.dtype) == ("name", dtype)
    assert taken.to_list() == found


def test_a_row_beyond_the_column_is_an_error() -> None:
    with pytest.raises(pl.exceptions.OutOfBoundsError):
        at_rows(pl.Series(["a"]), np.array([1]))


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 7]))))
def test_distinct_rows_are_a_sorted_set(rows: list[tuple[int, int, int]]) -> None:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    columns, number = distinct_rows(*table)
    expected = sorted(set(rows))
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert number.tolist() == [expected.index(row) for row in rows]
