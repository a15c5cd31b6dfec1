"""Which Execution Trace node is the same op as which host event, and why the others have none."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.builders import Json, et_text, kineto_text, node, op, write
from tests.unit.linking.made import et_of, event_ids, linked_of, row_of
from tests.unit.validation.made import EVENTS, ran, shuffled
from tracebraid import link, read_execution_trace, repair
from tracebraid.model.coverage import OrphanReason
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace
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


A, NODE_A = [rf("a", 0, 9, 51)], node(20, "a", 1001, rf_id=51)


def program(text: str) -> list[Json]:
    """Ops as `name=id`, each 20 behind the one before and 9 long."""
    parts = (one.split("=") for one in text.split())
    return [rf(name, 20 * n, 9, int(rf_id)) for n, (name, rf_id) in enumerate(parts)]


def recorded(text: str) -> list[Json]:
    """Nodes as `node:name=id`, with `<parent` where they lie in another node."""
    nodes = []
    for one in text.split():
        number, name, rf_id, parent = re.fullmatch(r"(\d+):(.+)=(\d+)(?:<(\d+))?", one).groups()  # type: ignore[union-attr]
        nodes.append(node(int(number), name, int(parent or 1001), rf_id=int(rf_id)))
    return et_of(*nodes)


@pytest.mark.parametrize(
    ("events", "nodes", "links", "reasons"),
    [
        pytest.param("a=51 b=52", "20:a=51 21:b=52", "0-20 1-21", "", id="record-function id and rf_id"),
        pytest.param(
            "a=51", "20:other=51", "", "e0:OTHER_NAME n20:OTHER_NAME", id="equal ids with other names"
        ),
        # Asynchronous gloo operators leave wrong parents behind: ids and names prove the link by themselves.
        pytest.param("a=51 b=52", "20:a=51 21:b=52<20", "0-20 1-21", "", id="a wrong parent"),
        # Forked workers write into their parent's file, with the same ids.
        pytest.param(
            "mul=51", "20:stack=51 21:mul=51", "0-21", "n20:OTHER_NAME", id="the name picks one of two"
        ),
        pytest.param(
            "mul=51", "20:mul=51 21:mul=51", "", "e0:SEVERAL n20:SEVERAL n21:SEVERAL", id="two equal nodes"
        ),
        pytest.param("a=51 a=51", "20:a=51", "", "n20:SEVERAL", id="two equal events"),
        pytest.param("a=51 b=52", "20:a=51 21:c=53", "0-20", "e1:NO_NODE", id="an id that no node has"),
        pytest.param("a=51 b=50", "20:a=51", "0-20", "e1:OUTSIDE_WINDOW", id="before nodes were recorded"),
        pytest.param("a=51 b=52", "20:a=51", "0-20", "e1:OUTSIDE_WINDOW", id="after nodes were recorded"),
        pytest.param(
            "x=30 a=51", "20:a=51 21:b=0", "1-20", "e0:OUTSIDE_WINDOW n21:NO_EVENT", id="a node without an id"
        ),
        pytest.param("a=51", "20:a=51 21:b=52", "0-20", "n21:NO_EVENT", id="an id that no op has"),
        pytest.param("a=51", "20:a=51", "0-20", "n1:ROOT n1001:ROOT", id="roots stand for no op"),
    ],
)
def test_an_op_is_the_node_with_its_id(events: str, nodes: str, links: str, reasons: str) -> None:
    linked = linked_of(program(events), recorded(nodes))
    assert " ".join(f"{event}-{node_id}" for event, node_id in linked_nodes(linked).items()) == links
    found = {
        f"e{event}": reason for event, reason in linked.host_links.select("event_id", "reason").iter_rows()
    }
    found |= {
        f"n{number}": reason for number, reason in linked.node_links.select("node_id", "reason").iter_rows()
    }
    for place, reason in (one.split(":") for one in reasons.split()):
        assert found[place] == OrphanReason[reason]


def test_an_op_without_an_id_among_ops_with_ids_says_so() -> None:
    """External id is never used beside record-function ids."""
    linked = linked_of([*A, rf("b", 20, 9, 0, External_id=52)], recorded("20:a=51 21:b=52"))
    assert linked_nodes(linked) == {0: 20}
    assert host_link(linked, "b")["reason"] == OrphanReason.NO_ID


def test_process_group_inits_come_before_the_profiler() -> None:
    linked = linked_of(A, et_of(node(19, "## process_group:init ##", 1001, rf_id=50), NODE_A))
    assert node_link(linked, 19)["reason"] == OrphanReason.BEFORE_START


def test_annotations_link_like_ops() -> None:
    note = rf("## forward ##", 0, 9, 51, cat="user_annotation")
    assert linked_nodes(linked_of([note], et_of(node(20, "## forward ##", 1001, rf_id=51, scope=7)))) == {
        0: 20
    }


def test_without_an_execution_trace_that_is_the_reason() -> None:
    linked = linked_of(A)
    assert host_link(linked, "a")["reason"] == OrphanReason.NO_EXECUTION_TRACE
    assert linked.node_links.is_empty()


def test_links_say_how_they_were_made_and_point_back() -> None:
    linked = linked_of(A, et_of(NODE_A))
    host = host_link(linked, "a")
    assert (host["method"], host["confidence"]) == ("record_function_id", 1.0)
    assert node_link(linked, 20) == {"node_id": 20, "event_id": 0, "reason": None, "candidates": None}


@pytest.mark.parametrize(("start", "expected"), [(20, [(1, True)]), (1, [])], ids=["wrong", "true"])
def test_wrong_parents_are_counted_and_located(start: int, expected: list[tuple[int, bool]]) -> None:
    linked = linked_of([*A, rf("b", start, 2, 52)], et_of(NODE_A, node(21, "b", 20, rf_id=52)))
    assert {finding.code for finding in linked.findings} <= {"parents-differ"}
    assert [(finding.count, "21" in finding.where) for finding in linked.findings] == expected


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


# --- What is said of nodes whose parent is not the op around them, and whom it blames ----------------


def linked(folder: Path, events: list[Json], nodes: list[Json], recorder: str = "") -> LinkedTrace:
    kineto = write(folder / "kineto_trace_0.json", kineto_text(events))
    et = read_execution_trace(write(folder / "torch_et_0.json", et_text(nodes)))
    return link(replace(et, recorder=recorder), kineto, matching="exact")


def said(one: LinkedTrace) -> dict[str, Finding]:
    return {finding.code: finding for finding in one.findings if finding.code.startswith("parents-")}


def gloo() -> tuple[list[Json], list[Json]]:
    """On gloo's own thread, a collective calls an op: the native recorder makes asynchronous ranges no parents."""
    events = [*EVENTS, op("gloo:all_gather", 30, 60, 2, "user_annotation", Record_function_id=14)]
    events += [op("aten::view", 40, 5, 2, Record_function_id=15)]
    nodes = et_of(
        node(14, "gloo:all_gather", 1002, tid=2, scope=7), node(15, "aten::view", 1002, tid=2), threads=2
    )
    own = [one for one in shuffled(10, 1001) if one["id"] not in (1, 1001)]
    return events, [*own, *nodes]


def test_what_runs_inside_of_gloos_range_is_no_finding_with_the_native_recorder(tmp_path: Path) -> None:
    assert said(linked(tmp_path, *gloo(), "native")) == {}


@pytest.mark.parametrize("recorder", ["torch", ""])
def test_it_is_no_contradiction_with_others(tmp_path: Path, recorder: str) -> None:
    found = said(linked(tmp_path, *gloo(), recorder))
    assert {code: one.count for code, one in found.items()} == {"parents-asynchronous": 1}


def test_only_the_recorder_that_is_named_is_blamed(tmp_path: Path) -> None:
    messages = {
        recorder: said(linked(tmp_path, list(EVENTS), shuffled(13, 11), recorder))["parents-differ"].message
        for recorder in ("torch", "native", "")
    }
    assert len(set(messages.values())) == 3
    assert ["PyTorch" in messages[one] for one in messages] == [True, False, False]
    assert ["native" in messages[one] for one in messages] == [False, True, False]


@pytest.mark.parametrize("parent", [11, 12])
def test_an_op_without_length_lies_where_the_execution_trace_says_if_its_moment_allows(
    tmp_path: Path, parent: int
) -> None:
    """It lies at the end of both ops."""
    events = [
        ran("outer", 0, 50, 11),
        ran("inner", 20, 30, 12),
        ran("short", 50, 0, 13),
        ran("in", 50, 0, 14),
    ]
    nodes = et_of(
        node(11, "outer", 1001), node(12, "inner", 11), node(13, "short", parent), node(14, "in", 13)
    )
    one = linked(tmp_path, events, nodes)
    around = dict(one.host_tree_by_et.select("event_id", "op_event").iter_rows())
    depth = dict(one.host_tree_by_et.select("event_id", "depth").iter_rows())
    assert (around[2], around[3]) == (parent - 11, 2)
    assert (depth[2], depth[3]) == (parent - 10, parent - 9)
    assert said(one) == {}


def test_an_op_without_length_stays_in_an_op_that_ran_before_and_after_it(tmp_path: Path) -> None:
    events = [ran("outer", 0, 90, 11), ran("inner", 20, 30, 12), ran("short", 40, 0, 13)]
    nodes = et_of(node(11, "outer", 1001), node(12, "inner", 11), node(13, "short", 11))
    one = linked(tmp_path, events, nodes)
    assert one.host_tree_by_et.filter(event_id=2).item(0, "op_event") == 1
    assert said(one)["parents-differ"].count == 1


def test_two_parents_that_times_allow_for_are_a_note_of_their_own(tmp_path: Path) -> None:
    """`after` begins where `outer` ends, in a trace in µs: it may have begun before."""
    events = [ran("outer", 0, 50, 11), ran("inner", 20, 30, 12), ran("after", 50, 1, 13)]
    nodes = et_of(node(11, "outer", 1001), node(12, "inner", 11), node(13, "after", 12))
    assert set(said(linked(tmp_path, events, nodes))) == {"parents-unproven"}


def _range(name: str, ts: float, dur: float, node_id: int, tid: int = 1) -> Json:
    return op(name, ts, dur, tid, "user_annotation", Record_function_id=node_id)


OUTLASTING: dict[str, tuple[list[Json], dict[int, int], set[str]]] = {
    # Name: events, the parent of each node, what is found.
    "a send that is under way when its op returns": (
        [ran("step", 0, 90, 11), ran("c10d::send", 10, 20, 12), _range("gloo:send", 15, 40, 13)],
        {11: 1001, 12: 11, 13: 12},
        set(),
    ),
    "a collective on a thread of its backend": (
        [ran("c10d::allreduce_", 10, 20, 11), _range("gloo:all_reduce", 20, 40, 12, tid=2)],
        {11: 1001, 12: 11},
        set(),
    ),
    "a step that ends and begins in a hook of backward": (
        [
            _range("ProfilerStep#1", 0, 50, 11),
            ran("AccumulateGrad", 30, 40, 12),
            _range("ProfilerStep#2", 60, 90, 13),
            ran("aten::mm", 75, 5, 14),
            ran("AccumulateGrad", 140, 30, 15),
        ],
        {11: 1001, 12: 11, 13: 12, 14: 13, 15: 13},
        set(),
    ),
    "an op behind the end of its parent": (
        [ran("step", 0, 90, 11), ran("aten::mm", 10, 20, 12), ran("aten::add", 40, 60, 13)],
        {11: 1001, 12: 11, 13: 12},
        {"parents-differ"},
    ),
    "an op in a nearer one, which it outlasts too": (
        [ran("outer", 0, 50, 11), ran("nearer", 10, 55, 12), ran("inner", 20, 80, 13)],
        {11: 1001, 12: 11, 13: 11},
        {"parents-differ"},
    ),
    "an op that began while a send was under way": (
        [ran("c10d::send", 0, 20, 11), _range("gloo:send", 10, 50, 12), ran("aten::mm", 30, 60, 13)],
        {11: 1001, 12: 11, 13: 12},
        {"parents-differ"},
    ),
    "a collective on another thread than an op that issues none": (
        [ran("aten::mm", 10, 20, 11), _range("gloo:all_reduce", 20, 40, 12, tid=2)],
        {11: 1001, 12: 11},
        {"parents-differ"},
    ),
}


@pytest.mark.parametrize("recorder", ["native", "torch"])
@pytest.mark.parametrize("case", OUTLASTING)
def test_an_op_may_outlast_the_one_that_called_it(tmp_path: Path, case: str, recorder: str) -> None:
    events, parents, expected = OUTLASTING[case]
    nodes = [
        node(
            event["args"]["Record function id"],
            event["name"],
            parents[event["args"]["Record function id"]],
            tid=event["tid"],
            scope=7 if event["cat"] == "user_annotation" else 0,
        )
        for event in events
    ]
    assert set(said(linked(tmp_path, events, et_of(*nodes, threads=2), recorder))) == expected
    (done,) = repair(tmp_path)
    assert bool(done.changed) == bool(expected)


def test_the_manifest_names_the_recorder(tmp_path: Path) -> None:
    from tracebraid.importers.discovery import recorder_of

    et = tmp_path / "window_0" / "torch_et_3.json.gz"
    et.parent.mkdir()
    assert recorder_of(str(et)) == ""
    text = '{"recorders": ["native", "kineto"], "windows": [{"files": [{"path": "window_0/torch_et_3.json.gz"}]}]}'
    (tmp_path / "manifest_3.json").write_text(text)
    assert recorder_of(str(et)) == "native"
    assert recorder_of(str(tmp_path / "torch_et_4.json.gz")) == ""
    assert recorder_of(str(tmp_path / "torch_et_4.arrow.zip")) == "native"


# --- Two traces of different processes: found by what they say of these, and not linked by ids -------


BASE_S = 1_700_000_000
"""2023-11-14 22:13:20 UTC."""
OPS = [("op_a", 51), ("op_b", 52), ("op_c", 53)]


def kineto(pid: int = 1, tid: int = 1, late_s: int = 0, info: Json | None = None, **header: Any) -> str:
    events = [
        {**op(name, 1000 * n + late_s * 1e6, 900, tid=tid, Record_function_id=rf_id), "pid": pid}
        for n, (name, rf_id) in enumerate(OPS)
    ]
    told = {"rank": 0, "world_size": 2, **(info or {})}
    return kineto_text(events, {"baseTimeNanoseconds": BASE_S * 10**9, "distributedInfo": told, **header})


def et(
    pid: int = 1,
    time: str = "2023-11-14 22:13:20",
    length_ms: int = 100,
    groups: list[Json] | None = None,
    comms: list[Any] | None = None,
) -> str:
    nodes = [node(20 + n, name, 1001, rf_id=rf_id) for n, (name, rf_id) in enumerate(OPS)]
    if groups is not None:
        nodes.append(
            node(30, "## process_group:init ##", 1001, [("String", json.dumps(groups), [])], rf_id=40)
        )
    if comms is not None:
        nodes.append(node(31, "record_param_comms", 1001, [("Int", value, []) for value in comms], rf_id=54))
    text = et_text(et_of(*nodes))
    for old, new in (
        ('"pid": 1', f'"pid": {pid}'),
        ("2023-11-14 22:13:20", time),
        ('"finish_ts": 200', f'"finish_ts": {100 + length_ms}'),
    ):
        assert old in text
        text = text.replace(old, new)
    return text


def linked_texts(folder: Path, et_file: str, kineto_file: str, matching: str = "exact") -> LinkedTrace:
    pair = write(folder / "torch_et_0.json", et_file), write(folder / "kineto_trace_0.json", kineto_file)
    return link(*pair, matching=matching)


def origin(linked: LinkedTrace) -> list[str]:
    return [one.code for one in linked.findings if one.code.startswith("another")]


SAME = {
    "all the same": (et(), kineto()),
    "the zone of New York": (et(time="2023-11-14 17:13:20"), kineto()),
    "the zone of Nepal": (et(time="2023-11-15 03:58:20"), kineto()),
    "a Kineto trace late in a long Execution Trace": (et(length_ms=400_000), kineto(late_s=390)),
    "the main thread of a forked process whose number Kineto has not renewed": (et(pid=9), kineto(7, 9)),
    "a process with a made-up number": (et(pid=9), kineto(pid=1 << 40)),
    "times that are not on the unix clock": (
        et(time="2024-06-01 03:04:05"),
        kineto(baseTimeNanoseconds=0),
    ),
    "a time that is none": (et(time="yesterday"), kineto()),
    "an Execution Trace without an end": (et(time="2024-06-01 03:04:05", length_ms=-100), kineto()),
    "a group that holds the rank": (
        et(groups=[{"pg_name": "7", "pg_desc": "tp", "ranks": [0, 1], "group_size": 2}]),
        kineto(),
    ),
    "the rank of a root": (et(comms=[[], 1, ["0", "default_pg"], 1, "broadcast"]), kineto()),
    "the rank within another group": (et(comms=[[], 1, ["7", "tp"], 1, "allreduce"]), kineto()),
}

OTHER = {
    "another process of a world of two": (et(pid=9), kineto(), "another-rank"),
    "another process of a world of one": (et(pid=9), kineto(info={"world_size": 1}), "another-run"),
    "another process at another time": (et(pid=9, time="2023-11-14 22:20:20"), kineto(), "another-run"),
    "the same number in another container, minutes later": (
        et(time="2023-11-14 22:20:20"),
        kineto(),
        "another-run",
    ),
    "the same number and minute, days later": (et(time="2023-11-20 22:13:20"), kineto(), "another-run"),
    "a world of another size": (
        et(groups=[{"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 4}]),
        kineto(),
        "another-run",
    ),
    "a group that does not hold the rank": (
        et(groups=[{"pg_name": "7", "pg_desc": "tp", "ranks": [2, 3], "group_size": 2}]),
        kineto(),
        "another-rank",
    ),
    "the rank of a collective": (
        et(comms=[[], 1, ["0", "default_pg"], 1, "allreduce"]),
        kineto(),
        "another-rank",
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_what_one_process_may_have_written_links_by_ids(tmp_path: Path, what: str) -> None:
    linked = linked_texts(tmp_path, *SAME[what])
    assert origin(linked) == []
    assert linked.coverage.host_ops.by_method == {"record_function_id": 3}


@pytest.mark.parametrize("what", OTHER)
def test_what_one_process_cannot_have_written_links_by_no_id(tmp_path: Path, what: str) -> None:
    et_file, kineto_file, code = OTHER[what]
    linked = linked_texts(tmp_path, et_file, kineto_file)
    assert origin(linked) == [code]
    assert linked.coverage.host_ops.linked == 0
    assert set(linked.host_links.get_column("reason").cast(str)) == {OrphanReason.ANOTHER_RUN.value}


@pytest.mark.parametrize("what", OTHER)
def test_it_links_by_alignment_and_says_so(tmp_path: Path, what: str) -> None:
    et_file, kineto_file, code = OTHER[what]
    linked = linked_texts(tmp_path, et_file, kineto_file, "auto")
    assert origin(linked) == [code]
    assert linked.coverage.host_ops.by_method == {"alignment": 3}
    assert linked.host_links.select(pl.col("confidence").max()).item() < 1.0
    assert linked.matched is not None


def test_devices_that_are_not_those_of_the_tensors_are_of_another_rank(tmp_path: Path) -> None:
    from tests.builders import call, kernel, tensor

    def pair(device: int) -> LinkedTrace:
        nodes = et_of(node(20, "mm", 1001, [tensor(3, 4, [2], device="cuda:1")], rf_id=51))
        work = kernel("k", 20, 5, 7)
        work["args"]["device"] = device
        events = [op("mm", 0, 10, Record_function_id=51), call("launch", 1, 2, 7), work]
        header = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}
        return linked_texts(tmp_path, et_text(nodes), kineto_text(events, header))

    assert origin(pair(1)) == []
    assert origin(pair(0)) == ["another-rank"]


def with_ids(names: list[str], first: int) -> tuple[str, str]:
    """An Execution Trace of these ops, with ids from 51 on, and a Kineto trace of as many, with ids from another on."""
    nodes = et_of(*(node(20 + n, name, 1001, rf_id=51 + n) for n, name in enumerate(names)))
    ops = [op(f"op{n}", 100 * n, 50, Record_function_id=first + n) for n in range(len(names))]
    return et_text(nodes), kineto_text(ops)


def test_ids_that_stand_for_other_names_are_of_another_run(tmp_path: Path) -> None:
    """The same process ids and times, as in containers: what is left are names."""
    moved = [*(f"op{n}" for n in range(3, 30)), "op0", "op1", "op2"]
    assert origin(linked_texts(tmp_path, *with_ids(moved, 51), "auto")) == ["another-run"]
    assert origin(linked_texts(tmp_path, *with_ids([f"op{n}" for n in range(30)], 51), "auto")) == []


def test_ids_of_which_none_is_in_both_are_of_another_window(tmp_path: Path) -> None:
    linked = linked_texts(tmp_path, *with_ids([f"op{n}" for n in range(30)], 951), "auto")
    assert origin(linked) == ["another-window"]
    assert linked.coverage.host_ops.by_method == {"alignment": 30}
