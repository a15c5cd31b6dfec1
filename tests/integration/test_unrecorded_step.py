"""What recording costs is measured at a capture, without effect on the program, and reaches what-if."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.integration.captured import manifest_of
from tests.integration.running import run_command
from tracebraid.model.capture_facts import COSTS
from tracebraid.simulation.unrecorded import step_ns

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.compiler]
calibration = pytest.importorskip("tracebraid.recorders.session.calibration")

OF_OPS = {"op", "tensor", "annotation"}


@pytest.fixture(autouse=True)
def _on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes on the same cores do not use up the time for the loops."""
    monkeypatch.setattr(calibration, "_LIMIT_NS", 60_000_000_000)


def losses(folder: Path, steps: int = 14, **options: Any) -> list[float]:
    """Train a small model with dropout under a capture; the losses of its steps."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Dropout(0.5), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    with tracebraid.capture(folder, check=False, **options) as cap:
        for _ in range(steps):
            loss = model(torch.rand(8, 32)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
            cap.step()
    return found


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("stacks", "kinds"), [(False, OF_OPS), (True, OF_OPS | {"python", "builtin"})], ids=["ops", "stacks"]
)
@pytest.mark.parametrize("recorder", ["native", "torch"])
def test_a_capture_measures_the_cost_of_each_kind(
    tmp_path: Path, stacks: bool, kinds: set[str], recorder: str
) -> None:
    losses(tmp_path, stacks=stacks, recorder=recorder)
    costs = manifest_of(tmp_path)[COSTS]
    assert set(costs) == kinds
    for kind in kinds:
        own = costs[kind]
        assert 0 <= own["low_ns"] <= own["median_ns"] <= own["high_ns"] < 1_000_000
        assert 0 <= own["inside"] <= 1
    graph = tracebraid.dependency_graph(tracebraid.open(tmp_path))
    found = tracebraid.what_if(graph, "scale 0.5 kind=op")
    assert found.unrecorded is not None
    # On a busy machine a cost may be measured as nothing.
    assert found.unrecorded.before_ns <= step_ns(graph)
    assert found.unrecorded.measured_ns == manifest_of(tmp_path)["overhead"]["untraced_step_median_ns"]


def test_switched_off_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_measured", lambda *_: pytest.fail("it was measured"))
    losses(tmp_path, calibrate=False)
    assert manifest_of(tmp_path)[COSTS] is None
    assert tracebraid.what_if(tracebraid.open(tmp_path), "scale 0.5 kind=op").unrecorded is None


def test_the_program_computes_the_same(tmp_path: Path) -> None:
    assert losses(tmp_path / "on") == losses(tmp_path / "off", calibrate=False)


def test_it_takes_no_longer_than_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops are bounded by time: where each repetition takes long, there are few, and no cost is stated."""
    slow_ns = iter(range(0, 10**15, calibration._LIMIT_NS // 2 + 1))
    monkeypatch.setattr(calibration, "perf_counter_ns", lambda: next(slow_ns))
    losses(tmp_path)
    assert manifest_of(tmp_path)[COSTS] is None


def test_a_failure_leaves_the_program_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no folder")

    monkeypatch.setattr(calibration, "_measured", fail)
    assert len(losses(tmp_path)) == 14
    manifest = manifest_of(tmp_path)
    assert (manifest[COSTS], manifest["windows"][0]["complete"]) == (None, True)


def test_while_a_window_is_open_nothing_is_measured(tmp_path: Path) -> None:
    """The second window opens as the first one closes: the costs are measured behind it."""
    losses(tmp_path, skip_first=0, wait=0, warmup=0, active=2, repeat=2)
    assert manifest_of(tmp_path)[COSTS]
    for window in range(2):
        (linked,) = tracebraid.open(tmp_path, window=window)
        assert "aten::cat" not in linked.timeline.events.get_column("name").cast(str).to_list()


def test_an_operator_mode_of_the_program_sees_no_operator_of_ours(tmp_path: Path) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    names = []

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: Any, types: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            names.append(str(function))
            return function(*arguments, **(options or {}))

    with Counting():
        losses(tmp_path)
    assert not [name for name in names if "cat" in name]
    assert manifest_of(tmp_path)[COSTS] is None


SIGNALLED = """
import os, signal, sys, torch, tracebraid
with tracebraid.capture(sys.argv[1], check=False, skip_first=0, wait=0, warmup=0, active=9) as cap:
    for number in range(6):
        torch.ones(2) + 1
        cap.step()
    os.kill(os.getpid(), signal.SIGTERM)
"""
FORKED = """
import os, sys, torch, tracebraid
with tracebraid.capture(sys.argv[1], check=False, skip_first=0, wait=0, warmup=0, active=2) as cap:
    if os.fork() == 0:
        for _ in range(4):
            torch.ones(2) + 1
            cap.step()
        from tracebraid.recorders.session import calibration
        os._exit(9 if cap._costs else 7)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
    cap.step()
"""


@pytest.mark.full
def test_a_signal_ends_the_program_at_once(tmp_path: Path) -> None:
    assert run_command(sys.executable, "-c", SIGNALLED, tmp_path / "traces").returncode == -15
    manifest = manifest_of(tmp_path / "traces")
    assert (manifest["ended_by"], manifest[COSTS]) == ("SIGTERM", None)


@pytest.mark.full
def test_a_forked_child_measures_nothing(tmp_path: Path) -> None:
    assert run_command(sys.executable, "-c", FORKED, tmp_path / "traces").returncode == 0


def test_the_facts_of_a_window_are_in_its_trace_and_its_manifest(tmp_path: Path) -> None:
    losses(tmp_path)
    manifest = manifest_of(tmp_path)
    process = manifest["windows"][0]["process"]
    linked = tracebraid.link(None, tmp_path / "kineto_trace_0.json.gz")
    facts = linked.capture_facts
    assert facts.costs is not None
    for name in (
        "cores",
        "cpus",
        "threads",
        "window_ns",
        "cpu_ns",
        "voluntary_switches",
        "involuntary_switches",
    ):
        assert getattr(facts, name) == process[name] is not None
    assert 0 < facts.cores <= facts.cpus  # type: ignore[operator]
    # Of 4 steps before the window and 4 after it; the trace itself knows those before.
    overhead = manifest["overhead"]
    assert facts.untraced_steps == overhead["untraced_steps"] > process["untraced_steps"]
    first, middle, third = (overhead[f"untraced_step_{name}_ns"] for name in ("q1", "median", "q3"))
    assert 0 < first <= middle <= third
    threads = {thread.tid: thread for thread in facts.of_threads}
    if not threads:
        pytest.skip("this system does not say how threads were scheduled")
    assert facts.run_queue_wait_ns == sum(thread.run_queue_wait_ns for thread in threads.values())
    assert threading.get_native_id() in threads


def test_a_manifest_of_another_run_says_nothing_about_a_trace(tmp_path: Path) -> None:
    for name in ("one", "two"):
        losses(tmp_path / name)
    shutil.copy(tmp_path / "two/manifest_0.json", tmp_path / "one/manifest_0.json")
    linked = tracebraid.link(None, tmp_path / "one/kineto_trace_0.json.gz")
    assert (linked.capture_facts.costs, linked.capture_facts.cores is None) == (None, False)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("where", ["zip", "store"])
def test_costs_go_where_the_traces_go(tmp_path: Path, where: str) -> None:
    losses(tmp_path / "traces")
    if where == "zip":
        moved = Path(shutil.make_archive(str(tmp_path / "traces"), "zip", tmp_path / "traces"))
    else:
        moved = tmp_path / "traces.tbstore"
        tracebraid.pack(tmp_path / "traces", moved)
    (linked,) = tracebraid.open(moved)
    assert linked.capture_facts.costs is not None


@pytest.mark.full(keep=3)
@pytest.mark.parametrize(
    "content", ["[]", "{", json.dumps({"windows": 3}), json.dumps({"windows": [{"files": 1}]})]
)
def test_a_damaged_manifest_leaves_the_trace_readable(tmp_path: Path, content: str) -> None:
    losses(tmp_path)
    (tmp_path / "manifest_0.json").write_text(content)
    linked = tracebraid.link(None, tmp_path / "kineto_trace_0.json.gz")
    assert linked.capture_facts.costs is None
