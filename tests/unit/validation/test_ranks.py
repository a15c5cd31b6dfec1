"""Is it said which ranks of the world are missing, and where worlds differ?"""

from __future__ import annotations

import pytest

from tests.unit.validation.made import codes
from tracebraid.validation.ranks import rank_findings


@pytest.mark.parametrize(
    "worlds",
    [{}, {0: None}, {0: None, 7: None}, {0: 1}, {0: 2, 1: 2}, {0: 2, 1: None}],
    ids=str,
)
def test_a_whole_world_has_nothing_to_say(worlds: dict[int, int | None]) -> None:
    assert rank_findings(worlds, "job") == []


def test_ranks_that_are_missing_are_named_and_counted() -> None:
    (found,) = rank_findings({0: 4, 2: None}, "job")
    assert (found.code, found.path, found.details["missing"]) == ("rank-missing", "job", 2)
    assert found.message == "of 4 ranks, 2 are missing: 1, 3"


@pytest.mark.parametrize(
    ("world", "shown"), [(9, "1, 2, 3, 4, 5, 6, 7, 8"), (10, "1, 2, 3, 4, 5, 6, 7, 8, ...")]
)
def test_of_many_missing_ranks_the_first_eight_are_named(world: int, shown: str) -> None:
    (found,) = rank_findings({0: world}, "job")
    assert found.message.endswith(f"missing: {shown}")
    assert found.details["missing"] == world - 1


def test_traces_of_two_worlds_differ_and_the_larger_one_counts() -> None:
    found = rank_findings({0: 2, 1: 4}, "job")
    assert codes(found) == ["world-differs", "rank-missing"]
    assert "worlds of 2, 4 ranks" in found[0].message
    assert found[1].message.endswith("missing: 2, 3")


def test_a_rank_beyond_the_world_is_of_another_run() -> None:
    found = rank_findings({0: 2, 1: 2, 2: 2, 5: None}, "job")
    assert [(one.code, one.count) for one in found] == [("world-differs", 2)]
    assert "rank 2 is beyond the world of 2 ranks" in found[0].message


def test_the_last_rank_of_a_world_is_not_beyond_it() -> None:
    assert codes(rank_findings({3: 4}, "job")) == ["rank-missing"]
    assert codes(rank_findings({4: 4}, "job")) == ["world-differs", "rank-missing"]
