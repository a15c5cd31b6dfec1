"""Native observers and threads: several at once, started elsewhere, and threads that end early."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.integration.captured import files_of
from tests.integration.native import (
    assert_whole,
    builtin,
    names_of,
    native,
    ops_of,
    parent_of,
    problems,
    record,
    the,
)
from tests.integration.running import run_script
from tests.integration.test_native_faults import checkpointed, in_another_order, raising
from tests.waiting import HANG_S
from tracebraid.errors import CaptureError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.compiler, pytest.mark.filterwarnings("ignore")]


def run_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def observers(folder: Path, count: int) -> list[Any]:
    return [
        tracebraid.ExecutionTraceObserver("native").register_callback(folder / f"{n}.json")
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [2, 4])
def test_several_at_once_have_whole_files(tmp_path: Path, count: int) -> None:
    opened = observers(tmp_path, count)
    for number, one in enumerate(opened):
        one.start()
        with torch.profiler.record_function(f"work {number}"):
            torch.ones(2)
    for number, one in enumerate(opened):
        with torch.profiler.record_function(f"later {number}"):
            run_thread(lambda: torch.zeros(2))
        one.stop()
        one.unregister_callback()
    for number in range(count):
        nodes = assert_whole(tmp_path / f"{number}.json")
        told = [name for name in names_of(nodes) if not name.startswith("aten::")]
        assert told == [f"work {n}" for n in range(number, count)] + [f"later {n}" for n in range(number + 1)]
        assert names_of(nodes).count("aten::zeros") == number + 1


def test_a_fifth_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    opened = observers(tmp_path, 4)
    for one in opened:
        one.start()
    with pytest.raises(CaptureError, match="4 recordings are open in this process"):
        tracebraid.ExecutionTraceObserver("native").register_callback(tmp_path / "fifth.json")
    torch.ones(2)
    opened[0].unregister_callback()
    with native(tmp_path / "fifth.json"):
        torch.zeros(2)
    for one in opened[1:]:
        one.unregister_callback()
    assert names_of(assert_whole(tmp_path / "fifth.json"))[-1] == "aten::zeros"
    for number in range(4):
        assert "aten::ones" in names_of(assert_whole(tmp_path / f"{number}.json"))
    assert files_of(tmp_path) == ["0.json", "1.json", "2.json", "3.json", "fifth.json"]


def test_pytorchs_recorder_may_record_at_the_same_time(tmp_path: Path) -> None:
    with native(tmp_path / "ours.json"):
        with builtin(tmp_path / "theirs.json"):
            torch.ones(2)
        torch.zeros(2)
    nodes = assert_whole(tmp_path / "ours.json")
    assert {"aten::ones", "aten::zeros"} <= set(names_of(nodes))


def test_another_thread_may_start_and_stop(tmp_path: Path) -> None:
    observer = tracebraid.ExecutionTraceObserver("native").register_callback(tmp_path / "et.json")
    torch.randn(2)
    run_thread(observer.start)
    torch.ones(2)
    run_thread(observer.stop)
    torch.zeros(2)
    run_thread(observer.unregister_callback)
    nodes = assert_whole(tmp_path / "et.json")
    assert names_of(nodes) == ["aten::empty", "aten::fill_", "aten::ones"]


def test_threads_that_ended_before_are_in_the_file(tmp_path: Path) -> None:
    def work() -> None:
        for number in range(40):
            with torch.profiler.record_function(f"thread {number}"):
                torch.ones(2)

    def in_threads() -> None:
        for _ in range(20):
            run_thread(work)

    nodes = record(tmp_path / "et.json", in_threads)
    assert_whole(tmp_path / "et.json")
    assert len({node["at"]["tid"] for node in ops_of(nodes)}) == 20
    assert names_of(nodes).count("aten::ones") == 800
    assert problems(nodes) == []


def test_a_thread_that_is_still_inside_leaves_its_open_node(tmp_path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def work() -> None:
        with torch.profiler.record_function("held"):
            torch.ones(2)
            inside.set()
            go_on.wait(HANG_S)
        torch.zeros(2)

    thread = threading.Thread(target=work)
    with native(tmp_path / "et.json"):
        thread.start()
        inside.wait(HANG_S)
    go_on.set()
    thread.join()
    nodes = assert_whole(tmp_path / "et.json")
    assert the(nodes, "held")["at"]["tracebraid_end"] == "open"
    assert parent_of(nodes, the(nodes, "aten::ones"))["name"] == "held"
    assert "aten::zeros" not in names_of(nodes)


def test_an_annotation_that_another_thread_ends_is_whole(tmp_path: Path) -> None:
    note = torch.profiler.record_function("handed over")

    def work() -> None:
        note.__enter__()
        torch.ones(2)
        run_thread(lambda: (torch.zeros(2), note.__exit__(None, None, None), torch.randn(2)))
        torch.rand(2)

    nodes = record(tmp_path / "et.json", work)
    assert_whole(tmp_path / "et.json")
    above = {
        name: parent_of(nodes, the(nodes, f"aten::{name}")) for name in ("ones", "zeros", "randn", "rand")
    }
    assert above["ones"]["name"] == "handed over"
    assert {above[name]["name"].split("|")[-1] for name in ("zeros", "randn", "rand")} == {"thread]"}
    assert "tracebraid_end" not in above["ones"]["at"]


@pytest.mark.since_torch("2.8")
@pytest.mark.full
@pytest.mark.parametrize("recorder", ["native", "theirs"])
def test_backward_where_forward_was_never_seen_is_recorded(tmp_path: Path, recorder: str) -> None:
    done = run_script("native_backward.py", tmp_path / "et.json", recorder)
    if recorder == "theirs":
        assert done.returncode != 0
        return
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-500:]
    nodes = assert_whole(tmp_path / "et.json")
    node = the(nodes, "MmBackward0")
    assert (node["at"]["fw_parent"], node["at"]["fw_tid"] > 0) == (0, True)


def kineto_parents(events: list[dict[str, Any]]) -> dict[int, int]:
    """The rf_id of each event's innermost surrounding one on its thread, by its own; 0 where it has none."""
    key = "Record function id"
    parents = {}
    open_on: dict[Any, list[Any]] = {}
    known = [event for event in events if event.get("args", {}).get(key)]
    for event in sorted(known, key=lambda one: (one["ts"], one["args"][key])):
        stack = open_on.setdefault(event["tid"], [])
        while stack and stack[-1][0] < event["ts"] + event["dur"]:
            stack.pop()
        parents[event["args"][key]] = stack[-1][1] if stack else 0
        stack.append((event["ts"] + event["dur"], event["args"][key]))
    return parents


def training() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("work", [raising, checkpointed, training])
def test_parents_are_those_that_kineto_shows(tmp_path: Path, work: Callable[[], None]) -> None:
    observer = tracebraid.ExecutionTraceObserver("native").register_callback(tmp_path / "et.json")
    with torch.profiler.profile(execution_trace_observer=observer) as profiler:
        work()
    profiler.export_chrome_trace(str(tmp_path / "kineto.json"))
    nodes = assert_whole(tmp_path / "et.json")
    rf_id_of = {node["id"]: node["at"]["rf_id"] for node in nodes}
    ours = {node["at"]["rf_id"]: rf_id_of[node["ctrl_deps"]] for node in ops_of(nodes)}
    theirs = kineto_parents(json.loads((tmp_path / "kineto.json").read_text())["traceEvents"])
    assert len(ours.keys() & theirs.keys()) > 3
    differ = [key for key in ours.keys() & theirs.keys() if ours[key] != theirs[key]]
    assert [node["name"] for node in nodes if node["at"]["rf_id"] in differ] == []
    linked = tracebraid.link(tmp_path / "et.json", tmp_path / "kineto.json")
    assert linked.coverage.host_ops.linked == len(ours.keys() & theirs.keys())


def test_overlapping_annotations_link_too(tmp_path: Path) -> None:
    observer = tracebraid.ExecutionTraceObserver("native").register_callback(tmp_path / "et.json")
    with torch.profiler.profile(execution_trace_observer=observer) as profiler:
        in_another_order()
    profiler.export_chrome_trace(str(tmp_path / "kineto.json"))
    linked = tracebraid.link(tmp_path / "et.json", tmp_path / "kineto.json")
    assert linked.coverage.host_ops.linked == len(ops_of(assert_whole(tmp_path / "et.json")))
