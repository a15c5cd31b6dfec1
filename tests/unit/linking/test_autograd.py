"""Which forward op made the autograd node that a backward op runs."""

from __future__ import annotations

from tests.builders import Json, op
from tests.unit.linking.made import linked_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema import FORWARD_BACKWARD


def forward(name: str, ts: float, number: int, dur: float = 5, tid: int = 1) -> Json:
    return op(name, ts, dur, tid=tid, Sequence_number=number, Fwd_thread_id=0)


def backward(name: str, ts: float, number: int, thread: int = 1, tid: int = 9) -> Json:
    return op(name, ts, 5, tid=tid, Sequence_number=number, Fwd_thread_id=thread)


def pairs(linked: LinkedTrace) -> set[tuple[str, str]]:
    names = dict(enumerate(linked.timeline.events.get_column("name").cast(str).to_list()))
    rows = linked.forward_backward.select("forward_event", "backward_event").iter_rows()
    return {(names[one], names[other]) for one, other in rows}


def test_a_backward_op_belongs_to_the_forward_op_with_its_number() -> None:
    linked = linked_of(
        [forward("mul", 0, 1), forward("add", 10, 2), backward("Add", 50, 2), backward("Mul", 60, 1)]
    )
    assert pairs(linked) == {("mul", "Mul"), ("add", "Add")}
    assert linked.forward_backward.get_column("sequence_number").to_list() == [2, 1]


def test_of_forward_ops_that_share_a_number_the_last_to_start_made_the_node() -> None:
    linked = linked_of(
        [forward("linear", 0, 1, dur=50), forward("t", 2, 1), forward("addmm", 20, 1), backward("B", 90, 1)]
    )
    assert pairs(linked) == {("addmm", "B")}


def test_an_autograd_node_and_the_op_that_evaluates_it_have_one_forward_op() -> None:
    linked = linked_of(
        [forward("mul", 0, 1), backward("evaluate_function: Mul", 50, 1), backward("Mul", 51, 1)]
    )
    assert pairs(linked) == {("mul", "evaluate_function: Mul"), ("mul", "Mul")}


def test_a_backward_in_the_callers_own_thread_links_too() -> None:
    linked = linked_of([forward("mul", 0, 1, tid=1), backward("Mul", 50, 1, tid=1)])
    assert pairs(linked) == {("mul", "Mul")}


def test_a_backward_op_without_a_forward_op_has_no_row() -> None:
    linked = linked_of([forward("mul", 0, 1), backward("Mul", 50, 1), backward("Lost", 60, 77)])
    assert pairs(linked) == {("mul", "Mul")}


def test_a_forward_op_after_the_backward_op_did_not_make_its_node() -> None:
    linked = linked_of(
        [forward("mul", 0, 1), backward("Mul", 50, 1), backward("Early", 60, 2), forward("late", 90, 2)]
    )
    assert pairs(linked) == {("mul", "Mul")}


def test_numbers_below_zero_are_none() -> None:
    linked = linked_of([forward("mul", 0, -1), backward("Mul", 50, -1)])
    assert pairs(linked) == set()


def test_two_forward_threads_with_numbers_of_their_own_keep_apart() -> None:
    linked = linked_of(
        [
            *(forward(f"a{i}", 10 * i, i, tid=1) for i in range(4)),
            *(forward(f"b{i}", 10 * i, 10 + i, tid=2) for i in range(4)),
            *(backward(f"A{i}", 100 + 10 * i, i, thread=1) for i in range(4)),
            *(backward(f"B{i}", 200 + 10 * i, 10 + i, thread=2) for i in range(4)),
        ]
    )
    assert pairs(linked) == {(f"{x}{i}", f"{x.upper()}{i}") for x in "ab" for i in range(4)}


def test_two_forward_threads_that_count_from_zero_keep_apart() -> None:
    """Sequence numbers are counted per thread: the shorter thread's numbers are all among the longer one's."""
    linked = linked_of(
        [
            *(forward(f"a{i}", 10 * i, i, tid=1) for i in range(6)),
            *(forward(f"b{i}", 10 * i, i, tid=2) for i in range(3)),
            *(backward(f"A{i}", 100 + 10 * i, i, thread=1) for i in range(6)),
            *(backward(f"B{i}", 200 + 10 * i, i, thread=2) for i in range(3)),
        ]
    )
    assert pairs(linked) == {
        *((f"a{i}", f"A{i}") for i in range(6)),
        *((f"b{i}", f"B{i}") for i in range(3)),
    }


def test_two_forward_threads_with_the_same_numbers_never_share_a_forward_op() -> None:
    """Two replicas of one model: nothing tells which thread is which, but each is one of them."""
    linked = linked_of(
        [
            *(forward(f"a{i}", 10 * i, i, tid=1) for i in range(4)),
            *(forward(f"b{i}", 5 + 10 * i, i, tid=2) for i in range(4)),
            *(backward(f"A{i}", 100 + 10 * i, i, thread=1) for i in range(4)),
            *(backward(f"B{i}", 200 + 10 * i, i, thread=2) for i in range(4)),
        ]
    )
    forwards = linked.forward_backward.get_column("forward_event")
    assert forwards.n_unique() == forwards.len()


def test_a_trace_without_sequence_numbers_has_an_empty_table_of_the_schema() -> None:
    linked = linked_of([op("a", 0, 5)])
    assert linked.forward_backward.is_empty()
    assert dict(linked.forward_backward.schema) == FORWARD_BACKWARD.polars_schema()


def test_the_table_has_its_declared_schema() -> None:
    linked = linked_of([forward("mul", 0, 1), backward("Mul", 50, 1)])
    assert dict(linked.forward_backward.schema) == FORWARD_BACKWARD.polars_schema()
