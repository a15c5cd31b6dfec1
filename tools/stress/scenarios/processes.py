"""Scenarios with other processes: children, forks, workers of loaders, ranks, interpreters."""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from tools.stress.model import SCENARIOS, Scenario
from tools.stress.run import Network, Run, digest_of


def children(run: Run) -> None:
    """Start some in two of the steps."""
    method = run.random.choice(["fork", "spawn", "forkserver"])
    at = run.random.sample(range(1, 10), 2)
    with run.captured() as step:
        for number in range(12):
            if number in at:
                run.note(*_by_multiprocessing(method, number))
                run.note(_by_subprocess())
            step()
    os.environ.pop("PYTHONWARNINGS", None)


def _by_multiprocessing(method: str, number: int) -> tuple[object, ...]:
    context: Any = multiprocessing.get_context(method)
    results = context.SimpleQueue()
    child = context.Process(target=_compute, args=(results, number))
    killed = context.Process(target=_be_killed)
    child.start()
    killed.start()
    found = results.get()
    child.join()
    killed.join()
    return found, child.exitcode, killed.exitcode


def _compute(results: Any, number: int) -> None:
    value = torch.full((4,), float(number), requires_grad=True)
    optimizer = torch.optim.SGD([value], lr=0.1)
    for _ in range(3):
        value.square().sum().backward()
        optimizer.step()
    results.put(digest_of(value))
    sys.exit(3)


def _be_killed() -> None:
    torch.ones(2)
    os.kill(os.getpid(), signal.SIGKILL)


def _by_subprocess() -> tuple[int, bytes]:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, torch; print(torch.arange(5).sum().item()); sys.exit(4)"],
        stdout=subprocess.PIPE,
        check=False,
    )
    return done.returncode, done.stdout


SCENARIOS["children"] = Scenario(
    "processes of multiprocessing (fork, spawn, forkserver) and of subprocess", children
)


def forks(run: Run) -> None:
    """A few children in each step, some with threads of the parent at work."""
    over = threading.Event()
    busy = [threading.Thread(target=_be_busy, args=(over,)) for _ in range(run.random.choice([0, 2]))]
    for thread in busy:
        thread.start()
    with run.captured() as step:
        for number in range(12):
            how = run.random.choice(["exit", "os-exit", "again", "thread", "train", "raise"])
            if run.random.random() < 0.3:
                with torch.profiler.record_function("around"):
                    run.note(*_forked(lambda how=how, number=number: _child(run, how, number)))  # type: ignore[misc]
            else:
                run.note(*_forked(lambda how=how, number=number: _child(run, how, number)))  # type: ignore[misc]
            step()
    over.set()
    for thread in busy:
        thread.join()


def _be_busy(over: threading.Event) -> None:
    value = torch.ones(3)
    while not over.wait(0.001):
        value.add(1)


def _forked(child: Callable[[], str]) -> tuple[str, int]:
    """Return the result of a child, and its exit code."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        code = 9
        try:
            os.write(writing, child().encode())
            code = 0
        except ValueError:
            code = 5
        except SystemExit as end:
            code = int(str(end.code))
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read().decode()
    return found, os.waitpid(pid, 0)[1]


def _child(run: Run, how: str, number: int) -> str:
    value = torch.full((4,), float(number), requires_grad=True)
    (value * value).sum()
    if how == "raise":
        raise ValueError(how)
    if how == "exit":
        sys.exit(3)
    if how == "os-exit":
        os._exit(4)
    if how == "again":
        return repr(_forked(lambda: digest_of(torch.arange(number + 1).sum())))
    if how == "thread":
        results: list[str] = []
        thread = threading.Thread(target=lambda: results.append(digest_of(torch.zeros(4) + number)))
        thread.start()
        thread.join()
        return results[0]
    run.train()
    return digest_of(value)


SCENARIOS["forks"] = Scenario("forks with operators in the child, at any time and in threads", forks)


class _Rows(torch.utils.data.Dataset):
    """Rows that are computed in the worker; one of them raises."""

    def __init__(self, failing: int) -> None:
        self.failing = failing

    def __len__(self) -> int:
        """Return the number of rows."""
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        """A row, with random numbers of the worker's own."""
        if index == self.failing:
            raise ValueError(f"row {index}")
        return torch.nn.functional.relu(torch.rand(4)) + index


def loaders(run: Run) -> None:
    """One loader through all steps, and some more within."""
    context = "spawn" if run.seed % 3 == 0 else "fork"
    persistent = run.random.random() < 0.5
    generator = torch.Generator().manual_seed(run.seed)
    loader = torch.utils.data.DataLoader(
        _Rows(-1),
        4,
        num_workers=2,
        multiprocessing_context=context,
        persistent_workers=persistent,
        generator=generator,
    )
    failing = torch.utils.data.DataLoader(
        _Rows(5), 4, num_workers=1, multiprocessing_context="fork", generator=generator
    )
    with run.captured() as step:
        for number in range(4):
            for batch in loader:
                run.note(batch)
                step()
            if number % 2:
                with suppress(ValueError):
                    for batch in failing:
                        run.note(batch)
                    run.note("it did not raise")
            step()


SCENARIOS["loaders"] = Scenario(
    "DataLoader workers: fork and spawn, persistent, with rows that raise", loaders
)


def gloo(run: Run) -> None:
    """A second rank in a child; this process is rank 0."""
    is_killed = run.random.random() < 0.4
    context = multiprocessing.get_context("spawn")
    results: Any = context.SimpleQueue()
    other = context.Process(target=_other, args=(run.seed, run.folder, is_killed, results))
    other.start()
    run.note(*_train(run, 0, run.folder / "store", is_killed))
    if not is_killed:
        run.note(results.get())
    other.join()
    run.note(other.exitcode)
    (run.folder / "store").unlink(missing_ok=True)


def _other(seed: int, folder: Path, is_killed: bool, results: Any) -> None:
    torch.set_num_threads(1)
    results.put(_train(Run(seed, folder), 1, folder / "store", is_killed))


def _train(run: Run, rank: int, store: Path, is_killed: bool) -> list[str]:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    network = torch.nn.parallel.DistributedDataParallel(Network().eval())
    told: list[str] = []
    with run.captured() as step:
        for number in range(14):
            if number == 6 and is_killed and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                value = torch.full((4,), float(rank + number))
                work = torch.distributed.all_reduce(value, async_op=True)
                work.wait()
                network(torch.ones(2, 8)).sum().backward()
                told.append(digest_of(value, *(one.grad for one in network.parameters())))
            except RuntimeError:
                told.append("the other rank is gone")
                break
            step()
    if not is_killed:
        torch.distributed.destroy_process_group()
    return told[:5] if is_killed else told


def _why_not() -> str:
    return "" if torch.distributed.is_available() else "this torch has no torch.distributed"


SCENARIOS["gloo"] = Scenario(
    "DDP over gloo, two ranks, one of them killed in some", gloo, may_lose=True, why_not=_why_not
)


_NAMES = ("_interpreters", "_xxsubinterpreters")
_CODE = "import sys, json; total = sum(range(1000)); json.dumps([total])"


def _interpreters() -> Any:
    name = next(name for name in _NAMES if importlib.util.find_spec(name))
    return importlib.import_module(name)


def interpreters(run: Run) -> None:
    """Make, run and destroy them, here and on a thread."""
    module = _interpreters()
    # A Python before 3.12 no longer knows then whose lock it holds, and autograd refuses to run.
    with run.captured(trains=False) as step:
        for _ in range(12):
            _use(module)
            if run.random.random() < 0.5:
                thread = threading.Thread(target=_use, args=(module,))
                thread.start()
                step()
                thread.join()
            else:
                step()


def _use(module: Any) -> None:
    made = module.create()
    module.run_string(made, _CODE)
    module.destroy(made)


def _why_not_interpreters() -> str:
    has = any(importlib.util.find_spec(name) for name in _NAMES)
    return "" if has else "this Python has no sub-interpreters that Python code can make"


SCENARIOS["interpreters"] = Scenario(
    "sub-interpreters beside an open window", interpreters, why_not=_why_not_interpreters
)
