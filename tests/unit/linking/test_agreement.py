"""What is said of nodes whose parent is not the op around them, and whom it blames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.builders import Json, et_text, kineto_text, node, op, write
from tests.unit.linking.made import et_of
from tests.unit.validation.made import EVENTS, ran, shuffled
from tracebraid.api import link, read_execution_trace
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace


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


def test_the_manifest_names_the_recorder(tmp_path: Path) -> None:
    from tracebraid.importers.discovery.capture_folder import recorder_of

    et = tmp_path / "window_0" / "torch_et_3.json.gz"
    et.parent.mkdir()
    assert recorder_of(str(et)) == ""
    text = '{"recorders": ["native", "kineto"], "windows": [{"files": [{"path": "window_0/torch_et_3.json.gz"}]}]}'
    (tmp_path / "manifest_3.json").write_text(text)
    assert recorder_of(str(et)) == "native"
    assert recorder_of(str(tmp_path / "torch_et_4.json.gz")) == ""
    assert recorder_of(str(tmp_path / "torch_et_4.arrow.zip")) == "native"
