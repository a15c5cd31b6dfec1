"""What goes wrong with a capture before its loop is an error there; what goes wrong later never stops the loop."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.callbacks import never
from tests.integration.captured import SCRIPTS, files_of, manifest_of
from tests.integration.proof import proven
from tests.integration.running import run_command, run_script, signalled
from tracebraid.errors import ArgumentError, CaptureError, CaptureWarning, OutputError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.compiler]

SHORT: dict[str, Any] = {"skip_first": 0, "wait": 1, "warmup": 1, "active": 2}
"""Steps 2 and 3; step 1 warms up."""


def nothing(step: int) -> None:
    pass


def run(folder: Path, steps: int = 6, before: Callable[[int], None] = nothing, **options: Any) -> None:
    """A captured loop; `before` is called with each step's number as it begins."""
    with tracebraid.capture(folder, **{**SHORT, **options}) as cap:
        for step in range(steps):
            before(step)
            torch.ones(3) + 1
            cap.step()


def told(folder: Path, before: Callable[[int], None] = nothing, **options: Any) -> str:
    """All that a captured loop warns of."""
    with pytest.warns(CaptureWarning) as caught:
        run(folder, before=before, **options)
    return "\n".join(str(one.message) for one in caught)


def failures(folder: Path) -> list[str]:
    return [str(window["failure"]) for window in manifest_of(folder)["windows"]]


# --- before the loop --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"active": 0}, "active is 0, and must be 1 or more: nothing would ever be recorded"),
        ({"repeat": 0}, "repeat is 0, and must be 1 or more: nothing would ever be recorded"),
        ({"wait": -1}, "wait is -1, and must be 0 or more"),
        ({"warmup": 1.5}, "warmup is a number of steps, not 1.5"),
        ({"repeat": True}, "repeat is a number of steps, not True"),
    ],
    ids=str,
)
def test_a_schedule_that_makes_no_sense_is_refused_at_once(
    tmp_path: Path, words: dict[str, Any], said: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        tracebraid.capture(tmp_path / "traces", **words)
    assert str(caught.value) == said
    assert not (tmp_path / "traces").exists()


def test_a_folder_that_cannot_be_made_is_refused_before_the_loop(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(OutputError, match=r"it cannot be written .*Choose another path"):
            run(folder, before=never)


def test_a_folder_of_another_run_is_refused_before_the_loop_and_stays_as_it_was(tmp_path: Path) -> None:
    run(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)}
    for words in ({}, {"repeat": 2}):
        with pytest.raises(OutputError, match="the file exists, from another run"):
            run(tmp_path, before=never, **words)
    assert {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)} == before


def test_a_folder_of_another_run_is_written_over_if_that_is_asked_for(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path, steps=8, overwrite=True)
    assert proven(tmp_path)[0]["steps_seen"] == 8


def test_windows_of_another_run_do_not_stand_for_this_one(tmp_path: Path) -> None:
    run(tmp_path, steps=8, repeat=2)
    with tracebraid.capture(tmp_path, overwrite=True, skip_first=4, wait=0, warmup=1, active=1) as cap:
        for _ in range(6):
            cap.step()
    assert cap.checked is not None
    assert ("ProfilerStep#5",) in [one.steps for one in cap.checked.ranks]


def test_a_second_capture_in_a_process_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    def second(step: int) -> None:
        with (
            pytest.raises(CaptureError, match="a capture is already active in this process"),
            tracebraid.capture(tmp_path / "second"),
        ):
            pytest.fail("it was entered")

    run(tmp_path / "first", before=second)
    assert proven(tmp_path / "first")[0]["windows"][0]["steps"] == [2, 3]
    assert not (tmp_path / "second").exists()


def test_captures_one_after_the_other_are_two_runs(tmp_path: Path) -> None:
    cap = tracebraid.capture(tmp_path, overwrite=True, **SHORT)
    for steps in (4, 5):
        with cap:
            for _ in range(steps):
                torch.ones(3) + 1
                cap.step()
        assert proven(tmp_path)[0]["steps_seen"] == steps


def test_a_step_outside_of_the_context_is_an_error(tmp_path: Path) -> None:
    cap = tracebraid.capture(tmp_path, **SHORT)
    with pytest.raises(CaptureError, match="belongs inside"):
        cap.step()
    with cap:
        for _ in range(4):
            torch.ones(3) + 1
            cap.step()
    with pytest.raises(CaptureError, match="belongs inside"):
        cap.step()
    proven(tmp_path)


def test_inside_of_a_profiler_a_capture_is_refused_and_the_profiler_goes_on(tmp_path: Path) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        with pytest.raises(CaptureError, match="a profiler is active in this process"):
            run(tmp_path / "traces", before=never)
        torch.ones(3) + 1
    assert "aten::add" in [event.key for event in profiler.key_averages()]
    assert not (tmp_path / "traces").exists()


# --- in the loop ------------------------------------------------------------------------------------


class Theirs:
    """A profiler of the program's own, over some steps of the loop."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])

    def __call__(self, step: int) -> None:
        if step == self.first:
            self.profiler.start()
        if step == self.last:
            self.profiler.stop()

    @property
    def counts(self) -> dict[str, int]:
        return {event.key: event.count for event in self.profiler.key_averages()}

    @property
    def ops(self) -> set[str]:
        return set(self.counts)


def test_a_profiler_that_is_there_to_the_end_costs_the_window(tmp_path: Path) -> None:
    theirs = Theirs(0, 5)
    told(tmp_path, theirs)
    assert "aten::add" in theirs.ops
    assert files_of(tmp_path) == ["manifest_0.json"]
    assert len(failures(tmp_path)) == 1
    assert [one.finding.code for one in tracebraid.check(tmp_path).diagnoses] == ["window-lost"]


@pytest.mark.full(keep=3)
@pytest.mark.parametrize(
    ("first", "last", "steps"),
    [(0, 3, [5, 6]), (1, 4, [6, 7]), (2, 4, [6, 7]), (3, 5, [7, 8])],
    ids=["before", "since the warm-up", "from its first step on", "inside the window"],
)
def test_a_window_waits_for_a_profiler_of_the_programs_own_which_keeps_what_it_records(
    tmp_path: Path, first: int, last: int, steps: list[int]
) -> None:
    theirs = Theirs(first, last)
    run(tmp_path, steps=10, before=theirs)
    assert proven(tmp_path)[0]["windows"][0]["steps"] == steps
    assert theirs.counts["aten::add"] == last - first
    assert not [name for name in theirs.counts if name.startswith("ProfilerStep")]


def test_a_profiler_that_only_warms_up_is_left_its_session(tmp_path: Path) -> None:
    """Recording in between would take Kineto's session from under it."""
    schedule = torch.profiler.schedule(wait=0, warmup=4, active=2, repeat=1)
    theirs = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule)

    def act(step: int) -> None:
        theirs.start() if step == 0 else theirs.step()

    run(tmp_path, steps=12, before=act)
    theirs.stop()
    counts = {event.key: event.count for event in theirs.key_averages()}
    assert (counts["aten::add"], counts["ProfilerStep*"]) == (2, 2)
    assert manifest_of(tmp_path)["windows"][0]["complete"]


def test_a_window_that_waits_has_the_next_one_wait_too(tmp_path: Path) -> None:
    run(tmp_path, steps=12, before=Theirs(0, 3), repeat=2)
    assert [window["steps"] for window in manifest_of(tmp_path)["windows"]] == [[5, 6], [9, 10]]


def test_a_window_that_never_records_a_step_leaves_no_folder(tmp_path: Path) -> None:
    run(tmp_path, steps=6, repeat=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest_0.json", "window_0"]


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_an_observer_of_the_programs_own_is_no_trouble_to_the_native_recorder(
    tmp_path: Path, backend: str
) -> None:
    theirs = tracebraid.ExecutionTraceObserver(backend).register_callback(tmp_path / "theirs.json")
    try:
        theirs.start()
        run(tmp_path / "traces", recorder="native")
    finally:
        theirs.unregister_callback()
    assert proven(tmp_path / "traces")[0]["windows"][0]["steps"] == [2, 3]
    names = tracebraid.read_execution_trace(tmp_path / "theirs.json").nodes.get_column("name").cast(str)
    assert (names == "aten::add").sum() == 6


def test_an_observer_of_the_programs_own_costs_pytorchs_recorder_the_window_and_keeps_its_file(
    tmp_path: Path,
) -> None:
    theirs = tracebraid.ExecutionTraceObserver("torch").register_callback(tmp_path / "theirs.json")
    try:
        theirs.start()
        said = told(tmp_path / "traces", recorder="torch")
    finally:
        theirs.unregister_callback()
    assert "another ExecutionTraceObserver is registered" in said
    assert files_of(tmp_path / "traces") == ["manifest_0.json"]
    names = tracebraid.read_execution_trace(tmp_path / "theirs.json").nodes.get_column("name").cast(str)
    assert (names == "aten::add").sum() == 6


def test_a_window_of_another_rank_alone_is_no_trouble_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 took more steps than rank 0, which has no files of the second window."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, steps in (("1", 8), ("0", 4)):
        monkeypatch.setenv("RANK", rank)
        run(tmp_path, steps=steps, repeat=2)
    assert [len(manifest_of(tmp_path, rank)["windows"]) for rank in (0, 1)] == [1, 2]


@pytest.mark.full
@pytest.mark.parametrize(
    ("recorder", "size_bytes"),
    [("native", 0), ("native", 1000), ("torch", 0), ("torch", 1000), ("torch", 20_000)],
)
def test_a_full_disk_costs_the_window_and_the_loop_goes_on(
    tmp_path: Path, recorder: str, size_bytes: int
) -> None:
    done = run_script("full_disk.py", tmp_path, size_bytes, recorder, PYTHONWARNINGS="always")
    assert (done.returncode, done.stdout) == (0, "the loop went on\n"), done.stderr
    assert "CaptureWarning: the window of steps [7, 8, 9] is lost" in done.stderr
    manifest = manifest_of(tmp_path)
    (window,) = manifest["windows"]
    assert (manifest["steps_seen"], window["complete"]) == (14, False)
    assert window["failure"]
    assert not tracebraid.check(tmp_path).links
    # What there is of an Execution Trace was ended after its last whole node; of Kineto's, nothing can be read.
    assert not (tmp_path / "kineto_trace_0.json.gz").exists()
    et = tmp_path / "torch_et_0.json.gz"
    assert [file["path"] for file in window["files"]] == ([et.name] if et.exists() else [])
    if et.exists():
        assert tracebraid.read_execution_trace(et).nodes.height > 0
    assert [name for name in files_of(tmp_path) if name.startswith(".")] == []


# --- without torch ----------------------------------------------------------------------------------

WITHOUT_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTorch())
import tracebraid

for use in (lambda: tracebraid.capture(sys.argv[1]), lambda: tracebraid.ExecutionTraceObserver()):
    try:
        use()
    except ImportError as error:
        print(type(error).__name__, error)
print(tracebraid.check(tracebraid.demo_path()).links)
"""


@pytest.mark.full
def test_without_torch_only_capturing_is_missing_and_it_says_what_to_install(tmp_path: Path) -> None:
    done = run_command(sys.executable, "-c", WITHOUT_TORCH, tmp_path)
    said = (
        "MissingLibraryError capturing needs torch, which is not installed here. "
        "Install it with: pip install 'tracebraid[capture]'"
    )
    assert done.stdout.splitlines() == [said, said, "True"], done.stderr
    assert files_of(tmp_path) == []


# --- How a captured loop ends: by signals, exceptions and early exits, and what is left behind  ------


ENDLESS = (sys.executable, SCRIPTS / "endless.py")
LONG: dict[str, Any] = {"skip_first": 1, "wait": 1, "warmup": 1, "active": 5}


def loop(folder: Path, leave_at: int, how: BaseException | None = None) -> None:
    """Leave a loop in the middle of a step: by an exception, or by `break`."""
    with tracebraid.capture(folder, **LONG) as cap:
        for step in range(12):
            torch.ones(3) + 1
            if step == leave_at:
                if how is not None:
                    raise how
                break
            cap.step()


def codes(folder: Path) -> list[str]:
    """What a check finds; how steady such small steps are is up to the machine."""
    found = [one.finding.code for one in tracebraid.check(folder).diagnoses]
    return [code for code in found if code != "warmup-caught"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "ended_by"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "SIGTERM")], ids=str
)
def test_a_signal_ends_the_process_as_ever_and_the_files_are_whole(
    tmp_path: Path, number: signal.Signals, ended_by: str
) -> None:
    done = signalled(number, *ENDLESS, tmp_path)
    assert (done.returncode, done.stdout) == (-number, ""), done.stderr
    (manifest,) = proven(tmp_path)
    (window,) = manifest["windows"]
    assert (manifest["ended_by"], window["complete"]) == (ended_by, False)
    # The last step had begun when the signal came; all before it were seen to their ends.
    assert window["steps"] == list(range(3, manifest["steps_seen"] + 1))
    assert codes(tmp_path) == ["window-incomplete"]


@pytest.mark.full
def test_a_handler_of_the_programs_own_is_left_alone(tmp_path: Path) -> None:
    done = signalled(signal.SIGTERM, *ENDLESS, tmp_path, "own-handler")
    assert (done.returncode, done.stdout) == (7, "handled\n"), done.stderr
    (manifest,) = proven(tmp_path)
    assert manifest["ended_by"] == "SystemExit"


@pytest.mark.full
def test_a_kill_leaves_no_file_under_a_final_name(tmp_path: Path) -> None:
    done = signalled(signal.SIGKILL, *ENDLESS, tmp_path)
    assert done.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.glob("[!.]*")] == []


@pytest.mark.full(keep=3)
@pytest.mark.parametrize(
    "how", [ValueError("boom"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=repr
)
def test_an_exception_goes_on_as_it_was(tmp_path: Path, how: BaseException) -> None:
    with pytest.raises(type(how)) as caught:
        loop(tmp_path, 5, how)
    assert caught.value is how
    (manifest,) = proven(tmp_path)
    assert (manifest["ended_by"], manifest["steps_seen"]) == (type(how).__name__, 5)
    assert manifest["windows"][0]["steps"] == [3, 4, 5]


def test_what_comes_after_the_last_whole_step_is_none(tmp_path: Path) -> None:
    loop(tmp_path, 4)
    (manifest,) = proven(tmp_path)
    assert (manifest["ended_by"], manifest["windows"][0]["steps"]) == ("end", [3])
    assert manifest["windows"][0]["complete"] is False
    assert codes(tmp_path) == ["window-incomplete"]


def test_a_loop_that_is_left_while_the_profiler_warms_up_records_nothing(tmp_path: Path) -> None:
    with pytest.warns(CaptureWarning, match=r"nothing was recorded: the loop ended after 2 steps \(end\)"):
        loop(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["manifest_0.json"]
    (tmp_path / "manifest_0.json").unlink()
    loop(tmp_path, 11)
    assert proven(tmp_path)[0]["windows"][0]["steps"] == [3, 4, 5, 6, 7]


def test_a_loop_of_just_as_many_steps_as_the_window_needs_is_complete(tmp_path: Path) -> None:
    loop(tmp_path, 8)
    (manifest,) = proven(tmp_path)
    assert (manifest["steps_seen"], manifest["windows"][0]["complete"]) == (8, True)
    assert codes(tmp_path) == []


def test_the_signals_are_given_back_in_the_end(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        loop(tmp_path, 4)
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    finally:
        signal.signal(signal.SIGINT, before)
    assert handlers == [signal.default_int_handler, signal.SIG_DFL]
