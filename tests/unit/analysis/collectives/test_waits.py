"""Waiting, transfer and rest of the members of a collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from tests.unit.analysis.collectives.made import linked_ranks, member
from tracebraid.analysis.collectives.transfers.waits import waits
from tracebraid.model.collectives.codes import USUAL_DRIFT_PPM
from tracebraid.model.collectives.transfer_method import TransferMethod

UNKNOWN: Mapping[str, object] = {"method": "unknown"}


def measured(offset_width: int, host: str = "b") -> dict[str, object]:
    """A clock of another host, known to an interval."""
    return {
        "host": host,
        "method": "collectives",
        "offset_ns": 0,
        "offset_low_ns": 0,
        "offset_high_ns": offset_width,
    }


REFERENCE = {"host": "a", "method": "reference", "offset_ns": 0, "offset_low_ns": 0, "offset_high_ns": 0}


def parts(
    rows: Sequence[Mapping[str, object]], clocks: Mapping[int, Mapping[str, object]] | None = None
) -> list[tuple[object, ...]]:
    """Waiting, transfer, rest and whom it waited for, of each rank."""
    found = waits(linked_ranks(rows, clocks))
    assert found.get_column("dur_ns").equals(
        (pl.select(found["waiting_ns"].fill_null(0) + found["transfer_ns"] + found["rest_ns"])).to_series()
    )
    return found.select("waiting_ns", "transfer_ns", "rest_ns", "waited_for").rows()


def test_all_wait_for_the_last_that_arrives() -> None:
    rows = [member(0, 100, 190), member(1, 150, 200), member(2, 120, 195)]
    assert parts(rows) == [(50, 40, 0, 1), (0, 50, 0, None), (30, 45, 0, 1)]
    found = waits(linked_ranks(rows))
    assert found.get_column("late_by_ns").to_list() == [0, 50, 20]
    assert set(found.get_column("method")) == {TransferMethod.LAST_ARRIVAL.value}
    assert found.get_column("clock_width_ns").to_list() == [0, 0, 0]


def test_nobody_waits_where_all_arrive_at_once() -> None:
    assert parts([member(0, 100, 190), member(1, 100, 190)]) == [(0, 90, 0, None), (0, 90, 0, None)]


def test_of_ranks_that_arrive_last_together_it_is_the_lowest_that_is_waited_for() -> None:
    assert parts([member(rank, start, 200) for rank, start in ((0, 100), (1, 150), (2, 150))])[0][3] == 1


@pytest.mark.parametrize("clock", [UNKNOWN, measured(61), {"host": "b", "method": "collectives"}])
def test_where_clocks_are_not_known_the_shortest_member_is_the_transfer(clock: Mapping[str, object]) -> None:
    # The clock of rank 1 is far off: it is the last to arrive, since it is there for the shortest time.
    rows = [member(0, 100, 200), member(1, 9_000, 9_060)]
    assert parts(rows, {0: REFERENCE, 1: clock}) == [(40, 60, 0, 1), (0, 60, 0, None)]
    found = waits(linked_ranks(rows, {0: REFERENCE, 1: clock}))
    assert set(found.get_column("method")) == {TransferMethod.SHORTEST_MEMBER.value}
    assert found.get_column("late_by_ns").to_list() == [0, 40]


def test_a_clock_known_better_than_the_shortest_member_is_used() -> None:
    rows = [member(0, 100, 200), member(1, 150, 210)]
    assert parts(rows, {0: REFERENCE, 1: measured(60)}) == [(50, 50, 0, 1), (0, 60, 0, None)]


def test_the_interval_of_a_clock_grows_with_that_of_its_drift() -> None:
    drifting = {**measured(10), "at_ns": 0, "drift_low_ppm": -1.0, "drift_high_ppm": 1.0}
    rows = [member(0, 5_000_000, 5_000_100), member(1, 5_000_000, 5_000_100)]
    found = waits(linked_ranks(rows, {0: REFERENCE, 1: drifting}))
    assert found.get_column("clock_width_ns").to_list() == [20, 20]


def test_a_drift_that_is_not_measured_may_be_the_usual_both_ways() -> None:
    start_ns = 5_000_000
    rows = [member(0, start_ns, start_ns + 100), member(1, start_ns, start_ns + 100)]
    found = waits(linked_ranks(rows, {0: REFERENCE, 1: {**measured(10), "at_ns": 0}}))
    grown = round(2 * USUAL_DRIFT_PPM * start_ns / 1e6)
    assert found.get_column("clock_width_ns").to_list() == [10 + grown] * 2


def test_ranks_of_a_host_share_a_clock_that_is_not_known_against_others() -> None:
    rows = [member(0, 100, 200), member(1, 150, 200)]
    same = {"host": "b", "method": "unknown"}
    assert parts(rows, {0: same, 1: same}) == [(50, 50, 0, 1), (0, 50, 0, None)]


def test_a_member_that_ends_before_another_begins_contradicts_the_clocks() -> None:
    rows = [member(0, 100, 200), member(1, 250, 310)]
    assert parts(rows) == [(40, 60, 0, 1), (0, 60, 0, None)]


def test_a_broadcast_is_waited_for_by_those_that_receive_it() -> None:
    sends = {"type": "broadcast", "source": 0, "group_size": 3}
    rows = [member(0, 140, 200, **sends), member(1, 100, 190, **sends), member(2, 170, 210, **sends)]
    # The first receiver is there before the root: the root has no rest.
    assert parts(rows) == [(0, 60, 0, None), (40, 50, 0, 0), (0, 40, 0, None)]
    early = [member(0, 50, 200, **sends), *rows[1:]]
    assert parts(early) == [(0, 100, 50, None), (0, 90, 0, None), (0, 40, 0, None)]


def test_a_reduce_waits_at_its_root() -> None:
    receives = {"type": "reduce", "source": 0, "group_size": 3}
    rows = [member(0, 100, 200, **receives), member(1, 130, 180, **receives), member(2, 80, 190, **receives)]
    assert parts(rows) == [(30, 70, 0, 1), (0, 50, 0, None), (0, 90, 20, None)]


def test_a_receive_waits_for_its_send() -> None:
    late = [
        member(0, 150, 200, type="send", destination=1),
        member(1, 100, 205, type="recv", source=0),
    ]
    assert parts(late) == [(0, 50, 0, None), (50, 55, 0, 0)]
    early = [member(0, 60, 200, type="send"), member(1, 100, 205, type="recv")]
    assert parts(early) == [(0, 100, 40, None), (0, 105, 0, None)]
    assert waits(linked_ranks(late)).get_column("is_bound").to_list() == [False, False]


def test_without_its_root_a_broadcast_is_told_apart_by_durations_and_waits_for_nobody_known() -> None:
    rows = [member(0, 100, 200, type="broadcast"), member(1, 150, 200, type="broadcast")]
    assert parts(rows) == [(50, 50, 0, None), (0, 50, 0, None)]


def test_receivers_whose_root_is_not_there_may_have_waited_for_it() -> None:
    sends = {"type": "broadcast", "source": 7, "group_size": 3}
    rows = [member(0, 100, 200, **sends), member(1, 150, 200, **sends)]
    assert parts(rows) == [(None, 100, 0, None), (None, 50, 0, None)]
    found = waits(linked_ranks(rows))
    assert set(found.get_column("method")) == {TransferMethod.DURATION.value}
    assert found.get_column("is_bound").all()


@pytest.mark.parametrize(("size", "waiting", "bound"), [(2, None, True), (1, 0, False), (None, None, None)])
def test_a_single_member_bounds_the_transfer(
    size: int | None, waiting: int | None, bound: bool | None
) -> None:
    for collective in (None, 0):
        found = waits(linked_ranks([member(3, 100, 200, collective, group_size=size)]))
        assert found.select("waiting_ns", "transfer_ns", "is_bound").rows() == [(waiting, 100, bound)]


@pytest.mark.parametrize(
    ("every", "size", "bound"),
    [("[0,1,2]", 3, True), ("[0,1]", 2, False), (None, 3, True), (None, 2, False), (None, None, None)],
)
def test_the_transfer_is_a_bound_where_a_rank_is_missing(
    every: str | None, size: int | None, bound: bool | None
) -> None:
    given = {"group_ranks": every, "group_size": size}
    found = waits(linked_ranks([member(0, 100, 200, **given), member(1, 150, 200, **given)]))
    assert found.get_column("is_bound").to_list() == [bound, bound]


def test_a_member_that_ends_before_it_begins_takes_no_time() -> None:
    assert parts([member(0, 100, 90), member(1, 80, 120)]) == [(0, 0, 0, None), (20, 20, 0, 0)]


def test_a_damaged_member_of_no_duration_is_not_the_shortest() -> None:
    rows = [member(0, 100, 200), member(1, 140, 200), member(2, 9_000, 9_000)]
    assert parts(rows) == [(40, 60, 0, 1), (0, 60, 0, None), (0, 0, 0, None)]
