"""Is there an order in which ranks never wait for each other in a circle?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracebraid.exporters.chakra.plan.consistent_order import OrderedRows, Rows, consistent_order


class Part(NamedTuple):
    rank: int
    item: int
    start: int
    end: int
    stream: int = -1


def ordered(*parts: Part, pairs: tuple[tuple[int, int], ...] = ()) -> OrderedRows:
    streams = [part.stream if part.stream >= 0 else 100 + place for place, part in enumerate(parts)]
    columns = [
        np.array(values, dtype=np.int64)
        for values in (
            [part.rank for part in parts],
            [part.item for part in parts],
            streams,
            [part.start for part in parts],
            [part.end for part in parts],
            [first for first, _ in pairs],
            [second for _, second in pairs],
        )
    ]
    return consistent_order(Rows(*columns))


def test_collectives_come_in_the_order_of_their_last_arrivals() -> None:
    found = ordered(
        Part(0, 1, 0, 90_000),
        Part(1, 1, 80_000, 90_000),
        Part(0, 0, 10_000, 50_000),
        Part(1, 0, 5_000, 50_000),
    )
    assert found.order.tolist() == [1, 1, 0, 0]
    assert not found.broken.any()


def test_what_ended_before_on_a_rank_comes_first_whatever_other_clocks_say() -> None:
    # By the clock of rank 2, item 0 arrives last of all; on rank 0 it ended before item 1 began.
    found = ordered(
        Part(0, 0, 0, 10_000),
        Part(2, 0, 500_000, 510_000),
        Part(0, 1, 20_000, 30_000),
        Part(1, 1, 20_000, 30_000),
    )
    assert found.order.tolist() == [0, 0, 1, 1]
    assert not found.broken.any()


def test_ends_that_rounding_put_behind_a_start_are_before_it() -> None:
    found = ordered(Part(0, 0, 0, 10_400), Part(1, 0, 900_000, 910_000), Part(0, 1, 10_000, 20_000))
    assert found.order.tolist() == [0, 0, 1]


def test_what_follows_on_a_stream_comes_later_though_its_times_overlap() -> None:
    found = ordered(Part(0, 0, 0, 15_000, 7), Part(1, 0, 900_000, 910_000, 7), Part(0, 1, 10_000, 20_000, 7))
    assert found.order.tolist() == [0, 0, 1]


def test_items_that_wait_for_each_other_in_a_circle_are_broken_up_and_no_others() -> None:
    found = ordered(
        *(Part(0, 0, 0, 10), Part(0, 1, 20, 30), Part(0, 2, 40, 50)),
        *(Part(1, 1, 0, 10), Part(1, 0, 20, 30), Part(1, 2, 40, 50)),
    )
    assert sorted(set(np.flatnonzero(found.broken))) in ([0, 4], [1, 3])
    order = found.order.tolist()
    assert order[:3] == sorted(order[:3])
    assert order[3:] == sorted(order[3:])
    assert order[2] == order[5]


def test_a_send_comes_before_its_receive_and_waits_for_nothing_of_it() -> None:
    # Both ranks send first and receive then: with sends that end at once there is no circle.
    found = ordered(
        *(Part(0, 0, 0, 10), Part(0, 3, 20, 30)),
        *(Part(1, 2, 0, 10), Part(1, 1, 20, 30)),
        pairs=((0, 1), (2, 3)),
    )
    assert not found.broken.any()
    send, other_receive, other_send, receive = found.order.tolist()
    assert send < receive
    assert other_send < other_receive
    assert send < other_receive
    assert other_send < receive


def test_receives_before_the_sends_that_they_wait_for_are_broken_up_with_them() -> None:
    found = ordered(
        *(Part(0, 1, 0, 10), Part(0, 2, 20, 30)),
        *(Part(1, 3, 0, 10), Part(1, 0, 20, 30)),
        pairs=((0, 1), (2, 3)),
    )
    assert int(found.broken.sum()) == 2


def test_nothing_has_an_order() -> None:
    assert not len(ordered().order)
