"""How much of some collectives work behind them can hide."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tracebraid.analysis.antipatterns.communication.hidable import hidden_most

amounts = st.lists(st.integers(0, 50), max_size=6)


def test_work_behind_the_last_hides_it_and_what_is_left_the_others() -> None:
    found = hidden_most(np.array([80, 80, 80, 80]), np.array([300, 200, 100, 0]))
    assert found.tolist() == [80, 80, 80, 0]
    assert hidden_most(np.array([100, 100]), np.array([120, 120])).sum() == 120
    assert hidden_most(np.array([], dtype=np.int64), np.array([], dtype=np.int64)).tolist() == []


@settings(deadline=None, derandomize=True)
@given(exposed=amounts, more=amounts)
def test_it_is_the_most_that_no_suffix_forbids(exposed: list[int], more: list[int]) -> None:
    count = min(len(exposed), len(more))
    spent = np.array(exposed[:count], dtype=np.int64)
    there = np.cumsum(np.array(more[:count], dtype=np.int64)[::-1])[::-1]
    found = hidden_most(spent, there)
    assert ((found >= 0) & (found <= spent)).all()
    left, total = 0, 0
    for row in reversed(range(count)):
        left = int(there[row]) - total
        total += min(int(spent[row]), left)
        assert found[row:].sum() <= there[row]
    assert found.sum() == total
