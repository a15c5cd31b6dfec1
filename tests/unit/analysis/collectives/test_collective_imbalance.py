"""Sizes of each rank in all-to-alls."""

from __future__ import annotations

import pytest

from tests.unit.analysis.collectives.made import linked_ranks, member
from tracebraid.analysis.collectives.collective_imbalance import collective_imbalance


def exchange(rank: int, given: str | None, got: str | None, **columns: object) -> dict[str, object]:
    """A member of an all-to-all of three ranks, 10, 11 and 12; a part is of 4 bytes."""
    sizes = (
        sum(int(part) for part in text.strip("[]").split(",")) * 4 if text else 24 for text in (given, got)
    )
    in_bytes, out_bytes = sizes
    return member(
        rank,
        0,
        100,
        type="all_to_all",
        group_size=3,
        group_ranks="[10,11,12]",
        **{"in_split": given, "out_split": got, "in_bytes": in_bytes, "out_bytes": out_bytes, **columns},
    )


ROWS = [
    exchange(10, "[1, 5, 0]", "[1, 2, 3]"),
    exchange(11, "[2, 10, 0]", "[5, 10, 3]"),
    exchange(12, "[3, 3, 0]", "[0, 0, 0]"),
]


def test_the_rank_that_gets_and_the_one_that_gives_the_most() -> None:
    found = collective_imbalance(linked_ranks(ROWS)).row(0, named=True)
    assert found["is_uneven"]
    assert (found["received_max_bytes"], found["received_most"]) == (18 * 4, 11)
    assert found["received_mean_bytes"] == pytest.approx(24 * 4 / 3)
    assert found["received_imbalance"] == pytest.approx(18 / 8)
    assert (found["sent_max_bytes"], found["sent_most"]) == (12 * 4, 11)
    assert found["sent_imbalance"] == pytest.approx(12 / 8)


def test_of_missing_ranks_it_says_what_the_others_exchange_with_them() -> None:
    found = collective_imbalance(linked_ranks(ROWS[:1])).row(0, named=True)
    assert (found["received_most"], found["received_max_bytes"]) == (11, 20)
    assert (found["sent_most"], found["sent_max_bytes"]) == (12, 12)


@pytest.mark.parametrize("split", [None, "[]", "nonsense", "[1, x]", "[-1, 2, 3]"])
def test_without_splits_all_ranks_have_the_same(split: str | None) -> None:
    rows = [{**row, "in_split": split, "out_split": split, "in_bytes": 24, "out_bytes": 24} for row in ROWS]
    found = collective_imbalance(linked_ranks(rows)).row(0, named=True)
    assert not found["is_uneven"]
    assert (found["received_imbalance"], found["sent_imbalance"]) == (1.0, 1.0)


def test_nothing_sent_has_no_imbalance() -> None:
    rows = [exchange(rank, "[0, 0, 0]", "[0, 0, 0]") for rank in (10, 11, 12)]
    found = collective_imbalance(linked_ranks(rows)).row(0, named=True)
    assert (found["received_imbalance"], found["sent_max_bytes"]) == (None, 0)


def test_unknown_sizes_and_other_collectives_are_left_out() -> None:
    rows = [exchange(10, None, None, in_bytes=None, out_bytes=None), member(11, 0, 9, 1, in_bytes=8)]
    assert collective_imbalance(linked_ranks(rows)).is_empty()


def test_what_is_most_beyond_the_mean_comes_first() -> None:
    even = [{**row, "collective": 1, "in_split": None, "out_split": None} for row in ROWS]
    assert collective_imbalance(linked_ranks([*even, *ROWS])).get_column("collective").to_list() == [0, 1]
