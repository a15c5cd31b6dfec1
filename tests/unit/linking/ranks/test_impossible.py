"""A match by order whose members miss each other on known clocks is taken back; others stay."""

from __future__ import annotations

import polars as pl
import pytest

from tracebraid.linking.ranks.impossible import without_impossible
from tracebraid.model.collectives.codes import SAME_CLOCK_NS, ClockMethod, CollectiveType, MatchMethod

WIDTH_NS = 50_000


def judged(
    gap_ns: int,
    kind: CollectiveType = CollectiveType.ALL_REDUCE,
    by: MatchMethod = MatchMethod.ALIGNED_ORDER,
    clock: ClockMethod = ClockMethod.COLLECTIVES,
) -> tuple[list[int | None], int]:
    """The collectives of two members, of which the later starts that long after the other's end."""
    members = pl.DataFrame(
        {
            "rank": [0, 1],
            "collective": [0, 0],
            "type": [kind.value] * 2,
            "start_ns": [0, 1_000 + gap_ns],
            "end_ns": [1_000, 2_000 + gap_ns],
        }
    )
    collectives = pl.DataFrame({"collective": [0], "method": [by.value]})
    clocks = pl.DataFrame(
        {
            "rank": [0, 1],
            "method": [ClockMethod.REFERENCE.value, clock.value],
            "offset_low_ns": [0, -WIDTH_NS // 2],
            "offset_high_ns": [0, WIDTH_NS // 2],
        }
    )
    found, left = without_impossible(members, collectives, clocks)
    return found.get_column("collective").to_list(), left.height


@pytest.mark.parametrize("kind", [CollectiveType.ALL_REDUCE, CollectiveType.ALL_TO_ALL])
def test_members_that_miss_each_other_beyond_the_clocks_widths_are_unmatched(kind: CollectiveType) -> None:
    assert judged(SAME_CLOCK_NS + WIDTH_NS + 1, kind) == ([None, None], 0)
    assert judged(SAME_CLOCK_NS + WIDTH_NS, kind) == ([0, 0], 1)


def test_what_numbers_say_or_unknown_clocks_cannot_judge_stays() -> None:
    far = 10**9
    assert judged(far, by=MatchMethod.GROUP_SEQUENCE) == ([0, 0], 1)
    assert judged(far, clock=ClockMethod.UNKNOWN) == ([0, 0], 1)
    assert judged(far, CollectiveType.BROADCAST) == ([0, 0], 1)
