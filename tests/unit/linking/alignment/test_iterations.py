"""One iteration in one trace, several in the other."""

from __future__ import annotations

import polars as pl
import pytest

import tracebraid
from tests.unit.linking.unlabelled import Ops, linked, pairs
from tracebraid.errors import ArgumentError
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.matching import Matching
from tracebraid.model.reason import ChoiceReason, OrphanReason

BODY = ["aten::" + letter for letter in "abcdefgh"]


@pytest.fixture(scope="module")
def demo_et() -> ExecutionTrace:
    return tracebraid.read_execution_trace(tracebraid.demo_path() / "torch_et_0.json.gz")


def steps(mark: str, numbers: range, body: Ops = BODY) -> Ops:
    return [one for number in numbers for one in (mark.format(number), *body)]


@pytest.mark.parametrize(
    "mark",
    ["ProfilerStep#{}", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "## LOOP {} ##"],
)
def test_the_mark_of_an_iteration_is_found_out(mark: str) -> None:
    found = linked({1: steps(mark, range(5, 6))}, {7: steps(mark, range(3, 9))})
    assert len(pairs(found)) == 9
    assert found.matched is not None
    assert found.matched.iterations.height == 6
    assert found.matched.iterations.get_column("is_chosen").sum() == 1
    assert found.coverage.host_ops.share == 1.0


def test_of_equal_iterations_that_with_the_same_number_is_taken() -> None:
    found = linked({1: steps("ProfilerStep#{}", range(4, 5))}, {7: steps("ProfilerStep#{}", range(3, 9))})
    assert pairs(found) == {n: 9 + n for n in range(9)}
    assert found.matched is not None
    assert found.matched.choice is not None
    assert (found.matched.choice.first, found.matched.choice.last) == ("ProfilerStep#4", "ProfilerStep#4")
    assert (found.matched.choice.reason, found.matched.choice.as_good) == (ChoiceReason.SAME_NUMBER, 5)


def test_without_a_mark_what_recurs_is_one() -> None:
    found = linked({1: BODY}, {7: BODY * 5})
    assert len(pairs(found)) == 8
    assert found.matched is not None
    assert found.matched.choice is not None
    assert (found.matched.choice.iterations, found.matched.choice.trace) == (5, "Kineto Trace")


def test_an_iteration_that_lacks_ops_is_not_taken() -> None:
    events = [*steps("ProfilerStep#{}", range(1, 2), BODY[:5]), *steps("ProfilerStep#{}", range(2, 3))]
    events += steps("ProfilerStep#{}", range(3, 5), BODY[2:])
    found = linked({1: steps("ProfilerStep#{}", range(9, 10))}, {7: events})
    assert pairs(found) == {n: 6 + n for n in range(9)}
    assert found.matched is not None
    assert found.matched.iterations.get_column("agreement").round(2).to_list() == [0.67, 1.0, 0.78, 0.78]


def test_several_iterations_lie_in_a_row_within_more() -> None:
    nodes, events = steps("ProfilerStep#{}", range(5, 8)), steps("ProfilerStep#{}", range(3, 10))
    found = linked({1: nodes}, {7: events})
    assert pairs(found) == {n: 2 * 9 + n for n in range(27)}
    assert found.matched is not None
    assert found.matched.node_times.is_empty()


def test_an_iteration_more_is_an_iteration_more_also_where_traces_are_about_as_long() -> None:
    nodes, events = steps("ProfilerStep#{}", range(5, 14)), steps("ProfilerStep#{}", range(4, 14))
    found = linked({1: nodes}, {7: events})
    assert pairs(found) == {n: 9 + n for n in range(81)}
    assert found.matched is not None
    assert found.matched.choice is not None
    assert (found.matched.choice.first, found.matched.choice.last) == ("ProfilerStep#5", "ProfilerStep#13")


def test_an_execution_trace_of_many_and_a_kineto_trace_of_one() -> None:
    found = linked({1: steps("ProfilerStep#{}", range(3, 9))}, {7: steps("ProfilerStep#{}", range(5, 6))})
    assert pairs(found) == {2 * 9 + n: n for n in range(9)}
    assert found.matched is not None
    assert found.matched.choice is not None
    assert found.matched.choice.trace == "Execution Trace"
    left = found.node_links.filter(pl.col("event_id").is_null()).get_column("reason").cast(pl.String)
    assert (left == OrphanReason.OTHER_ITERATION.value).sum() == 45


def test_an_iteration_can_be_asked_for_by_number_or_by_length() -> None:
    nodes = {1: steps("ProfilerStep#{}", range(5, 6))}
    slow = [(name, {"dur": 9}) for name in BODY]
    events: dict[int, Ops] = {
        7: [*steps("ProfilerStep#{}", range(3, 5), slow), *steps("ProfilerStep#{}", range(5, 8))]
    }
    assert pairs(linked(nodes, events, Matching(iteration=4))) == {n: 9 + n for n in range(9)}
    median = linked(nodes, events, Matching(iteration="median")).matched
    assert median is not None
    assert median.choice is not None
    assert median.choice.reason is ChoiceReason.MEDIAN_LENGTH
    with pytest.raises(ArgumentError, match=r"no iteration 8; there are 5, ProfilerStep#3 to ProfilerStep#7"):
        linked(nodes, events, Matching(iteration=8))


def test_an_annotation_can_be_named_and_must_be_there() -> None:
    nodes, events = {1: steps("train", range(1))}, {7: steps("train", range(4))}
    found = linked(nodes, events, Matching(annotation="train")).matched
    assert found is not None
    assert found.choice is not None
    assert found.choice.marks == "train"
    with pytest.raises(ArgumentError, match="'eval'"):
        linked(nodes, events, Matching(annotation="eval"))


def test_times_of_a_node_are_over_all_iterations() -> None:
    events = [
        one
        for number, dur in enumerate([4, 8, 6])
        for one in (f"ProfilerStep#{number}", *BODY[:4], ("aten::e", {"dur": dur}), *BODY[5:])
    ]
    events += ["ProfilerStep#3", *BODY[:4], *BODY[5:]]
    found = linked({1: steps("ProfilerStep#{}", range(1))}, {7: events}).matched
    assert found is not None
    row = found.node_times.filter(pl.col("node_id") == 1005).row(0, named=True)
    assert row == {
        "node_id": 1005,
        "iterations": 3,
        "min_ns": 4000,
        "median_ns": 6000.0,
        "mean_ns": 6000.0,
        "max_ns": 8000,
        "std_ns": 2000.0,
    }
    others = found.node_times.filter(pl.col("node_id") != 1005)
    assert others.get_column("iterations").unique().to_list() == [4]


def test_an_execution_trace_can_be_cut_to_one_iteration() -> None:
    et = linked({1: steps("ProfilerStep#{}", range(3, 6))}, {}).et
    assert et is not None
    assert et.iterations().rows() == [
        (0, "ProfilerStep#3", 1000, 1008, 9),
        (1, "ProfilerStep#4", 1009, 1017, 9),
        (2, "ProfilerStep#5", 1018, 1026, 9),
    ]
    one = et.trimmed(1)
    assert one.op_nodes.get_column("node_id").to_list() == list(range(1009, 1018))
    assert one.nodes.get_column("is_root").sum() == 2
    assert et.iterations("nothing").is_empty()
    with pytest.raises(ArgumentError, match="no iteration 3; 'ProfilerStep' begins 3"):
        et.trimmed(3)


def test_what_is_cut_out_hangs_under_its_thread_and_numbers_its_tensors_anew(demo_et: ExecutionTrace) -> None:
    one = demo_et.trimmed(1)
    nodes = set(one.nodes.get_column("node_id"))
    assert set(one.nodes.get_column("parent_id").drop_nulls()) <= nodes
    assert one.tensors.get_column("tensor").to_list() == list(range(one.tensors.height))
    assert one.tensor_uses.get_column("tensor").is_in(one.tensors.get_column("tensor").implode()).all()
    numbers = demo_et.tensor_uses.filter(pl.col("node_id").is_in(list(nodes))).get_column("tensor")
    before = demo_et.tensors.filter(pl.col("tensor").is_in(numbers.implode())).get_column("tensor_id")
    assert one.tensors.get_column("tensor_id").to_list() == before.to_list()
    assert not one.tensor_edges.is_empty()
    assert one.tensor_edges.select(pl.col("tensor").max()).item() < one.tensors.height
