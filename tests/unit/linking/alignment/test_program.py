"""Are two traces of one program told from those of two, at a cost that does not grow with the depth of nesting?"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import growth
from tracebraid.linking.alignment.op_sequences import OpSequence
from tracebraid.linking.alignment.program import depths_of, program_of

SIZE, GROWTH = 20_000, 8
LINEAR_WITH_ROOM = 3
"""Linear time grows by 1 times the size, n log n by 1.3 times, quadratic by 8 times."""


def sequence(parents: list[int | None], names: list[str] | None = None) -> OpSequence:
    count = len(parents)
    return OpSequence(
        pl.DataFrame(
            {
                "id": range(count),
                "thread": [1] * count,
                "parent": parents,
                "name": names or [f"op {i % 5}" for i in range(count)],
            },
            schema_overrides={"parent": pl.Int64},
        )
    )


@given(st.lists(st.integers(-1, 30), max_size=60))
def test_the_depth_is_the_number_of_ancestors(choices: list[int]) -> None:
    parent = [choice if choice < row else row - 1 for row, choice in enumerate(choices)]
    expected: list[int] = []
    for above in parent:
        expected.append(0 if above < 0 else expected[above] + 1)
    assert depths_of(np.array(parent, dtype=np.int64)).tolist() == expected


def test_programs_differ_by_names_and_by_nesting() -> None:
    chain, flat = sequence([None, 0, 1]), sequence([None, 0, 0])
    assert program_of(chain) == program_of(sequence([None, 0, 1]))
    assert program_of(chain) != program_of(flat)
    assert program_of(chain) != program_of(sequence([None, 0, 1], ["a", "b", "c"]))


def passes_of(depth: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often all rows are gone through for a chain so deep."""
    passes: list[int] = []
    flatnonzero = np.flatnonzero

    def counted(rows: np.ndarray) -> np.ndarray:
        passes.append(1)
        return flatnonzero(rows)

    with monkeypatch.context() as patch:
        patch.setattr("tracebraid.linking.alignment.program.np.flatnonzero", counted)
        depths_of(np.arange(depth, dtype=np.int64) - 1)
    return len(passes)


def test_the_passes_grow_with_the_bits_of_the_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes_of(1000, monkeypatch) <= 11
    assert passes_of(64_000, monkeypatch) <= passes_of(1000, monkeypatch) + 6


def test_deep_nesting_costs_no_more_than_linear_time_with_room() -> None:
    small, large = (sequence([None, *range(size - 1)]) for size in (SIZE, SIZE * GROWTH))
    assert growth(program_of, small, large) < GROWTH * LINEAR_WITH_ROOM
