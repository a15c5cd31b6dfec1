"""What is derived of linked ranks is computed once, and never another job's."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema.ranks import CLOCKS, MATCHED_COLLECTIVES, MEMBERS, RANKS

_ASKED: list[int] = []


def _height(ranks: LinkedRanks) -> int:
    _ASKED.append(ranks.members.height)
    return ranks.members.height


def _gather(linked: LinkedTrace, _: str) -> pl.DataFrame:
    return pl.DataFrame({"rank": [linked.rank]})


def _ranks() -> LinkedRanks:
    return LinkedRanks(RANKS.empty(), CLOCKS.empty(), MEMBERS.empty(), MATCHED_COLLECTIVES.empty())


def test_it_is_computed_once_with_whatever_parts() -> None:
    _ASKED.clear()
    ranks = _ranks()
    assert ranks.derived(_height) == 0
    other = ranks.with_parts({_gather: pl.DataFrame()})
    assert other.derived(_height) == 0
    assert list(other.parts) == [_gather]
    assert _ASKED == [0]


def test_it_is_computed_anew_of_other_members() -> None:
    ranks = _ranks()
    assert ranks.derived(_height) == 0
    member = MEMBERS.conform(pl.DataFrame({"rank": [0], "event_id": [1]}), fill_missing=True)
    assert replace(ranks, members=member).derived(_height) == 1
