"""Links without ids, op by op and thread by thread."""

from __future__ import annotations

import polars as pl
import pytest

from tests.builders import tensor
from tests.unit.linking.unlabelled import linked, methods, pairs
from tracebraid.errors import ArgumentError, ProgramError
from tracebraid.model.matching import Matching
from tracebraid.model.reason import OrphanReason

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
    with pytest.raises(ProgramError, match=r"it is not of the program of .* of 30 ops, 0 have a partner"):
        linked({1: one}, {7: other})
    assert pairs(linked({1: one}, {7: other}, "exact")) == {}


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
    with pytest.raises(ArgumentError, match="no match 'nearly'; there is auto, exact, approximate"):
        Matching("nearly")
    with pytest.raises(ArgumentError, match="no iteration 'last'; give best, median or a number"):
        Matching(iteration="last")


def test_a_trace_without_host_ops_links_nothing() -> None:
    assert pairs(linked({1: LETTERS}, {})) == {}
