"""Which steps are warm-up."""

from __future__ import annotations

import numpy as np
import pytest

from tracebraid.analysis.time.warm_up import warm_up


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], []),
        ([9], []),
        ([900, 100], []),
        ([900, 100, 100], [0]),
        ([900, 500, 100, 100, 100], [0, 1]),
        ([900, 100, 500, 100, 100, 100], [0]),
        ([100, 100, 100, 900, 100, 100], []),
        ([119, 100, 100, 100], []),
        ([121, 100, 100, 100], [0]),
        ([222, 220, 225], []),
        ([150, 80, 100, 120, 90], []),
        ([900, 900, 900, 100, 100, 100], [0, 1, 2]),
        ([0, 0, 0, 0], []),
        ([5, 0, 0], [0]),
    ],
)
def test_the_first_steps_that_are_slower_than_the_later_half(spans: list[int], expected: list[int]) -> None:
    found = warm_up(np.array(spans, dtype=np.int64))
    assert np.flatnonzero(found).tolist() == expected
    assert len(found) == len(spans)
