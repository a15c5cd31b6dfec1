"""`tracebraid.capture` around a loop in this process: real runs, whose manifests are true."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.integration.captured import SCRIPTS, TORCHRUN, assert_sound, files_of, manifest_of, step_numbers
from tests.integration.command import fail
from tests.integration.command import run as run_here
from tests.integration.proof import events_of, load, proven
from tests.integration.running import run_command, run_script
from tracebraid.errors import CaptureWarning, InputError
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.recorders.session.schedule import Schedule
from tracebraid.recorders.session.settings import Settings

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.full, pytest.mark.torch]
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


@pytest.mark.since_torch("2.8")
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


@pytest.mark.since_torch("2.8")
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
    ops = tracebraid.analyses.ops(linked)
    assert ops.filter(name="## beside ##").get_column("count").to_list() == [3]


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


# --- A capture of several windows is opened as what it is, by every command --------------------------


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps 1 and 3, a window for each; tests only read it."""
    folder = tmp_path_factory.mktemp("windows")
    with tracebraid.capture(folder, skip_first=0, wait=1, warmup=0, active=1, repeat=2) as cap:
        for _ in range(5):
            torch.ones(3) + 1
            cap.step()
    return folder


def test_the_last_window_is_opened_unless_another_is_named(windows: Path) -> None:
    assert step_numbers(tracebraid.open(windows)[0]) == [3]
    assert [step_numbers(tracebraid.open(windows, window=number)[0]) for number in (0, 1)] == [[1], [3]]


def test_it_is_said_that_there_are_others(windows: Path) -> None:
    assert [finding.code for finding in tracebraid.open(windows).findings] == ["window-chosen"]
    assert [finding.code for finding in tracebraid.open(windows / "window_0").findings] == []


@pytest.mark.parametrize("number", [2, -1])
def test_a_window_that_is_not_there_is_refused(windows: Path, number: int) -> None:
    with pytest.raises(InputError):
        tracebraid.open(windows, window=number)
    with pytest.raises(InputError):
        tracebraid.open(windows / "window_0", window=0)
    fail("summary", windows, "--window", number)


@pytest.mark.parametrize("command", ["summary", "link", "check", "info"])
def test_every_command_takes_the_folder(windows: Path, command: str) -> None:
    done = run_here(command, windows)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["summary", "link"])
def test_a_command_takes_the_window_that_is_named(windows: Path, command: str) -> None:
    first, last, default = (
        run_here(command, windows, *options, "--json") for options in (("--window", 0), ("--window", 1), ())
    )
    assert first.returncode == 0, first.stderr
    assert last.stdout == default.stdout
    assert first.stdout != last.stdout or command == "link"


def test_windows_of_ranks_that_are_empty_are_passed_over(windows: Path, tmp_path: Path) -> None:
    (tmp_path / "window_0").symlink_to(windows / "window_0")
    (tmp_path / "window_1").mkdir()
    job = tracebraid.open(tmp_path)
    assert step_numbers(job[0]) == [1]
    assert job.findings == ()


def test_a_decorated_function_has_the_capture_to_step(tmp_path: Path) -> None:
    @tracebraid.capture(tmp_path, skip_first=0, wait=0, warmup=1, active=1)
    def train(steps: int) -> int:
        for _ in range(steps):
            torch.ones(3) + 1
            train.capture.step()
        return steps

    assert train(3) == 3
    assert isinstance(train.capture, tracebraid.Capture)
    assert step_numbers(tracebraid.open(tmp_path)[0]) == [1]


def test_a_run_can_have_a_new_folder(tmp_path: Path) -> None:
    for number in (1, 2):
        with tracebraid.capture(tmp_path, skip_first=0, wait=0, warmup=0, active=1, new=True) as cap:
            torch.ones(3) + 1
            cap.step()
        assert cap.out_dir == tmp_path / f"run_{number}"
        assert step_numbers(tracebraid.open(cap.out_dir)[0]) == [0]


# --- `tracebraid.capture` in each of two ranks over gloo: both leave files of the same steps, u ------


pytest.importorskip("torch")

FILES = sorted(f"{name}_{rank}.json.gz" for name in ("kineto_trace", "torch_et") for rank in (0, 1))
MANIFESTS = ["manifest_0.json", "manifest_1.json"]


def names(folder: Path, rank: int) -> set[str]:
    return {event["name"] for event in events_of(folder, rank)}


@pytest.fixture(scope="module")
def spawned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DDP, in processes of `torch.multiprocessing.spawn`, whose environment names no rank."""
    folder = tmp_path_factory.mktemp("spawned")
    done = run_script("ranks.py", folder / "traces", "ddp", folder / "store")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return folder / "traces"


def test_ranks_of_a_spawn_leave_the_same_steps(spawned: Path) -> None:
    manifests = proven(spawned, world=2)
    assert [manifest["windows"][0]["steps"] for manifest in manifests] == [[7, 8, 9]] * 2
    assert files_of(spawned) == sorted([*FILES, *MANIFESTS])


def test_ranks_come_from_the_process_group_that_is_gone_in_the_end(spawned: Path) -> None:
    for rank in (0, 1):
        manifest = manifest_of(spawned, rank)
        assert (manifest["rank"], manifest["world_size"], manifest["backend"]) == (rank, 2, "gloo")
        assert manifest["rank_from"] == "torch.distributed"
        assert [group["group_size"] for group in manifest["process_groups"]] == [2]
        assert (manifest["steps_seen"], manifest["ended_by"]) == (12, "end")


def test_the_execution_trace_names_the_process_groups(spawned: Path) -> None:
    for rank in (0, 1):
        nodes = load(spawned / f"torch_et_{rank}.json.gz")["nodes"]
        assert sum(node["name"] == "## process_group:init ##" for node in nodes) == 1


def test_a_job_of_spawned_ranks_opens_whole(spawned: Path) -> None:
    job = tracebraid.open(spawned)
    assert (job.ranks, job.findings) == ([0, 1], ())
    # An operator of gloo that ends on its own thread after the window is in one trace only.
    assert all(linked.coverage.share > 0.98 for linked in job)


@pytest.mark.since_torch("2.8")
@pytest.mark.slow
def test_ranks_of_torchrun_that_share_their_parameters_leave_their_collectives(tmp_path: Path) -> None:
    done = run_command(*TORCHRUN, SCRIPTS / "ranks.py", tmp_path, "fsdp")
    assert done.returncode == 0, done.stderr
    manifests = proven(tmp_path, world=2)
    assert [manifest["windows"][0]["steps"] for manifest in manifests] == [[7, 8, 9]] * 2
    for rank in (0, 1):
        assert {"FSDP::all_gather", "c10d::_allgather_base_"} <= names(tmp_path, rank)


def codes(folder: Path) -> list[str]:
    return [one.finding.code for one in tracebraid.check(folder).diagnoses]


@pytest.mark.slow
@pytest.mark.parametrize(("recorder", "left"), [("native", set()), ("torch", {"part-left"})])
def test_a_rank_that_is_killed_inside_the_window_costs_its_own_files_only(
    tmp_path: Path, recorder: str, left: set[str]
) -> None:
    folder = tmp_path / "traces"
    done = run_script("ranks.py", folder, "killed-inside", tmp_path / "store", RECORDER=recorder)
    assert done.returncode == 1
    assert "SIGKILL" in done.stderr
    whole = [name for name in files_of(folder) if not name.startswith(".")]
    assert whole == [FILES[0], MANIFESTS[0], FILES[2]]
    manifest = manifest_of(folder, 0)
    # The survivor may have begun the next step before the loss of the other one reached it.
    assert manifest["windows"][0]["steps"] in ([7, 8], [7, 8, 9])
    assert manifest["windows"][0]["complete"] is False
    assert manifest["ended_by"] in ("RuntimeError", "DistBackendError", "DistNetworkError", "SIGTERM")
    found = codes(folder)
    assert {"rank-missing", "window-incomplete"} <= set(found)
    # What the native recorder holds has no name before it is whole.
    assert {"part-left"} & set(found) == left
    assert not tracebraid.check(folder).links


@pytest.mark.slow
def test_a_rank_that_is_killed_after_its_window_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    done = run_script("ranks.py", folder, "killed-after", tmp_path / "store")
    assert done.returncode == 1
    manifests = proven(folder, world=2)
    assert [manifest["windows"][0]["complete"] for manifest in manifests] == [True, True]
    # Written when the window was; nobody could say how the process ended.
    assert (manifests[1]["steps_seen"], manifests[1]["ended_by"]) == (10, None)
