"""Whether two ranks' members can be of the same collectives: there are clocks by which most of them overlap."""

from __future__ import annotations

import numpy as np

from tracebraid.linking.ranks.matching.possible import can_meet

MS = 1_000_000
STEPS = np.arange(9) * 60 * MS


def test_ranks_that_a_busy_machine_wakes_one_after_the_other_meet() -> None:
    """The one waits 50 ms in each, the other is short, and either is the first to be woken in the end."""
    woken = np.random.default_rng(1).integers(0, 2 * MS, 9)
    waiting = (STEPS, STEPS + 50 * MS + woken)
    last = (STEPS + 50 * MS, STEPS + 50 * MS + 100_000)
    far = 3_600_000 * MS
    assert can_meet(waiting, (last[0] + far, last[1] + far))


def test_a_rank_that_ended_before_the_other_started_does_not_meet_it() -> None:
    """The pauses between are each another one, so that no clock makes up for all."""
    pauses = np.random.default_rng(1).integers(1 * MS, 9 * MS, 9).cumsum()
    first = (STEPS, STEPS + MS)
    assert not can_meet(first, (first[0] + pauses, first[1] + pauses))


def test_a_clock_that_drifts_along_a_line_is_no_hindrance() -> None:
    drift = (STEPS * 2e-4).astype(np.int64)
    first = (STEPS, STEPS + 50_000)
    assert can_meet(first, (first[0] + drift, first[1] + drift))
