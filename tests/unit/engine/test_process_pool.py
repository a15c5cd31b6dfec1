"""Ranks in worker processes: what comes back, and what happens where a worker, a question or an answer fails."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import sleep_until_ended, wait_for
from tracebraid.child_process import worker
from tracebraid.child_process.start import start_child
from tracebraid.engine.pool import ProcessPool
from tracebraid.errors import ArgumentError, EngineError, InputError, LostWorkerError
from tracebraid.model.engine import Engine, InProcess, Outcome
from tracebraid.model.rank_files import Progress, RankFiles, RanksDone


def ranks_of(count: int) -> list[RankFiles]:
    return [RankFiles(number, f"kineto_{number}.json", None) for number in range(count)]


def run(work: Callable[..., Any], count: int = 3, progress: Progress | None = None) -> list[Outcome[Any]]:
    return list(ProcessPool(2).outcomes(work, ranks_of(count), progress))


def answers(work: Callable[..., Any], count: int = 3) -> list[Any]:
    return [outcome.answer for outcome in run(work, count)]


def children() -> set[int]:
    """The processes that this one has started and not yet waited for."""
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


def rank_and_process(files: RankFiles, progress: Progress | None) -> tuple[int, int]:
    return files.rank, os.getpid()


@pytest.mark.full
@pytest.mark.slow
def test_two_hundred_small_ranks_come_in_order_from_few_processes() -> None:
    before = children()
    found = [outcome.value() for outcome in run(rank_and_process, 200)]
    assert [rank for rank, _ in found] == list(range(200))
    processes = {process for _, process in found}
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= 2
    assert children() == before


@pytest.mark.parametrize("count", [0, 1])
def test_no_rank_and_a_single_rank_start_no_process(count: int) -> None:
    assert [process for _, process in answers(rank_and_process, count)] == [os.getpid()] * count


LARGE_BYTES = 20 << 20


def large(files: RankFiles, progress: Progress | None) -> bytes:
    return bytes([files.rank]) * LARGE_BYTES


@pytest.mark.full
@pytest.mark.slow
def test_large_answers_come_whole() -> None:
    for rank, answer in enumerate(answers(large, 3)):
        assert answer == bytes([rank]) * LARGE_BYTES


def noisy(files: RankFiles, progress: Progress | None) -> str:
    print("a line on standard output", flush=True)
    os.write(1, b"bytes on standard output\n")
    return sys.stdin.read()


@pytest.mark.full
@pytest.mark.slow
def test_what_a_question_prints_and_reads_does_not_touch_the_pipes(capfd: pytest.CaptureFixture[str]) -> None:
    assert answers(noisy) == ["", "", ""]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("a line on standard output") == 3


def in_a_worker(files: RankFiles, progress: Progress | None, parent: int) -> tuple[str, str, str, bool]:
    assert progress is not None
    progress(0.5)
    main = sys.modules["__main__"]
    return os.environ["POLARS_MAX_THREADS"], str(Path.cwd()), str(main.__file__), os.getpid() == parent


@pytest.mark.full
@pytest.mark.slow
def test_a_worker_has_the_working_folder_and_its_share_of_the_threads_and_no_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    heard: list[float] = []
    found = run(partial(in_a_worker, parent=os.getpid()), 2, heard.append)
    cores = len(os.sched_getaffinity(0))
    for threads, folder, main, is_here in (outcome.value() for outcome in found):
        assert threads == str(max(1, cores // 2))
        assert folder == str(tmp_path)
        assert main.endswith("child_process/entry/main.py")
        assert not is_here
    assert heard == sorted(heard)
    assert 0.25 in heard
    assert isinstance(heard[-1], RanksDone)
    assert (heard[-1].done, heard[-1].ranks) == (2, 2)


def kill_itself(files: RankFiles, progress: Progress | None, folder: str, times: int) -> int:
    if files.rank == 1:
        tries = Path(folder) / "tries"
        count = len(tries.read_text()) if tries.exists() else 0
        tries.write_text("x" * (count + 1))
        if count < times:
            os.kill(os.getpid(), signal.SIGKILL)
    return files.rank


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_and_its_rank_tried_again(tmp_path: Path) -> None:
    assert answers(partial(kill_itself, folder=str(tmp_path), times=2), 4) == [0, 1, 2, 3]
    assert (tmp_path / "tries").read_text() == "xxx"


@pytest.mark.full
@pytest.mark.slow
def test_a_rank_that_kills_each_worker_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    found = run(partial(kill_itself, folder=str(tmp_path), times=100), 4)
    assert [outcome.answer for outcome in found] == [0, None, 2, 3]
    error = found[1].error
    assert isinstance(error, LostWorkerError)
    assert "killed by signal 9 (SIGKILL)" in error.problem
    assert (tmp_path / "tries").read_text() == "xxx"


def out_of_memory(files: RankFiles, progress: Progress | None) -> int:
    if files.rank == 0:
        raise MemoryError
    return files.rank


@pytest.mark.full
@pytest.mark.slow
def test_a_rank_without_memory_is_tried_again_and_reported() -> None:
    found = run(out_of_memory, 2)
    assert isinstance(found[0].error, LostWorkerError)
    assert "ran out of memory" in found[0].error.problem
    assert found[1].answer == 1


class OddError(Exception):
    """Cannot be built from its `args`, as many exceptions cannot."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def failing(files: RankFiles, progress: Progress | None, error: str) -> int:
    if files.rank == 1:
        if error == "input":
            raise InputError("a.json", "it is cut", "Copy it again", "byte 7")
        if error == "argument":
            raise ArgumentError("no such step")
        if error == "odd":
            raise OddError(1, 2)
        return [0][files.rank]
    return files.rank


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("engine", [InProcess(), ProcessPool(2)], ids=["in-process", "pool"])
def test_an_error_about_a_rank_s_files_is_its_outcome(engine: Engine) -> None:
    found = list(engine.outcomes(partial(failing, error="input"), ranks_of(3), None))
    assert [outcome.answer for outcome in found] == [0, None, 2]
    assert str(found[1].error) == "a.json, byte 7: it is cut. Copy it again"


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("engine", [InProcess(), ProcessPool(2)], ids=["in-process", "pool"])
@pytest.mark.parametrize(("error", "kind"), [("argument", ArgumentError), ("bug", IndexError)])
def test_any_other_error_ends_the_run(engine: Engine, error: str, kind: type[Exception]) -> None:
    before = children()
    outcomes = engine.outcomes(partial(failing, error=error), ranks_of(3), None)
    assert next(outcomes).answer == 0
    with pytest.raises(kind) as raised:
        next(outcomes)
    assert children() == before
    if isinstance(engine, ProcessPool):
        assert "in failing" in str(raised.value.__cause__)


@pytest.mark.full
@pytest.mark.slow
def test_an_error_that_cannot_be_pickled_is_told_with_its_traceback() -> None:
    with pytest.raises(EngineError, match=r"OddError: 1 and 2") as raised:
        run(partial(failing, error="odd"))
    assert "in failing" in str(raised.value)


def test_a_question_that_cannot_be_sent_is_refused_before_a_process_starts() -> None:
    lock = threading.Lock()
    before = children()
    with pytest.raises(ArgumentError, match=r"cannot be sent to a worker process .*in-process"):
        run(lambda files, progress: lock.locked())
    assert children() == before


@pytest.mark.full
@pytest.mark.slow
def test_an_answer_that_cannot_be_sent_back_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"answer cannot be sent back .*in-process"):
        run(lambda files, progress: threading.Lock())


class Unloadable:
    def __reduce__(self) -> tuple[object, ...]:
        return partial(__import__, "a_module_that_is_nowhere"), ()


@pytest.mark.full
@pytest.mark.slow
def test_a_question_that_a_worker_cannot_load_is_refused() -> None:
    unloadable = Unloadable()
    with pytest.raises(EngineError, match=r"cannot be loaded in a worker process .*a_module_that_is_nowhere"):
        run(lambda files, progress: unloadable)


@pytest.mark.full
@pytest.mark.slow
def test_a_python_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for executable, said in (
        ("", "own path"),
        ("/nonexistent/python", "No such file"),
        ("/bin/false", "exit code 1"),
    ):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(EngineError, match=rf"{said}.*in-process"):
            run(rank_and_process)


@pytest.mark.full
@pytest.mark.slow
def test_where_only_some_workers_can_be_started_these_do_all(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []

    def start(*arguments: Any, **options: Any) -> Any:
        starts.append(arguments)
        if len(starts) > 1:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return start_child(*arguments, **options)

    monkeypatch.setattr(worker, "start_child", start)
    found = [outcome.value() for outcome in run(rank_and_process, 6)]
    assert [rank for rank, _ in found] == list(range(6))
    assert len({process for _, process in found}) == 1
    assert len(starts) > 1


def sleeping(files: RankFiles, progress: Progress | None, folder: str) -> int:
    if files.rank:
        unfinished = Path(folder) / f"{files.rank}.part"
        try:
            unfinished.touch()
            sleep_until_ended()
            (Path(folder) / "slept on").touch()
        finally:
            unfinished.unlink()
    return files.rank


@pytest.mark.full
@pytest.mark.slow
def test_a_run_that_is_dropped_ends_its_workers_and_they_remove_what_is_not_finished(tmp_path: Path) -> None:
    before = children()
    outcomes = ProcessPool(2).outcomes(partial(sleeping, folder=str(tmp_path)), ranks_of(3), None)
    assert next(outcomes).answer == 0
    wait_for(lambda: list(tmp_path.iterdir()))
    outcomes.close()  # type: ignore[attr-defined]
    assert children() == before
    assert list(tmp_path.iterdir()) == []
