"""Scenarios with other recordings, profilers, observers, folders and full disks."""

from __future__ import annotations

import gc
import gzip
import json
import os
import random
import resource
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tracebraid
from tools.stress.model import SCENARIOS, Scenario
from tools.stress.run import Network, Run
from tracebraid.errors import CaptureError


def recordings(run: Run) -> None:
    """Everything at once, for a few seconds."""
    until_s = time.monotonic() + (30.0 if run.is_full else 2.0)
    failures: list[BaseException] = []
    recorded: list[int] = []
    shared = torch.randn(100)
    # No thread draws of the program's random numbers: a fork while their mutex is held hangs in PyTorch.
    drawn = random.Random(run.seed)
    networks = [Network().eval() for _ in range(3)]

    def train(network: Network) -> None:
        rows = torch.ones(4, 8)
        while time.monotonic() < until_s:
            network(rows).sum().backward()
            short = threading.Thread(target=lambda: torch.ones(2) + 1)
            short.start()
            short.join()

    def share() -> None:
        while time.monotonic() < until_s:
            shared[drawn.randrange(50) :].view(-1).add(1)

    def fork() -> None:
        while time.monotonic() < until_s:
            if (pid := os.fork()) == 0:
                torch.ones(2)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            time.sleep(0.02)

    def record(path: Path) -> None:
        while time.monotonic() < until_s:
            observer = tracebraid.ExecutionTraceObserver("native")
            observer.register_callback(path)
            for _ in range(drawn.randrange(1, 4)):
                observer.start()
                time.sleep(drawn.random() * 0.03)
                observer.stop()
            observer.unregister_callback()
            recorded.append(_checked(path))

    def held(action: object, *arguments: object) -> None:
        try:
            action(*arguments)  # type: ignore[operator]
        except BaseException as error:
            failures.append(error)
            raise

    jobs: list[tuple[object, ...]] = [(share,), (share,), (fork,), *((train, one) for one in networks)]
    jobs += [(record, run.folder / f"et_{number}.json.gz") for number in range(2)]
    threads = [threading.Thread(target=held, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    with run.captured() as step:
        for _ in range(12):
            step()
            time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert sum(recorded) > 0


def _checked(path: Path) -> int:
    """The number of nodes of a recording, all of which are right."""
    nodes = json.loads(gzip.decompress(path.read_bytes()))["nodes"]
    by_id = {node["id"]: {one["name"]: one["value"] for one in node["attrs"]} for node in nodes}
    assert len(by_id) == len(nodes)
    for node in nodes:
        parent, own = by_id[node["ctrl_deps"]], by_id[node["id"]]
        assert parent["tid"] in (own["tid"], 0), node["name"]
        assert own["fw_parent"] == 0 or own["fw_parent"] in by_id, node["name"]
    return len(nodes)


SCENARIOS["recordings"] = Scenario(
    "two threads start and stop recordings while five train and one forks", recordings, recorders=("native",)
)


def observers(run: Run) -> None:
    """Observers are registered, started, dropped and collected at random."""
    kept: list[Any] = []
    with run.captured() as step:
        for number in range(14):
            for count in range(run.random.randrange(3)):
                _register(run, kept, run.folder / f"et_{number}_{count}.json")
            if kept and run.random.random() < 0.5:
                kept.pop(run.random.randrange(len(kept)))
            if run.random.random() < 0.3:
                gc.collect()
            step()
    kept.clear()
    gc.collect()
    for path in run.folder.glob("et_*.json"):
        json.loads(path.read_bytes())
        path.unlink()


def _register(run: Run, kept: list[Any], path: Path) -> None:
    observer = tracebraid.ExecutionTraceObserver("native")
    try:
        observer.register_callback(path)
    except CaptureError:
        # Four recorders may be open at once.
        return
    observer.start()
    torch.ones(2).add(1)
    kept.append(observer)
    if run.random.random() < 0.2:
        # A cycle, which only the garbage collector ends.
        observer.myself = observer  # type: ignore[attr-defined]


SCENARIOS["observers"] = Scenario(
    "native observers of the program's own, several at once, collected at random", observers, may_lose=True
)


def their_observer(run: Run) -> None:
    """Record with PyTorch's observer, from some step to another."""
    first = run.random.randrange(10)
    last = first + run.random.randrange(1, 4)
    path = run.folder / "theirs.json"
    observer = torch.profiler.ExecutionTraceObserver()
    with run.captured() as step:
        for number in range(14):
            if number == first:
                observer.register_callback(str(path))
                observer.start()
            torch.ones(2).add(1)
            if number == last:
                observer.stop()
                observer.unregister_callback()
            step()
    names = [node["name"] for node in json.loads(path.read_bytes())["nodes"]]
    run.note(names.count("aten::ones"))


SCENARIOS["their_observer"] = Scenario(
    "PyTorch's ExecutionTraceObserver in the program, registered in any step",
    their_observer,
    recorders=("native",),
)


def their_profilers(run: Run) -> None:
    """Profilers of the program come and go."""
    length, at = run.random.randrange(1, 5), run.random.randrange(8)
    how = run.random.choice(["scheduled", "inside", "thread", "legacy", "across"])
    print(how, at, length, flush=True)
    counts: list[int] = []
    with run.captured() as step:
        if how == "scheduled":
            _scheduled(run, step, counts)
        else:
            _other(how, at, length, step, counts)
    run.note(*counts)


def _profile(**options: Any) -> Any:
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options)


def _scheduled(run: Run, step: Callable[[], None], counts: list[int]) -> None:
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=run.random.randrange(1, 3), repeat=2)
    ready = run.folder / "theirs"
    with _profile(schedule=schedule, on_trace_ready=lambda found: counts.append(_seen(found))) as theirs:
        for _ in range(20):
            torch.ones(3).add(1)
            step()
            theirs.step()
    ready.touch()


def _other(how: str, at: int, length: int, step: Callable[[], None], counts: list[int]) -> None:
    theirs: Any = None
    for number in range(20):
        if number == at:
            theirs = torch.autograd.profiler.profile(use_kineto=True) if how == "legacy" else _profile()
            if how == "inside":
                with theirs:
                    torch.ones(3).add(1)
                counts.append(_seen(theirs))
            elif how == "thread":
                thread = threading.Thread(target=_in_thread, args=(theirs, counts))
                thread.start()
                thread.join()
            else:
                theirs.__enter__()
        if at <= number < at + length and how in ("legacy", "across"):
            torch.ones(3).add(1)
        if number == at + length and how in ("legacy", "across"):
            theirs.__exit__(None, None, None)
            counts.append(_seen(theirs))
        step()


def _in_thread(theirs: Any, counts: list[int]) -> None:
    with theirs:
        torch.ones(3).add(1)
    counts.append(_seen(theirs))


def _seen(theirs: Any) -> int:
    """Count `aten::ones` in them, which no training step has; 0 where they never started."""
    events = (
        theirs.function_events if isinstance(theirs, torch.autograd.profiler.profile) else theirs.events()
    )
    return sum(event.name == "aten::ones" for event in events or ())


SCENARIOS["their_profilers"] = Scenario(
    "profilers of the program's own inside of ours and across its windows", their_profilers, may_lose=True
)


def settings(run: Run) -> None:
    """Numbers of threads, determinism, types by default, modes of autograd, anomaly detection."""
    with run.captured() as step:
        for number in range(12):
            torch.set_num_threads(1 + number % 3)
            torch.use_deterministic_algorithms(number % 2 == 0)
            value = torch.full((64, 64), 0.5, requires_grad=True)
            with torch.autograd.set_detect_anomaly(run.random.random() < 0.3):
                (value @ value).relu().sum().backward()
            with torch.inference_mode(run.random.random() < 0.5):
                run.note(torch.arange(4) * 2)
            with torch.autocast("cpu", enabled=run.random.random() < 0.5):
                run.note(torch.ones(2, 2) @ torch.ones(2, 2))
            with torch.device("meta"):
                run.note(tuple(torch.ones(3).shape))
            run.note(value.grad, torch.are_deterministic_algorithms_enabled(), torch.get_num_threads())
            torch.use_deterministic_algorithms(False)
            torch.set_num_threads(1)
            step()


SCENARIOS["settings"] = Scenario(
    "threads, determinism, autocast, inference mode, anomaly detection", settings
)


def folders(run: Run) -> None:
    """Take the folder away in some step."""
    at = run.random.randrange(12)
    how = run.random.choice(["delete", "move", "close", "file", "link"])
    print(how, at, flush=True)
    out = run.out_dir
    with run.captured() as step:
        for number in range(14):
            if number == at and out.exists():
                if how == "close":
                    out.chmod(0o500)
                elif how == "delete":
                    shutil.rmtree(out, ignore_errors=True)
                else:
                    out.rename(run.folder / f"moved_{time.monotonic_ns()}")
                    if how == "file":
                        out.write_text("")
                    elif how == "link":
                        out.symlink_to("nowhere")
            step()
    for moved in run.folder.glob("moved_*"):
        shutil.rmtree(moved)
    if out.is_dir() and not out.is_symlink():
        out.chmod(0o700)
    else:
        out.unlink(missing_ok=True)


SCENARIOS["folders"] = Scenario(
    "the folder is deleted, moved, closed, or replaced by a file or a link", folders, may_lose=True
)


def full_disk(run: Run) -> None:
    """Let so many bytes fit into a file, from one step to another."""
    first = run.random.randrange(12)
    last = first + run.random.choice([1, 3, 100])
    size_bytes = run.random.choice([0, 1, 100, 4096, 20_000])
    with run.captured() as step:
        for number in range(14):
            if number == first:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))
            if number == last:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            step()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


SCENARIOS["full_disk"] = Scenario(
    "a disk that is full from any step on, for a while or for ever", full_disk, may_lose=True
)
