"""`tracebraid.capture` around a loop in this process: real runs, whose manifests are true."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.integration.captured import assert_sound, files_of, manifest_of, step_numbers
from tracebraid.errors import CaptureWarning
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.recorders.session.schedule import Schedule
from tracebraid.recorders.session.settings import Settings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
Capture = pytest.importorskip("tracebraid.recorders.session.capture").Capture

PAIR = ["kineto_trace_0.json.gz", "manifest_0.json", "torch_et_0.json.gz"]


class Trainer:
    """A small model, its optimizer, and a step of training."""

    def __init__(self) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self) -> None:
        self.model(torch.ones(2, 8)).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def run(folder: Path, steps: int, **options: Any) -> None:
    trainer = Trainer()
    with tracebraid.capture(folder, **options) as cap:
        for _ in range(steps):
            trainer.step()
            cap.step()


def test_the_default_records_three_steady_steps(tmp_path: Path) -> None:
    run(tmp_path, 14)
    (linked,) = assert_sound(tmp_path)
    assert step_numbers(linked) == [7, 8, 9]
    assert files_of(tmp_path) == PAIR


def test_the_ids_of_both_traces_are_equal(tmp_path: Path) -> None:
    run(tmp_path, 14)
    (linked,) = assert_sound(tmp_path)
    assert linked.et is not None
    in_et = sorted(linked.et.op_nodes.get_column("rf_id"))
    assert in_et == sorted(linked.timeline.host_ops.get_column("record_function_id"))


def test_the_manifest_says_what_was_asked_for_and_what_came_of_it(tmp_path: Path) -> None:
    run(tmp_path, 14, wait=4)
    manifest = manifest_of(tmp_path)
    assert manifest["torch"] == torch.__version__
    assert manifest["schedule"] == {"skip_first": 2, "wait": 4, "warmup": 2, "active": 3, "repeat": 1}
    assert (manifest["steps_seen"], manifest["steps_counted_by"], manifest["ended_by"]) == (
        14,
        "step()",
        "end",
    )
    assert (manifest["rank_from"], manifest["recorders"]) == ("alone", ["native", "kineto"])
    assert [window["complete"] for window in manifest["windows"]] == [True]
    # Steps 2 to 5 before the window, 12 and 13 after it; 11 pays for what the window left behind.
    overhead = manifest["overhead"]
    assert (overhead["untraced_steps"], overhead["traced_steps"]) == (6, 3)
    ratio = overhead["traced_step_median_ns"] / overhead["untraced_step_median_ns"]
    assert overhead["traced_to_untraced"] == pytest.approx(ratio, abs=1e-3)


def test_without_steady_steps_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    run(tmp_path, 3, skip_first=0, wait=0, warmup=0, active=3)
    (linked,) = assert_sound(tmp_path)
    assert step_numbers(linked) == [0, 1, 2]
    assert manifest_of(tmp_path)["overhead"]["traced_to_untraced"] is None


def test_each_window_has_a_pair_of_files(tmp_path: Path) -> None:
    run(tmp_path, 16, skip_first=1, wait=1, warmup=1, active=2, repeat=3)
    linked = assert_sound(tmp_path, windows=3)
    assert [step_numbers(one) for one in linked] == [[3, 4], [7, 8], [11, 12]]
    assert files_of(tmp_path) == [
        "manifest_0.json",
        *(f"window_{n}/{name}" for n in range(3) for name in (PAIR[0], PAIR[2])),
    ]


def test_windows_without_a_step_between_them(tmp_path: Path) -> None:
    run(tmp_path, 4, skip_first=0, wait=0, warmup=0, active=2, repeat=2)
    assert [step_numbers(one) for one in assert_sound(tmp_path, windows=2)] == [[0, 1], [2, 3]]


def test_an_exception_goes_on_and_the_files_are_whole(tmp_path: Path) -> None:
    def loop() -> None:
        trainer = Trainer()
        with tracebraid.capture(tmp_path) as cap:
            for step in range(14):
                trainer.step()
                torch.ones(8) / (1 // (8 - step))
                cap.step()

    with pytest.raises(ZeroDivisionError):
        loop()
    (linked,) = assert_sound(tmp_path)
    assert step_numbers(linked) == [7, 8]
    manifest = manifest_of(tmp_path)
    assert (manifest["ended_by"], manifest["windows"][0]["complete"]) == ("ZeroDivisionError", False)
    assert "window-incomplete" in [one.finding.code for one in tracebraid.check(tmp_path).diagnoses]


def run_with_an_operator_that_raises(folder: Path, recorder: str) -> LinkedTrace:
    trainer = Trainer()
    with tracebraid.capture(folder, recorder=recorder) as cap:
        for _ in range(14):
            trainer.step()
            with pytest.raises(RuntimeError):
                torch.bmm(torch.ones(1, 2, 3), torch.ones(1, 2, 3))
            torch.ones(2) + 1
            cap.step()
    (linked,) = assert_sound(folder)
    return linked


def test_an_operator_that_raises_is_a_node_like_any_other(tmp_path: Path) -> None:
    linked = run_with_an_operator_that_raises(tmp_path, "native")
    assert linked.coverage.host_ops.share == 1.0
    assert linked.et is not None
    raised = linked.et.nodes.filter(pl.col("name").cast(str) == "aten::bmm")
    assert raised.height == 3
    assert raised.get_column("parent_id").is_in(linked.et.nodes.get_column("node_id").implode()).all()
    assert "parent-never-written" not in [one.finding.code for one in tracebraid.check(tmp_path).diagnoses]


def test_an_operator_that_raises_leaves_no_node_under_nothing_in_pytorchs_trace_either(
    tmp_path: Path,
) -> None:
    linked = run_with_an_operator_that_raises(tmp_path, "torch")
    assert linked.et is not None
    known = linked.et.nodes.get_column("node_id")
    assert linked.et.op_nodes.get_column("parent_id").is_in(known.implode()).all()
    assert "parent-never-written" in [one.finding.code for one in tracebraid.check(tmp_path).diagnoses]
    assert tracebraid.repair(tmp_path)[0].written
    assert_sound(tmp_path)
    assert "parent-never-written" not in [one.finding.code for one in tracebraid.check(tmp_path).diagnoses]


def test_it_decorates_the_function_that_holds_the_loop(tmp_path: Path) -> None:
    cap = tracebraid.capture(tmp_path / "a", wait=0, warmup=1)
    trainer = Trainer()

    @cap
    def train(steps: int) -> int:
        for _ in range(steps):
            trainer.step()
            cap.step()
        return steps

    assert train(8) == 8
    (linked,) = assert_sound(tmp_path / "a")
    assert step_numbers(linked) == [3, 4, 5]


def test_ops_of_other_threads_are_in_both_traces(tmp_path: Path) -> None:
    trainer = Trainer()

    def beside() -> None:
        with torch.profiler.record_function("## beside ##"):
            torch.ones(3) + 1

    with tracebraid.capture(tmp_path) as cap:
        for _ in range(12):
            thread = threading.Thread(target=beside)
            thread.start()
            trainer.step()
            thread.join()
            cap.step()
    (linked,) = assert_sound(tmp_path)
    ops = tracebraid.ops(linked)
    assert ops.filter(name="## beside ##").get_column("count").to_list() == [3]


def test_forked_workers_of_a_loader_stay_out(tmp_path: Path) -> None:
    trainer = Trainer()
    data = torch.utils.data.TensorDataset(torch.ones(48, 8))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="fork")
    with tracebraid.capture(tmp_path) as cap:
        for _ in loader:
            trainer.step()
            cap.step()
    (linked,) = assert_sound(tmp_path)
    assert linked.coverage.host_ops.share == 1.0
    assert linked.et is not None
    assert linked.et.header["pid"] == manifest_of(tmp_path)["pid"]


@pytest.mark.parametrize("recorder", ["native", "torch"])
def test_names_that_break_pytorchs_json_are_whole_here(tmp_path: Path, recorder: str) -> None:
    names = ['a "quoted" name', "back\\slash", "new\nline", "tab\t", "é", "\x01"]
    with tracebraid.capture(tmp_path, wait=0, recorder=recorder) as cap:
        for _ in range(8):
            for name in names:
                with torch.profiler.record_function(name):
                    torch.ones(2)
            cap.step()
    (linked,) = assert_sound(tmp_path)
    assert linked.coverage.host_ops.share == 1.0
    assert linked.et is not None
    assert set(names) <= set(linked.et.nodes.get_column("name").cast(str))


def test_stacks_and_memory_are_recorded_if_asked_for(tmp_path: Path) -> None:
    trainer = Trainer()
    with tracebraid.capture(tmp_path, stacks=True, memory=True) as cap:
        for _ in range(10):
            trainer.step()
            cap.step()
    (linked,) = assert_sound(tmp_path)
    assert linked.timeline.tables["python_functions"].height > 0
    assert linked.timeline.tables["memory"].height > 0
    assert manifest_of(tmp_path)["recorded"] == {"shapes": True, "stacks": True, "memory": True}


def test_a_loop_that_ends_too_early_says_which_steps_it_would_have_recorded(tmp_path: Path) -> None:
    with pytest.warns(
        CaptureWarning, match=r"after 6 steps .* steps 7 to 9, counted from 0\. Lower skip_first"
    ):
        run(tmp_path, 6)
    assert files_of(tmp_path) == ["manifest_0.json"]
    checked = tracebraid.check(tmp_path)
    assert [one.finding.code for one in checked.diagnoses] == ["nothing-recorded"]
    assert not checked.links


def test_rank_and_world_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    run(tmp_path, 10)
    manifest = manifest_of(tmp_path, 2)
    assert (manifest["rank"], manifest["world_size"], manifest["rank_from"]) == (2, 4, "environment")
    assert (tmp_path / "torch_et_2.json.gz").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_compiled_module_is_captured_in_its_steady_state(tmp_path: Path) -> None:
    trainer = Trainer()
    trainer.model = torch.compile(trainer.model)
    with tracebraid.capture(tmp_path) as cap:
        for _ in range(12):
            trainer.step()
            cap.step()
    (linked,) = assert_sound(tmp_path)
    names = linked.timeline.events.get_column("name").cast(str)
    assert names.str.starts_with("Torch-Compiled Region").any()
    codes = [one.finding.code for one in tracebraid.check(tmp_path).diagnoses]
    assert "warmup-caught" not in codes or not names.str.contains("dynamo_timed").any()


def test_of_two_captures_into_one_folder_the_loser_leaves_nothing(tmp_path: Path) -> None:
    """It began before the winner wrote, and ends before the winner has written its manifest."""
    options = {"skip_first": 0, "wait": 0, "warmup": 0, "active": 1}
    run(tmp_path / "winner", 2, **options)
    trainer, folder = Trainer(), tmp_path / "traces"
    warned: list[str] = []
    with Capture(Settings(str(folder), Schedule(**options)), warn=warned.append) as cap:
        for path in (tmp_path / "winner").glob("*.gz"):
            shutil.copy(path, folder)
        trainer.step()
        cap.step()
    assert any("the manifest is lost" in message for message in warned)
    assert files_of(folder) == ["kineto_trace_0.json.gz", "torch_et_0.json.gz"]
