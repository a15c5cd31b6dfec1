"""Walks over a tree of ops against the same by following every row's ancestors."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tracebraid.model.op_tree import OpTree, op_tree

steady = settings(deadline=None, derandomize=True)

Made = tuple[list[int], list[int]]


@st.composite
def trees(draw: st.DrawFn) -> Made:
    """(the row around each row, itself at the top; a key for each row), rows in any order."""
    size = draw(st.integers(1, 40))
    order = draw(st.permutations(range(size)))
    around = list(range(size))
    for place, row in enumerate(order):
        parent = draw(st.integers(-1, place - 1))
        around[row] = row if parent < 0 else order[parent]
    return around, draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))


def tree_of(around: list[int]) -> OpTree:
    depths = [len(ancestors(around, row)) for row in range(len(around))]
    frame = pl.DataFrame(
        {
            "event_id": range(100, 100 + len(around)),
            "op_event": [None if up == row else 100 + up for row, up in enumerate(around)],
            "depth": depths,
        },
        schema_overrides={"op_event": pl.Int64},
    )
    return op_tree(frame)


def ancestors(around: list[int], row: int) -> list[int]:
    found = []
    while around[row] != row:
        row = around[row]
        found.append(row)
    return found


@steady
@given(trees())
def test_sums_are_those_of_a_row_and_all_rows_in_it(made: Made) -> None:
    around, amounts = made
    expected = [
        sum(a for other, a in enumerate(amounts) if row == other or row in ancestors(around, other))
        for row in range(len(around))
    ]
    assert tree_of(around).sums(np.array(amounts, dtype=np.int64)).tolist() == expected


@steady
@given(trees())
def test_spans_enclose_exactly_the_rows_inside(made: Made) -> None:
    around, _ = made
    first, last = tree_of(around).spans
    assert sorted(first.tolist()) == list(range(len(around)))
    for row in range(len(around)):
        inside = {other for other in range(len(around)) if row == other or row in ancestors(around, other)}
        assert {i for i, number in enumerate(first.tolist()) if first[row] <= number < last[row]} == inside


@steady
@given(trees(), st.data())
def test_the_outermost_of_a_key_have_none_of_it_around_them(made: Made, data: st.DataObject) -> None:
    around, keys = made
    rows = data.draw(st.lists(st.sampled_from(range(len(around))), unique=True))
    expected = [
        not any(up in rows and keys[up] == keys[row] for up in ancestors(around, row)) for row in rows
    ]
    found = tree_of(around).outermost(
        np.array(rows, dtype=np.int64), np.array([keys[row] for row in rows], dtype=np.int64)
    )
    assert found.tolist() == expected


def test_a_tree_of_many_levels() -> None:
    levels = 20_000
    tree = tree_of_chain(levels)
    assert tree.sums(np.ones(levels, dtype=np.int64)).tolist() == list(range(levels, 0, -1))
    every = np.arange(levels)
    assert tree.outermost(every, every % 2).tolist() == [True, True, *[False] * (levels - 2)]


def test_an_empty_tree() -> None:
    tree = op_tree(pl.DataFrame(schema={"event_id": pl.Int64, "op_event": pl.Int64, "depth": pl.Int64}))
    nothing = np.empty(0, dtype=np.int64)
    assert tree.sums(nothing).tolist() == []
    assert tree.outermost(nothing, nothing).tolist() == []


def tree_of_chain(levels: int) -> OpTree:
    rows = np.arange(levels)
    return OpTree(rows, np.maximum(rows - 1, 0), rows)
