"""Which Execution Trace node is the same op as which host event, and why the others have none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, node, op
from tests.unit.linking.made import et_of, event_ids, linked_of, row_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.reason import OrphanReason
from tracebraid.model.schema import HOST_LINKS, NODE_LINKS


def rf(name: str, ts: float, dur: float, rf_id: int, **args: Any) -> Json:
    """An op with a record-function id; its External id is another number, as in DDP captures."""
    return op(name, ts, dur, **{"External_id": rf_id + 7000, "Record_function_id": rf_id, **args})


def old(name: str, ts: float, dur: float, external_id: int, tid: int = 1) -> Json:
    """An op of a trace without record-function ids."""
    return op(name, ts, dur, tid=tid, External_id=external_id)


def host_link(linked: LinkedTrace, name: str) -> dict[str, Any]:
    return row_of(linked.host_links, event_id=event_ids(linked)[name])


def node_link(linked: LinkedTrace, node_id: int) -> dict[str, Any]:
    return row_of(linked.node_links, node_id=node_id)


def linked_nodes(linked: LinkedTrace) -> dict[int, int]:
    """Event to node, of those that are linked."""
    rows = linked.host_links.select("event_id", "node_id").iter_rows()
    return {event: node_id for event, node_id in rows if node_id is not None}


def test_an_op_is_the_node_whose_rf_id_is_its_record_function_id() -> None:
    linked = linked_of(
        [rf("a", 0, 9, 51), rf("b", 1, 2, 52)],
        et_of(node(20, "a", 1001, rf_id=51), node(21, "b", 20, rf_id=52)),
    )
    assert linked_nodes(linked) == {0: 20, 1: 21}
    assert host_link(linked, "b")["method"] == "record_function_id"
    assert host_link(linked, "b")["confidence"] == 1.0
    assert host_link(linked, "b")["reason"] is None


def test_nodes_point_back_at_their_events() -> None:
    linked = linked_of([rf("a", 0, 9, 51)], et_of(node(20, "a", 1001, rf_id=51)))
    assert node_link(linked, 20) == {"node_id": 20, "event_id": 0, "reason": None, "candidates": None}


def test_equal_ids_with_other_names_are_not_linked_and_both_sides_say_so() -> None:
    linked = linked_of([rf("a", 0, 9, 51)], et_of(node(20, "other", 1001, rf_id=51)))
    assert linked_nodes(linked) == {}
    assert host_link(linked, "a")["reason"] == OrphanReason.OTHER_NAME
    assert node_link(linked, 20)["reason"] == OrphanReason.OTHER_NAME


def test_a_linked_op_needs_no_true_parent() -> None:
    """Asynchronous gloo operators leave wrong parents behind: ids and names prove the link by themselves."""
    linked = linked_of(
        [rf("a", 0, 9, 51), rf("b", 20, 9, 52)],
        et_of(node(20, "a", 1001, rf_id=51), node(21, "b", 20, rf_id=52)),
    )
    assert linked_nodes(linked) == {0: 20, 1: 21}


def test_wrong_parents_are_counted_and_located() -> None:
    linked = linked_of(
        [rf("a", 0, 9, 51), rf("b", 20, 9, 52)],
        et_of(node(20, "a", 1001, rf_id=51), node(21, "b", 20, rf_id=52)),
    )
    found = [finding for finding in linked.findings if finding.code == "parents-differ"]
    assert [(finding.count, "21" in finding.where) for finding in found] == [(1, True)]


def test_true_parents_are_not_worth_a_word() -> None:
    linked = linked_of(
        [rf("a", 0, 9, 51), rf("b", 1, 2, 52)],
        et_of(node(20, "a", 1001, rf_id=51), node(21, "b", 20, rf_id=52)),
    )
    assert linked.findings == ()


def test_of_nodes_with_one_rf_id_the_name_picks_the_one() -> None:
    """Forked workers write into their parent's file, with the same ids."""
    linked = linked_of(
        [rf("aten::mul", 0, 9, 51)],
        et_of(node(20, "aten::stack", 1001, rf_id=51), node(21, "aten::mul", 1001, rf_id=51)),
    )
    assert linked_nodes(linked) == {0: 21}
    assert node_link(linked, 20)["reason"] == OrphanReason.OTHER_NAME


def test_nodes_with_one_rf_id_and_one_name_are_not_guessed_between() -> None:
    linked = linked_of(
        [rf("aten::mul", 0, 9, 51)],
        et_of(node(20, "aten::mul", 1001, rf_id=51), node(21, "aten::mul", 1001, rf_id=51)),
    )
    assert linked_nodes(linked) == {}
    reasons = {
        host_link(linked, "aten::mul")["reason"],
        node_link(linked, 20)["reason"],
        node_link(linked, 21)["reason"],
    }
    assert len(reasons) == 1
    assert reasons.pop() == OrphanReason.SEVERAL


def test_events_with_one_id_and_one_name_are_not_guessed_between() -> None:
    linked = linked_of(
        [rf("a", 0, 9, 51), rf("a", 20, 9, 51)],
        et_of(node(20, "a", 1001, rf_id=51)),
    )
    assert linked_nodes(linked) == {}
    assert node_link(linked, 20)["reason"] == OrphanReason.SEVERAL


def test_an_op_whose_id_no_node_has_says_so() -> None:
    nodes = et_of(node(20, "a", 1001, rf_id=51), node(21, "c", 1001, rf_id=53))
    linked = linked_of([rf("a", 0, 9, 51), rf("b", 20, 9, 52)], nodes)
    assert host_link(linked, "b")["reason"] == OrphanReason.NO_NODE


@pytest.mark.parametrize("number", [50, 52])
def test_an_op_that_ran_when_no_node_was_recorded_says_so(number: int) -> None:
    linked = linked_of([rf("a", 0, 9, 51), rf("b", 20, 9, number)], et_of(node(20, "a", 1001, rf_id=51)))
    assert host_link(linked, "b")["reason"] == OrphanReason.OUTSIDE_WINDOW


def test_an_op_without_an_id_among_ops_with_ids_says_so() -> None:
    linked = linked_of(
        [rf("a", 0, 9, 51), rf("b", 20, 9, 0, External_id=52)],
        et_of(node(20, "a", 1001, rf_id=51), node(21, "b", 1001, rf_id=52)),
    )
    assert linked_nodes(linked) == {0: 20}, "External id is never used beside record-function ids"
    assert host_link(linked, "b")["reason"] == OrphanReason.NO_ID


def test_a_node_whose_rf_id_no_op_has_says_so() -> None:
    linked = linked_of(
        [rf("a", 0, 9, 51)], et_of(node(20, "a", 1001, rf_id=51), node(21, "b", 1001, rf_id=52))
    )
    assert node_link(linked, 21)["reason"] == OrphanReason.NO_EVENT


@pytest.mark.parametrize("root", [1, 1001])
def test_roots_stand_for_no_op(root: int) -> None:
    linked = linked_of([rf("a", 0, 9, 51)], et_of(node(20, "a", 1001, rf_id=51)))
    assert node_link(linked, root)["reason"] == OrphanReason.ROOT


def test_process_group_inits_come_before_the_profiler() -> None:
    linked = linked_of(
        [rf("a", 0, 9, 51)],
        et_of(node(19, "## process_group:init ##", 1001, rf_id=50), node(20, "a", 1001, rf_id=51)),
    )
    assert node_link(linked, 19)["reason"] == OrphanReason.BEFORE_START


def test_annotations_link_like_ops() -> None:
    linked = linked_of(
        [rf("## forward ##", 0, 9, 51, cat="user_annotation")],
        et_of(node(20, "## forward ##", 1001, rf_id=51, scope=7)),
    )
    assert linked_nodes(linked) == {0: 20}


def test_without_an_execution_trace_that_is_the_reason() -> None:
    linked = linked_of([rf("a", 0, 9, 51)])
    assert host_link(linked, "a")["reason"] == OrphanReason.NO_EXECUTION_TRACE
    assert linked.node_links.is_empty()


def test_both_tables_have_their_declared_schemas_and_every_row_a_node_or_a_reason() -> None:
    linked = linked_of([rf("a", 0, 9, 51), rf("b", 20, 9, 52)], et_of(node(20, "a", 1001, rf_id=51)))
    assert dict(linked.host_links.schema) == HOST_LINKS.polars_schema()
    assert dict(linked.node_links.schema) == NODE_LINKS.polars_schema()
    assert [(row["node_id"] is None) != (row["reason"] is None) for row in linked.host_links.to_dicts()] == [
        True,
        True,
    ]
    assert all((row["event_id"] is None) != (row["reason"] is None) for row in linked.node_links.to_dicts())


# --- External id, where it is proven ----------------------------------------------------------------


def old_thread(tid: int = 1, first: int = 1, parent: int = 1001) -> tuple[list[Json], list[Json]]:
    """Four ops of one thread and their nodes, with one id for both."""
    names = [f"{letter}{tid}" for letter in "abcd"]
    times = [(0, 90), (10, 60), (20, 10), (70, 10)]
    around = [parent, first + 100, first + 101, first + 100]
    events = [old(names[i], *times[i], external_id=first + i, tid=tid) for i in range(4)]
    nodes = [node(first + 100 + i, names[i], around[i], rf_id=first + i, tid=tid) for i in range(4)]
    return events, nodes


def test_external_ids_link_a_thread_that_agrees_in_names_and_nesting() -> None:
    events, nodes = old_thread()
    linked = linked_of(events, et_of(*nodes))
    assert linked_nodes(linked) == {0: 101, 1: 102, 2: 103, 3: 104}
    assert set(linked.host_links.get_column("method")) == {"external_id"}


def test_record_function_ids_that_are_all_zero_count_as_none() -> None:
    events, nodes = old_thread()
    for event in events:
        event["args"]["Record function id"] = 0
    assert len(linked_nodes(linked_of(events, et_of(*nodes)))) == 4


def test_one_name_that_differs_leaves_the_whole_thread_unlinked() -> None:
    events, nodes = old_thread()
    nodes[2]["name"] = "another"
    linked = linked_of(events, et_of(*nodes))
    assert linked_nodes(linked) == {}
    assert host_link(linked, "a1")["reason"] == OrphanReason.NO_ID
    assert node_link(linked, 101)["reason"] == OrphanReason.IDS_UNPROVEN


def test_one_parent_that_differs_leaves_the_whole_thread_unlinked() -> None:
    events, nodes = old_thread()
    nodes[2]["ctrl_deps"] = 101
    assert linked_nodes(linked_of(events, et_of(*nodes))) == {}


def test_a_thread_is_proven_for_itself() -> None:
    events, nodes = old_thread(1)
    more_events, more_nodes = old_thread(2, first=11, parent=1002)
    more_nodes[1]["name"] = "another"
    linked = linked_of([*events, *more_events], et_of(*nodes, *more_nodes, threads=2))
    assert linked_nodes(linked) == {0: 101, 1: 102, 2: 103, 3: 104}


def test_pairs_on_two_threads_prove_nothing() -> None:
    events, nodes = old_thread()
    events.append(old("e", 200, 10, 5, tid=2))
    nodes.append(node(105, "e", 1001, rf_id=5))
    assert linked_nodes(linked_of(events, et_of(*nodes))) == {}


def test_a_few_hits_among_many_nodes_prove_nothing() -> None:
    events, nodes = old_thread()
    more = [node(200 + i, "x", 1001, rf_id=900 + i) for i in range(5)]
    assert linked_nodes(linked_of(events, et_of(*nodes, *more))) == {}


def test_an_execution_trace_of_one_step_links_to_a_timeline_of_many() -> None:
    events, nodes = old_thread()
    later = [old("step2", 100 + i, 1, external_id=50 + i) for i in range(20)]
    assert len(linked_nodes(linked_of([*events, *later], et_of(*nodes)))) == 4


def test_ids_that_drift_link_nothing() -> None:
    """External id runs ahead of rf_id, by more and more: the names soon disagree."""
    names = ["a", "b", "c", "d", "e", "f", "g", "h"]
    events = [old(name, 10 * i, 5, external_id=20 + i + i // 3) for i, name in enumerate(names)]
    nodes = [node(100 + i, name, 1001, rf_id=20 + i) for i, name in enumerate(names)]
    assert linked_nodes(linked_of(events, et_of(*nodes))) == {}


def test_ids_that_are_off_by_one_in_a_loop_of_one_op_link_nothing() -> None:
    """All names agree at any offset, so that names prove nothing: one end of each trace is left over."""
    events = [old("aten::add", 10 * i, 5, external_id=21 + i) for i in range(10)]
    nodes = [node(100 + i, "aten::add", 1001, rf_id=20 + i) for i in range(10)]
    assert linked_nodes(linked_of(events, et_of(*nodes))) == {}


def test_a_thread_of_one_node_proves_nothing_where_another_thread_disagrees() -> None:
    """DDP captures: the ids drift on the main thread, and a thread of one op agrees by chance."""
    events, nodes = old_thread()
    nodes[2]["name"] = "another"
    events.append(old("aten::add", 200, 10, 40, tid=2))
    nodes.append(node(140, "aten::add", 1002, rf_id=40, tid=2))
    assert linked_nodes(linked_of(events, et_of(*nodes, threads=2))) == {}
