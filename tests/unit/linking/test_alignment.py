"""Links without ids, op by op and thread by thread."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracebraid
from tests.builders import tensor
from tests.growth import grows_less
from tests.unit.linking.unlabelled import Ops, linked, methods, pairs
from tracebraid.errors import ArgumentError, ProgramError
from tracebraid.linking.alignment.approximate import depths_of, program_of
from tracebraid.linking.alignment.op_sequences import OpSequence
from tracebraid.model.coverage import ChoiceReason, OrphanReason
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.matching import Matching

LETTERS = ["aten::" + letter for letter in "abcdefgh"]


def test_without_ids_all_link_by_what_they_tell() -> None:
    found = linked({1: LETTERS}, {7: LETTERS})
    assert pairs(found) == {n: n for n in range(8)}
    assert methods(found) == {"alignment"}
    assert found.matched is not None
    assert (found.matched.agreement, found.matched.is_same_program, found.matched.why) == (1.0, True, "")
    assert found.host_links.get_column("confidence").unique().to_list() == [0.999]


def test_by_ids_alone_nothing_links() -> None:
    found = linked({1: LETTERS}, {7: LETTERS}, "exact")
    assert pairs(found) == {}
    assert found.matched is None


def test_an_op_under_another_name_links_by_its_place() -> None:
    found = linked({1: LETTERS}, {7: [*LETTERS[:3], "renamed", *LETTERS[4:]]})
    assert pairs(found) == {n: n for n in range(8)}
    row = found.host_links.filter(pl.col("node_id") == 1003).row(0, named=True)
    assert (row["method"], row["confidence"]) == ("position", 0.99)
    assert found.matched is not None
    assert not found.matched.is_same_program


def test_what_one_trace_lacks_stays_unlinked_and_says_so() -> None:
    found = linked({1: LETTERS}, {7: LETTERS[:3] + LETTERS[4:]})
    assert pairs(found) == {**{n: n for n in range(3)}, **{n: n - 1 for n in range(4, 8)}}
    (reason,) = found.node_links.filter(pl.col("node_id") == 1003).get_column("reason")
    assert reason == OrphanReason.NO_COUNTERPART


def test_of_equal_ops_of_which_one_is_missing_none_links_and_candidates_are_named() -> None:
    equal = ["aten::a", "aten::zero_", "aten::zero_", "aten::zero_", "aten::b"]
    found = linked({1: equal}, {7: equal[:3] + equal[4:]})
    assert pairs(found) == {0: 0, 4: 3}
    nodes = found.node_links.filter(pl.col("candidates").is_not_null())
    assert nodes.select("node_id", "candidates").rows() == [(1001, [1]), (1002, [1, 2]), (1003, [2])]
    assert set(nodes.get_column("reason").cast(pl.String)) == {OrphanReason.SEVERAL_CANDIDATES}
    hosts = found.host_links.filter(pl.col("candidates").is_not_null())
    assert hosts.select("event_id", "candidates").rows() == [(1, [1001, 1002]), (2, [1002, 1003])]


def test_sequence_numbers_tell_equal_ops_apart_also_where_all_are_larger() -> None:
    ops = [("aten::mul", {"seq_id": number}) for number in range(30, 40)]
    later = [("aten::mul", {"seq_id": number + 500}) for number in range(30, 40)]
    found = linked({1: ["aten::a", *ops, "aten::b"]}, {7: ["aten::a", *later[:4], *later[5:], "aten::b"]})
    assert 5 not in pairs(found)
    assert len(pairs(found)) == 11


def test_shapes_tell_equal_ops_apart_however_they_are_spaced() -> None:
    sizes = [[4, 8], [2], [3, 3]]
    ops = [("aten::neg", {"inputs": [tensor(1, 2, size)]}) for size in sizes]
    events = [("aten::neg", {"Input_Dims": [size]}) for size in sizes]
    found = linked({1: ["aten::a", *ops, "aten::b"]}, {7: ["aten::a", events[0], events[2], "aten::b"]})
    assert pairs(found) == {0: 0, 1: 1, 3: 2, 4: 3}


def test_numbers_of_annotations_and_kinetos_way_of_writing_make_no_difference() -> None:
    nodes = ["ProfilerStep#7", "back\\slash", "new\nline", "ünïcode"]
    events = ["ProfilerStep#9", "back/slash", "newline", "unknown"]
    assert len(pairs(linked({1: nodes}, {7: events}))) == 4


def test_what_one_recorder_alone_writes_is_passed_over() -> None:
    nodes = ["## process_group:init ##", *LETTERS]
    events = ["ProfilerStep#3", *LETTERS[:4], "[memory]", *LETTERS[4:]]
    assert len(pairs(linked({1: nodes}, {7: events}))) == 8


def test_threads_are_paired_by_what_they_do() -> None:
    other = ["aten::" + letter for letter in "tuvwxyz"]
    found = linked({1: LETTERS, 2: other}, {31: other, 32: LETTERS})
    assert pairs(found) == {**{n: n + 7 for n in range(8)}, **{n: n - 8 for n in range(8, 15)}}


def test_threads_that_do_the_same_are_paired_in_order() -> None:
    found = linked({1: LETTERS, 2: LETTERS, 3: LETTERS}, {9: LETTERS, 5: LETTERS, 7: LETTERS})
    assert pairs(found) == {n: n for n in range(24)}


def test_ids_of_another_run_are_not_believed() -> None:
    events = [(name, {"Record_function_id": 1000 + (n + 3) % 8}) for n, name in enumerate(LETTERS)]
    found = linked({1: LETTERS}, {7: events})
    assert pairs(found) == {n: n for n in range(8)}
    assert methods(found) == {"alignment"}


def test_ids_that_are_proven_are_taken() -> None:
    events = [(name, {"Record_function_id": 1000 + n}) for n, name in enumerate(LETTERS)]
    found = linked({1: LETTERS}, {7: events})
    assert methods(found) == {"record_function_id"}
    assert found.matched is None
    assert methods(linked({1: LETTERS}, {7: events}, "approximate")) == {"alignment"}


def test_traces_of_two_programs_are_refused() -> None:
    one = [f"aten::one{n}" for n in range(30)]
    other = [f"aten::other{n}" for n in range(30)]
    with pytest.raises(ProgramError, match=r"it is of another program than .* of 30 ops, 0 have a partner"):
        linked({1: one}, {7: other})
    assert pairs(linked({1: one}, {7: other}, "exact")) == {}


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [5, 1000])
def test_equal_iterations_of_which_one_trace_has_one_more_are_linked_to_none(iterations: int) -> None:
    """They could be the first ones or the last ones: which is not guessed, and it is no other program."""
    found = linked({1: LETTERS * iterations}, {1: LETTERS * (iterations + 1)})
    assert pairs(found) == {}
    assert found.matched is not None
    assert (found.matched.agreement, found.matched.ambiguous) == (0.0, 1.0)
    assert [one.code for one in found.findings] == ["matched", "ambiguous"]
    reasons = found.host_links.get_column("reason").cast(pl.String).unique().to_list()
    assert reasons == [OrphanReason.SEVERAL_CANDIDATES]
    one = found.node_links.row(by_predicate=pl.col("node_id") == 1000, named=True)
    assert one["candidates"] == [0, len(LETTERS)]


def test_a_matching_that_there_is_not_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no match 'nearly'; there are auto, exact, approximate"):
        Matching("nearly")
    with pytest.raises(ArgumentError, match="no iteration 'last'; give best, median or a number"):
        Matching(iteration="last")


def test_a_trace_without_host_ops_links_nothing() -> None:
    assert pairs(linked({1: LETTERS}, {})) == {}


# --- One iteration in one trace, several in the other ------------------------------------------------


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


# --- Are two traces of one program told from those of two, at a cost that does not grow with th ------


SIZE, GROWTH = 20_000, 8
LINEAR_WITH_ROOM = 3
"""Linear time grows by 1 times the size, n log n by 1.3 times, quadratic by 8 times."""


def sequence(parents: list[int | None], names: list[str] | None = None) -> OpSequence:
    count = len(parents)
    return OpSequence(
        pl.DataFrame(
            {
                "id": range(count),
                "thread": [1] * count,
                "parent": parents,
                "name": names or [f"op {i % 5}" for i in range(count)],
            },
            schema_overrides={"parent": pl.Int64},
        )
    )


@given(st.lists(st.integers(-1, 30), max_size=60))
def test_the_depth_is_the_number_of_ancestors(choices: list[int]) -> None:
    parent = [choice if choice < row else row - 1 for row, choice in enumerate(choices)]
    expected: list[int] = []
    for above in parent:
        expected.append(0 if above < 0 else expected[above] + 1)
    assert depths_of(np.array(parent, dtype=np.int64)).tolist() == expected


def test_programs_differ_by_names_and_by_nesting() -> None:
    chain, flat = sequence([None, 0, 1]), sequence([None, 0, 0])
    assert program_of(chain) == program_of(sequence([None, 0, 1]))
    assert program_of(chain) != program_of(flat)
    assert program_of(chain) != program_of(sequence([None, 0, 1], ["a", "b", "c"]))


def passes_of(depth: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often all rows are gone through for a chain so deep."""
    passes: list[int] = []
    flatnonzero = np.flatnonzero

    def counted(rows: np.ndarray) -> np.ndarray:
        passes.append(1)
        return flatnonzero(rows)

    with monkeypatch.context() as patch:
        patch.setattr("tracebraid.linking.alignment.approximate.np.flatnonzero", counted)
        depths_of(np.arange(depth, dtype=np.int64) - 1)
    return len(passes)


def test_the_passes_grow_with_the_bits_of_the_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes_of(1000, monkeypatch) <= 11
    assert passes_of(64_000, monkeypatch) <= passes_of(1000, monkeypatch) + 6


def test_deep_nesting_costs_no_more_than_linear_time_with_room() -> None:
    small, large = (sequence([None, *range(size - 1)]) for size in (SIZE, SIZE * GROWTH))
    assert grows_less(GROWTH * LINEAR_WITH_ROOM, program_of, small, large)
