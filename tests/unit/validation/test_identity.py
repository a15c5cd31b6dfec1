"""Is it said why the two traces of a rank do not know each other, and only then?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, call, kernel, node, op
from tests.unit.linking.made import et_of, linked_of
from tests.unit.validation.made import EVENTS, NODES, codes, lay, ran, step
from tracebraid.api import check
from tracebraid.model.finding import Finding
from tracebraid.validation.identity import identity_findings


def found(events: Any = EVENTS, nodes: Any = NODES) -> list[Finding]:
    return identity_findings(linked_of(list(events), None if nodes is None else list(nodes)))


def with_ids(shift: int = 0, **args: Any) -> list[Json]:
    """`EVENTS` with these arguments alone, and External ids that are the record functions' plus `shift`."""
    shown = {key.replace("_", " "): value for key, value in args.items()}
    ids = [one["args"]["Record function id"] + shift for one in EVENTS]
    return [{**one, "args": {**shown, "External id": i}} for one, i in zip(EVENTS, ids, strict=True)]


def renamed(**names: str) -> list[Json]:
    return [{**one, "name": names.get(one["name"], one["name"])} for one in EVENTS]


def test_a_sound_pair_has_nothing_to_say() -> None:
    assert found() == []


def test_a_kineto_trace_alone_has_nothing_to_say_about_ids() -> None:
    assert found(nodes=None) == []
    assert found(with_ids(), None) == []


# --- ids --------------------------------------------------------------------------------------------


def test_ids_that_are_all_zero_are_an_error_where_external_ids_prove_nothing() -> None:
    (one,) = found(with_ids(5, Record_function_id=0))
    assert one.code == "no-record-function-ids"
    assert one.path.endswith("kineto_trace_0.json")


def test_external_ids_that_prove_every_link_make_record_function_ids_unneeded() -> None:
    assert found(with_ids()) == []


def test_one_op_with_an_id_is_enough_to_look_further() -> None:
    events = [*with_ids(5, Record_function_id=0)[:-1], EVENTS[-1]]
    assert "no-record-function-ids" not in codes(found(events))


def test_the_advice_for_a_file_without_the_argument_is_not_that_for_ids_that_are_all_zero(
    tmp_path: Any,
) -> None:
    """Torch before 2.4 writes no such argument, whether an observer ran or not: then to start one is no advice."""
    zero = check(lay(tmp_path / "zero", events=with_ids(5, Record_function_id=0)), matching="exact")
    absent = check(lay(tmp_path / "absent", events=with_ids(5)), matching="exact")
    assert not zero.links
    assert not absent.links
    texts = [(one.diagnoses[0].finding.message, one.diagnoses[0].advice) for one in (zero, absent)]
    assert texts[0] != texts[1]


def test_an_execution_trace_whose_ids_are_all_zero_is_an_error() -> None:
    nodes = et_of(node(10, "ProfilerStep#1", 1001, rf_id=0), node(11, "outer", 10, rf_id=0))
    (one,) = found(nodes=nodes)
    assert (one.code, one.message) == ("et-without-ids", "all rf_ids are 0")
    assert one.path.endswith("torch_et_0.json")


def test_the_node_of_a_process_group_has_an_id_and_counts_for_nothing() -> None:
    """It is written before the profiler starts: its id is of another count."""
    start = node(5, "## process_group:init ##", 1001, rf_id=77)
    assert codes(found(nodes=et_of(start, node(11, "outer", 1001, rf_id=0)))) == ["et-without-ids"]
    assert codes(found([*EVENTS, ran("other", 800, 5, 77)], et_of(start, node(90, "x", 1001)))) == [
        "no-overlap"
    ]
    assert found([*EVENTS, ran("other", 800, 5, 77)], [*NODES, start]) == []


# --- windows ----------------------------------------------------------------------------------------


def test_windows_without_a_common_id_do_not_overlap_and_both_spans_are_told() -> None:
    (one,) = found(nodes=et_of(node(50, "outer", 1001), node(60, "inner", 50)))
    assert one.code == "no-overlap"
    assert "50 to 60 here, 10 to 13 in the Kineto trace" in one.message


def test_one_common_id_is_an_overlap() -> None:
    assert found(nodes=et_of(node(13, "after", 1001), node(60, "later", 1001))) == []


def test_a_window_that_holds_the_other_is_sound() -> None:
    """Kineto of many steps and an Execution Trace of one, or the other way round."""
    assert found([*EVENTS, *(ran(f"op{i}", 2000 + i, 0.5, 100 + i) for i in range(20))]) == []
    assert found(nodes=[*NODES, *(node(100 + i, f"op{i}", 1001) for i in range(20))]) == []


def test_windows_that_hardly_overlap_do_not_pass_without_a_word(tmp_path: Any) -> None:
    events = [step(1, Record_function_id=10), *(ran(f"op{i}", 10 * i, 5, 100 + i) for i in range(50))]
    nodes = et_of(*(node(100 + i, f"op{i}", 1001) for i in range(49, 99)))
    checked = check(lay(tmp_path, events=events, nodes=nodes))
    assert checked.ranks[0].coverage is not None
    assert checked.ranks[0].coverage.share < 0.05
    assert checked.diagnoses


def test_a_timeline_without_any_host_op_does_not_link(tmp_path: Any) -> None:
    """Recorded with the device's activities alone."""
    checked = check(lay(tmp_path, events=[call("launch", 1, 1, 7), kernel("gemm", 5, 9, 7)]))
    assert checked.ranks[0].coverage is not None
    assert checked.ranks[0].coverage.et_nodes.linked == 0
    assert not checked.links


# --- links that names contradict --------------------------------------------------------------------


def test_ids_of_both_traces_that_do_not_link_are_counted() -> None:
    (one,) = found(renamed(inner="other", after="another"))
    assert (one.code, one.count) == ("not-linked", 2)
    assert "of 4 ids that both traces have" in one.message


def test_names_that_kineto_writes_otherwise_are_no_contradiction() -> None:
    nodes = [{**one, "name": "in\\ner\n" if one["id"] == 12 else one["name"]} for one in NODES]
    assert found(renamed(inner="in/ner"), nodes) == []


def test_an_id_that_two_ops_carry_is_not_linked() -> None:
    (one,) = found([*EVENTS, ran("after", 800, 5, 13)])
    assert (one.code, one.count) == ("not-linked", 1)


# --- what was lost ----------------------------------------------------------------------------------


def test_nodes_whose_parent_was_never_written_are_counted_and_located() -> None:
    marked = [
        node(12, "inner", 1001, tracebraid_missing_parent=11),
        node(13, "after", 1001, tracebraid_missing_parent=11),
    ]
    (one,) = found(nodes=et_of(node(10, "ProfilerStep#1", 1001), *marked))
    assert (one.code, one.count) == ("parent-never-written", 2)
    assert one.where.startswith("node 12")


@pytest.mark.parametrize(("finished", "said"), [("false", 1), (False, 1), (True, 0), ("true", 0), (None, 0)])
def test_only_an_op_that_says_so_is_unfinished(finished: Any, said: int) -> None:
    more = {} if finished is None else {"finished": finished}
    assert codes(found([*EVENTS[:-1], ran("after", 600, 100, 13, **more)])) == ["op-unfinished"] * said


def test_of_unfinished_ops_the_first_three_names_are_told_and_all_are_counted() -> None:
    still = [
        ran(name, 700 + i, 5, 20 + i, finished=False) for i, name in enumerate(["c", "a", "c", "b", "d"])
    ]
    (one,) = found([*EVENTS, *still], None)
    assert one.message.endswith("stopped: c, a, b")
    assert one.count == 5


def test_device_events_without_an_operator_are_counted_with_the_reason_of_most() -> None:
    device = [
        call("launch", 30, 5, 7),
        kernel("mine", 40, 5, 7),
        call("outside", 5000, 5, 8),
        kernel("outside", 5010, 5, 8),
        kernel("lost", 60, 5, 98),
        kernel("lost", 70, 5, 99),
    ]
    (one,) = found([*EVENTS, *device])
    assert (one.code, one.count) == ("launch-unknown", 3)


def test_device_events_that_all_have_their_operator_are_not_mentioned() -> None:
    assert found([*EVENTS, call("launch", 30, 5, 7), kernel("mine", 40, 5, 7)]) == []


def test_a_launch_outside_of_any_op_is_not_blamed_on_the_profiler(tmp_path: Any) -> None:
    """Nothing was dropped there: no warm-up makes an op around the call."""
    outside = [step(1), call("launch", 5000, 5, 7), kernel("mine", 5010, 5, 7)]
    lost = [step(1), op("aten::mm", 1, 5), kernel("lost", 60, 5, 99)]
    one, other = (
        check(lay(tmp_path / name, events=events, nodes=None)).diagnoses
        for name, events in (("outside", outside), ("lost", lost))
    )
    assert [d.advice for d in one] != [d.advice for d in other]
