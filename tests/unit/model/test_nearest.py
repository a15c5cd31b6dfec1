"""The walks to the nearest ancestor agree, by mapping and by arrays, at any depth."""

from __future__ import annotations

import numpy as np
import pytest

from tracebraid.model.nearest import nearest, nearest_ancestors, nearest_rows

#        0 - 1 - 2 - 3     4 - 5
PARENT = [-1, 0, 1, 2, -1, 4]


@pytest.mark.parametrize("wanted_rows", [[], [0], [1, 5], [0, 3], [2, 4], list(range(6))])
def test_arrays_and_mapping_find_the_same(wanted_rows: list[int]) -> None:
    parent, wanted = np.array(PARENT), np.isin(np.arange(6), wanted_rows)
    parent_of = {row: None if up < 0 else up for row, up in enumerate(PARENT)}
    from_itself = [nearest(row, parent_of, wanted_rows) for row in range(6)]
    from_parent = [nearest(parent_of[row], parent_of, wanted_rows) for row in range(6)]
    assert nearest_rows(parent, wanted).tolist() == [-1 if row is None else row for row in from_itself]
    assert nearest_ancestors(parent, wanted).tolist() == [-1 if row is None else row for row in from_parent]


def test_a_root_may_be_its_own_parent() -> None:
    parent, wanted = np.array([0, 0, 1]), np.array([False, True, False])
    assert nearest_rows(parent, wanted).tolist() == [-1, 1, 1]


def test_depth_does_not_matter() -> None:
    count = 100_000
    parent, wanted = np.arange(count) - 1, np.zeros(count, dtype=np.bool_)
    wanted[0] = True
    assert not nearest_rows(parent, wanted).any()
    assert nearest_ancestors(parent, wanted).tolist()[:2] == [-1, 0]
