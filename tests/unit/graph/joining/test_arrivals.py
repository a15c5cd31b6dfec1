"""Who waits for whom in a collective, by times and roles."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tracebraid.graph.joining.arrivals import arrivals

TOLERANCE_NS = 100


def members(rows: list[tuple[int, bool, bool]]) -> pl.DataFrame:
    """Members by collective, and whether each sends and receives."""
    found = pl.DataFrame(rows, schema=["collective", "sends", "receives"], orient="row")
    return found.with_row_index("activity").with_columns(
        pl.col("activity").cast(pl.Int64), tolerance_ns=pl.lit(TOLERANCE_NS)
    )


def all_to_all(count: int, collective: int = 0) -> list[tuple[int, bool, bool]]:
    return [(collective, True, True)] * count


@pytest.mark.parametrize(
    ("rows", "spans", "arrives", "waits"),
    [
        (all_to_all(2), [(0, 50), (30, 60)], [True, True], [True, True]),
        ([(0, True, False), (0, False, True)], [(0, 50), (30, 60)], [True, True], [True, True]),
        ([(0, True, False), (0, False, True)], [(0, 10), (30, 60)], [True, False], [False, True]),
        (
            [(0, True, False), (0, False, True), (0, False, True)],
            [(0, 90), (10, 40), (60, 95)],
            [True, False, False],
            [False, True, True],
        ),
        (all_to_all(2), [(0, 50), (100, 160)], [True, True], [False, True]),
    ],
    ids=["all", "rendezvous", "eager send", "root of a tree", "within what clocks err"],
)
def test_who_arrives_and_who_waits(
    rows: list[tuple[int, bool, bool]], spans: list[tuple[int, int]], arrives: list[bool], waits: list[bool]
) -> None:
    found = arrivals(members(rows), np.array(spans).reshape(-1))
    assert found.arrives.tolist() == arrives
    assert found.waits.tolist() == waits
    assert not len(found.contradicted)
    assert found.clamped == sum(
        not waited and receives for waited, (_, _, receives) in zip(waits, rows, strict=True)
    )


def test_a_collective_that_times_contradict_is_left_out_and_the_others_stay() -> None:
    rows = all_to_all(2, 4) + all_to_all(2, 7)
    found = arrivals(members(rows), np.array([0, 50, 500, 560, 600, 700, 650, 700]))
    assert found.contradicted.tolist() == [4]
    assert found.members.get_column("activity").to_list() == [2, 3]
    assert found.members.get_column("number").to_list() == [0, 0]
    assert found.arrival_ns.tolist() == [650]


def test_a_damaged_member_without_duration_does_not_contradict_the_others() -> None:
    found = arrivals(members(all_to_all(3)), np.array([0, 0, 500, 600, 550, 600]))
    assert not len(found.contradicted)
    assert found.members.get_column("activity").to_list() == [1, 2]


def test_nothing_is_joined_of_no_members_and_of_single_members() -> None:
    for rows in ([], [(0, True, True)]):
        found = arrivals(members(rows) if rows else members(all_to_all(1)).clear(), np.array([0, 1]))
        assert found.members.is_empty()
        assert not len(found.arrival_ns)
