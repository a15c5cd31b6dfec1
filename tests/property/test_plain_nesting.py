"""The nesting of plain threads against the walk through any."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.growth import growth
from tracebraid.linking import nesting
from tracebraid.linking.plain_nesting import HostRows, plain_nesting
from tracebraid.linking.rounding import TOLERANCE_NS

_FRAME, _OP, _CALL = 0, 1, 2
_LEAST_SHARE = 3
"""Of the drawn threads, one in so many at least is to be plain, or the comparison shows little."""

Drawn = list[tuple[int, int, int, int]]
"""Lane, start, duration and kind of each event."""

drawn_events = st.lists(
    st.tuples(
        st.integers(0, 1), st.integers(0, 14), st.integers(0, 8), st.sampled_from([_OP, _OP, _CALL, _FRAME])
    ),
    max_size=10,
)


def rows_of(drawn: Drawn, scale: int) -> tuple[HostRows, np.ndarray[tuple[int], np.dtype[np.int8]]]:
    lane, start, duration, kind = (np.array([event[i] for event in drawn], dtype=np.int64) for i in range(4))
    start, end = start * scale, (start + duration) * scale
    order = np.lexsort((np.where(kind == _FRAME, -end, 0), kind, start, lane))
    lane, start, end, kind = (column[order] for column in (lane, start, end, kind))
    return HostRows(lane, start, end, kind == _OP, kind == _FRAME), kind.astype(np.int8)


@settings(deadline=None, derandomize=True, max_examples=250)
@given(drawn_events, st.sampled_from([1, TOLERANCE_NS // 2, 100 * TOLERANCE_NS]))
def test_plain_threads_nest_as_the_walk_says(drawn: Drawn, scale: int) -> None:
    rows, kind = rows_of(drawn, scale)
    columns = (rows.lane, rows.start, rows.end, kind)
    walked = nesting._walk(*(column.tolist() for column in columns))
    for found, expected in zip(nesting._nested(rows, kind), walked, strict=True):
        assert found.tolist() == expected.tolist()


def test_many_threads_are_plain() -> None:
    """So that the comparison above compares something: threads of a real program are plain, but for Python frames."""
    generator = np.random.default_rng(0)
    plain = 0
    for _ in range(300):
        drawn = [
            (0, int(s), int(d), _OP)
            for s, d in zip(generator.integers(0, 14, 4), generator.integers(0, 4, 4), strict=True)
        ]
        plain += bool(plain_nesting(rows_of(drawn, 100)[0]).is_plain.all())
    assert plain >= 300 // _LEAST_SHARE


def test_times_that_no_number_can_hold_one_after_the_other_are_not_plain() -> None:
    rows, _ = rows_of([(0, 0, 1, _OP), (1, 1 << 61, 1, _OP)], 1)
    assert not plain_nesting(rows).is_plain.any()


def test_deep_nesting_grows_as_the_number_of_events() -> None:
    def nested(depth: int) -> HostRows:
        return rows_of([(0, level, 2 * (depth - level), _OP) for level in range(depth)], 1)[0]

    assert growth(plain_nesting, nested(20_000), nested(100_000)) < 5 * 3
