"""Settings reach a captured process as they were: as one line of text, in its environment."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracebraid.api.checking import settings_of
from tracebraid.errors import ArgumentError, CaptureError, OutputError
from tracebraid.recorders.launcher.launch import child_environment
from tracebraid.recorders.session.numbered import numbered_folder
from tracebraid.recorders.session.overhead import StepTimes
from tracebraid.recorders.session.progress import Counted, Progress
from tracebraid.recorders.session.schedule import Action, Schedule
from tracebraid.recorders.session.settings import BACKENDS, STEPS_BY, Settings

STEPS = st.integers(0, 10**9)
SETTINGS = st.builds(
    Settings,
    out_dir=st.text(),
    schedule=st.builds(
        Schedule,
        skip_first=STEPS,
        wait=STEPS,
        warmup=STEPS,
        active=st.integers(1, 10**9),
        repeat=st.integers(1, 10**9),
    ),
    stacks=st.booleans(),
    memory=st.booleans(),
    overwrite=st.booleans(),
    nsys=st.booleans(),
    recorder=st.sampled_from(BACKENDS),
    new=st.booleans(),
    steps_by=st.sampled_from(STEPS_BY),
)


@given(SETTINGS)
def test_settings_survive_their_text(settings: Settings) -> None:
    assert Settings.from_json(settings.to_json()) == settings


@given(SETTINGS)
def test_the_text_is_one_that_an_environment_can_hold(settings: Settings) -> None:
    text = settings.to_json()
    assert text.isascii()
    assert text.isprintable()


def test_the_text_names_every_setting() -> None:
    assert json.loads(Settings("/traces").to_json()) == {
        "out_dir": "/traces",
        "schedule": {"skip_first": 2, "wait": 3, "warmup": 2, "active": 3, "repeat": 1},
        "stacks": False,
        "memory": False,
        "overwrite": False,
        "nsys": False,
        "recorder": "auto",
        "new": False,
        "steps_by": "auto",
        "calibrate": True,
    }


def test_a_schedule_that_makes_no_sense_is_refused_on_the_way_back_too() -> None:
    text = Settings("/traces").to_json().replace('"active": 3', '"active": 0')
    with pytest.raises(ArgumentError, match="active is 0"):
        Settings.from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "{",
            "[]",
            "null",
            "7",
            '"text"',
            "{}",
            '{"schedule": {}}',
            "[" * 100_000,
            '{"schedule": null}',
        ),
        Settings("/traces").to_json().replace('"stacks"', '"of_another_version"'),
        Settings("/traces").to_json().replace('"wait"', '"of_another_version"'),
        Settings("/traces").to_json().replace('"out_dir": "/traces", ', ""),
    ],
    ids=range(13),
)
def test_what_another_version_gave_is_refused(text: str) -> None:
    with pytest.raises(CaptureError):
        Settings.from_json(text)


def test_settings_of_a_call_name_a_folder_that_a_change_of_folders_does_not_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = settings_of("traces", {"active": 5}, {"stacks": True})
    assert settings == Settings(str(tmp_path / "traces"), Schedule(active=5), stacks=True)


def test_a_word_that_no_schedule_has_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(ArgumentError, match="no 'warm_up'; it has skip_first, wait, warmup, active, repeat"):
        settings_of("traces", {"active": 1, "warm_up": 1}, {})


def test_a_recorder_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ArgumentError, match="there is no recorder 'nonsense'; there is auto, native, torch"):
        settings_of("traces", {}, {"recorder": "nonsense"})


@pytest.mark.parametrize("theirs", [None, "", "/a", "/a:/b"])
def test_an_environment_keeps_what_it_had(monkeypatch: pytest.MonkeyPatch, theirs: str | None) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if theirs is not None:
        monkeypatch.setenv("PYTHONPATH", theirs)
    environment = child_environment(Settings("/traces"))
    first, *rest = environment.pop("PYTHONPATH").split(os.pathsep)
    assert (Path(first) / "sitecustomize.py").is_file()
    assert os.pathsep.join(rest) == (theirs or "")
    assert Settings.from_json(environment.pop("TRACEBRAID_CAPTURE")) == Settings("/traces")
    assert environment == {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


# --- A new folder for each run, the same one for all of its ranks ------------------------------------


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    return iter([monkeypatch])


def folder_of(parent: Path, rank: int) -> str:
    """The folder that a rank gets; it leaves a file there."""
    found = numbered_folder(parent, lambda: [parent / f"manifest_{rank}.json"])
    (found / f"manifest_{rank}.json").touch()
    return found.name


def test_each_run_of_a_single_process_has_a_folder_of_its_own(tmp_path: Path) -> None:
    assert [folder_of(tmp_path / "traces", 0) for _ in range(3)] == ["run_1", "run_2", "run_3"]
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == ["run_1", "run_2", "run_3"]


def test_folders_that_are_gone_leave_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "run_7").mkdir()
    (tmp_path / "run_of_the_mill").mkdir()
    assert folder_of(tmp_path, 0) == "run_8"


def test_all_ranks_of_a_run_have_one_folder_and_the_next_run_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_PORT", "29500")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda rank: folder_of(tmp_path, rank), range(8))) == {"run_1"}
        # The next run has the same address.
        assert folder_of(tmp_path, 3) == "run_2"
        assert folder_of(tmp_path, 5) == "run_2"
        monkeypatch.setenv("MASTER_PORT", "29501")
        assert folder_of(tmp_path, 0) == "run_3"


def test_a_parent_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        numbered_folder(tmp_path / "file")


# --- The schedule is that of `torch.profiler.schedule`, and always records something -----------------


COUNTS = st.integers(0, 4)


@settings(deadline=None)  # the first call imports torch
@given(COUNTS, COUNTS, COUNTS, st.integers(1, 4), st.integers(1, 3))
def test_it_records_the_steps_that_pytorchs_does(
    skip_first: int, wait: int, warmup: int, active: int, repeat: int
) -> None:
    profiler = pytest.importorskip("torch").profiler
    words = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = profiler.schedule(**words)
    ours = Schedule(**words)
    same = {
        profiler.ProfilerAction.NONE: {Action.SKIP, Action.WAIT},
        profiler.ProfilerAction.WARMUP: {Action.WARMUP},
        profiler.ProfilerAction.RECORD: {Action.RECORD},
        profiler.ProfilerAction.RECORD_AND_SAVE: {Action.RECORD},
    }
    steps = range(skip_first + repeat * (wait + warmup + active) + 3)
    assert all(ours.action(step) in same[theirs(step)] for step in steps)
    recorded = [step for step in steps if ours.action(step) is Action.RECORD]
    assert len(recorded) == active * repeat
    assert (ours.first_recorded, ours.steps_needed) == (recorded[0], recorded[active - 1] + 1)
    assert [ours.window(step) for step in recorded] == [n for n in range(repeat) for _ in range(active)]


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        ("active", 0, "active is 0, and must be 1 or more: nothing would ever be recorded"),
        ("repeat", 0, "repeat is 0, and must be 1 or more: nothing would ever be recorded"),
        ("wait", -1, "wait is -1, and must be 0 or more"),
        ("warmup", 1.5, "warmup is a number of steps, not 1.5"),
        ("skip_first", "3", "skip_first is a number of steps, not '3'"),
        ("active", True, "active is a number of steps, not True"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(word: str, value: object, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        Schedule(**{word: value})  # type: ignore[arg-type]


# --- Where the steps of a loop lie in a schedule, also where it has to wait --------------------------


SCHEDULE = Schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)


def recorded(schedule: Schedule, steps: int, busy: frozenset[int] = frozenset()) -> list[int]:
    """The steps that are recorded where a window cannot open in some steps."""
    progress, found, is_open = Progress(schedule, Counted(), 0), [], False
    for step in range(steps):
        assert progress.steps_seen == step
        if progress.action in (Action.WARMUP, Action.RECORD):
            if not is_open and progress.opens_window:
                if step in busy:
                    progress.postpone()
                else:
                    is_open = True
            if is_open and progress.action is Action.RECORD:
                found.append(step)
        closes = progress.closes_window
        progress.end_step(100, recorded=bool(found) and found[-1] == step)
        is_open = is_open and not closes
    return found


def test_each_window_opens_where_the_schedule_has_it() -> None:
    assert recorded(SCHEDULE, 20) == [3, 4, 7, 8]


@pytest.mark.parametrize(
    ("busy", "steps"),
    [({2}, [4, 5, 8, 9]), ({2, 3, 4}, [6, 7, 10, 11]), ({6}, [3, 4, 8, 9]), ({0, 1}, [3, 4, 7, 8])],
)
def test_a_window_that_cannot_open_opens_later_and_so_do_those_behind_it(
    busy: set[int], steps: list[int]
) -> None:
    assert recorded(SCHEDULE, 20, frozenset(busy)) == steps


def test_windows_without_steps_between_them_can_wait_too() -> None:
    schedule = Schedule(skip_first=0, wait=0, warmup=0, active=2, repeat=2)
    assert recorded(schedule, 9, frozenset({0, 3})) == [1, 2, 4, 5]


def test_a_window_that_is_broken_off_opens_again_with_the_next_step() -> None:
    progress = Progress(SCHEDULE, Counted(), 0)
    for _ in range(4):
        progress.end_step(100, recorded=False)
    assert progress.action is Action.RECORD
    progress.postpone()
    progress.end_step(100, recorded=False)
    assert (progress.action, progress.opens_window, progress.is_postponed) == (Action.WARMUP, True, True)
    assert progress.first_recorded == 6


def test_a_step_that_was_postponed_counts_for_no_time() -> None:
    progress = Progress(SCHEDULE, Counted(), 0)
    for _ in range(2):
        progress.end_step(100, recorded=False)
    before = progress.times.summary()
    progress.postpone()
    progress.end_step(900, recorded=False)
    assert progress.times.summary() == before


# --- What recording costs is told from steady steps alone --------------------------------------------


def test_only_steady_steps_are_compared() -> None:
    times = StepTimes(Schedule(skip_first=1, wait=2, warmup=1, active=2, repeat=1))
    # first, wait, wait, warm-up, recorded, recorded, after the window, steady, steady
    for step, dur_ns in enumerate((900, 100, 120, 800, 300, 340, 700, 110, 130)):
        times.add(step, dur_ns, recorded=True)
    assert times.summary() == {
        "untraced_steps": 4,
        "untraced_step_median_ns": 115,
        "untraced_step_q1_ns": 107,
        "untraced_step_q3_ns": 122,
        "traced_steps": 2,
        "traced_step_median_ns": 320,
        "traced_to_untraced": 2.783,
    }


def test_the_first_step_of_all_never_counts() -> None:
    times = StepTimes(Schedule(skip_first=0, wait=3))
    times.add(0, 900, recorded=True)
    times.add(1, 100, recorded=True)
    assert times.untraced_ns == [100]


def test_a_window_that_was_given_up_counts_for_neither_side() -> None:
    times = StepTimes(Schedule(skip_first=0, wait=1, warmup=0, active=1))
    for step in range(2):
        times.add(step, 100, recorded=False)
    assert times.summary()["traced_to_untraced"] is None
    assert (times.traced_ns, times.untraced_ns) == ([], [])
