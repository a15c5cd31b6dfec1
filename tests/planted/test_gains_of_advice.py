"""Advice ranked by replays of the graph: gains of planted patterns, by the runs of the programs themselves."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest

from tests.planted.patterns import PATTERNS
from tests.planted.training_loop import STEPS
from tracebraid import api
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.simulation.without_evidence.taken_away import TAKEN_AWAY

OF_A_RANK = sorted(name for name in TAKEN_AWAY if len(PATTERNS[name].scenes) == 1)
_CALLS_NS = 20_000


@cache
def linked(name: str) -> LinkedTrace:
    return PATTERNS[name].scenes[0].linked()


def items_of(trace: LinkedTrace, by_graph: bool = True) -> pl.DataFrame:
    return api.advise(trace, 0.0, by_graph=by_graph).items


def test_each_is_a_detector() -> None:
    assert set(TAKEN_AWAY) <= set(api.known_detectors().by_name)


@pytest.mark.parametrize("name", OF_A_RANK)
def test_what_a_pattern_costs_is_gained_in_the_replay(name: str) -> None:
    items = items_of(linked(name)).filter(pl.col("detector") == name)
    assert items.height
    least, _ = PATTERNS[name].saving_ns
    gain, saving = (
        items.get_column(column).sum() * STEPS for column in ("gain_per_step_ns", "saving_per_step_ns")
    )
    print(name, least, gain, saving)
    assert gain > 0
