"""Threads that take turns, and threads that merely run side by side."""

from __future__ import annotations

import pytest

from tests.builders import Json, call, op
from tests.unit.linking.dependencies.test_dependencies import evidence_of, found

FORWARD = [op("forward", 0, 500, Sequence_number=3), op("loss", 500, 100)]
BACKWARD = [
    op("MmBackward0", 700, 300, tid=2, Sequence_number=3, Fwd_thread_id=1),
    op("Accumulate", 1000, 500, tid=2),
]
OPTIMIZER = [op("step", 1600, 200)]


def test_backward_follows_the_thread_that_fell_silent_and_hands_back() -> None:
    events = [*FORWARD, *BACKWARD, *OPTIMIZER]
    assert found(events, "inter_thread") == [
        ("loss", "end", "MmBackward0", "start"),
        ("Accumulate", "end", "step", "start"),
    ]
    assert evidence_of(events, "inter_thread") == [
        "thread 1 is silent when its backward begins here",
        "thread 2, which runs the backward of this one, is silent meanwhile",
    ]


def test_an_annotation_around_backward_is_where_the_turns_begin_and_end() -> None:
    around = op("## backward ##", 610, 920, cat="user_annotation")
    assert found([*FORWARD, around, *BACKWARD, *OPTIMIZER], "inter_thread") == [
        ("Accumulate", "end", "## backward ##", "end"),
        ("## backward ##", "start", "MmBackward0", "start"),
    ]


def test_the_calling_thread_may_run_a_part_of_backward_itself() -> None:
    events = [*FORWARD, *BACKWARD, op("on_the_cpu", 1200, 10), *OPTIMIZER]
    assert found(events, "inter_thread") == [
        ("loss", "end", "MmBackward0", "start"),
        ("Accumulate", "end", "step", "start"),
    ]


@pytest.mark.parametrize("kind", ["op", "call"])
def test_a_thread_that_is_in_an_op_or_a_call_is_not_silent(kind: str) -> None:
    busy = op("long", 620, 2000) if kind == "op" else call("cudaDeviceSynchronize", 620, 2000, 9)
    assert found([*FORWARD, busy, *BACKWARD], "inter_thread") == []


PLAIN = [op("a1", 0, 300), op("b1", 400, 300, tid=2), op("a2", 900, 300)]


def test_two_threads_that_alternate_wait_for_each_other() -> None:
    assert found(PLAIN, "inter_thread") == [("a1", "end", "b1", "start"), ("b1", "end", "a2", "start")]
    assert (
        evidence_of(PLAIN, "inter_thread")[0]
        == "thread 1 alternates with this one, and all others are silent meanwhile"
    )


@pytest.mark.parametrize(
    "other",
    [
        [op("c", 0, 2000, tid=3)],
        [op("c", 450, 10, tid=3), op("c", 1000, 10, tid=3)],
    ],
    ids=["busy all along", "alive during both turns"],
)
def test_with_a_third_thread_alive_nobody_knows_who_handed_over(other: list[Json]) -> None:
    assert found([*PLAIN, *other], "inter_thread") == []


def test_threads_of_a_pool_that_run_one_at_a_time_do_not_wait_for_each_other() -> None:
    events = [op(f"task{i}", 400 * i, 300, tid=1 + i % 7) for i in range(20)]
    assert found(events, "inter_thread") == []


def test_threads_that_run_at_once_have_no_order() -> None:
    assert found([op("a", 0, 300), op("b", 100, 300, tid=2), op("c", 350, 300)], "inter_thread") == []


def test_short_silences_between_ops_hand_nothing_over() -> None:
    """Two busy threads whose small ops happen not to overlap."""
    events = [op(f"t{tid}_{i}", 20 * i + 10 * (tid - 1), 5, tid=tid) for i in range(100) for tid in (1, 2)]
    assert found(events, "inter_thread") == []


def test_one_thread_has_nobody_to_wait_for() -> None:
    assert found([op("a", 0, 300), op("b", 900, 300)], "inter_thread") == []


def test_a_thread_without_ops_takes_no_turns() -> None:
    """Such as the watchdog of a communication library, which queries events."""
    assert (
        found([op("a", 0, 300), call("cudaEventQuery", 600, 3, 1, tid=3), op("b", 900, 300)], "inter_thread")
        == []
    )
