"""Scenarios with unusual Python: threads, coroutines, tracing, garbage, compilers."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import shutil
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import torch

from tools.stress.model import SCENARIOS, Scenario
from tools.stress.run import Network, Run, digest_of


def coroutines(run: Run) -> None:
    """A loop of coroutines is the program's loop."""
    left: list[Any] = []
    with run.captured() as step, ThreadPoolExecutor(3) as pool:
        asyncio.run(_loop(run, step, pool))
        for _ in range(3):
            generator = _generate()
            next(generator)
            left.append(generator)
            step()
    for generator in left:
        generator.close()


async def _loop(run: Run, step: Callable[[], None], pool: ThreadPoolExecutor) -> None:
    for number in range(12):
        tasks = [asyncio.create_task(_compute(place, number)) for place in range(6)]
        cancelled = asyncio.create_task(_compute(9, 1000))
        elsewhere = asyncio.get_running_loop().run_in_executor(pool, lambda: digest_of(torch.ones(3) * 2))
        run.note(*await asyncio.gather(*tasks), await elsewhere)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        step()


async def _compute(place: int, number: int) -> str:
    with torch.profiler.record_function(f"coroutine {place}"):
        value = torch.full((4,), float(place + number), requires_grad=True)
        for _ in range(place % 3 if number < 1000 else 1000):
            await asyncio.sleep(0)
        value.sin().sum().backward()
        return digest_of(value.grad)


def _generate() -> Iterator[None]:
    with torch.profiler.record_function("generator"):
        torch.ones(2)
        yield


SCENARIOS["coroutines"] = Scenario(
    "annotations that cross in coroutines, generators and thread pools", coroutines
)


def threads(run: Run) -> None:
    """Long threads through all steps, and short ones in each."""
    over = threading.Event()
    long = [threading.Thread(target=_endless, args=(over,)) for _ in range(4)]
    for thread in long:
        thread.start()
    with run.captured() as step:
        for number in range(12):
            results = [""] * 8
            short = [
                threading.Thread(target=_compute_threads, args=(results, place, number)) for place in range(8)
            ]
            for thread in short:
                thread.start()
            if run.random.random() < 0.5:
                step()
                for thread in short:
                    thread.join()
            else:
                for thread in short:
                    thread.join()
                step()
            run.note(*results)
    over.set()
    for thread in long:
        thread.join()


def _endless(over: threading.Event) -> None:
    total = torch.zeros(4, requires_grad=True)
    while not over.wait(0.0005):
        with torch.profiler.record_function("long"):
            (total * 2).sum().backward()


def _compute_threads(results: list[str], place: int, number: int) -> None:
    value = torch.full((16, 16), float(place + number), requires_grad=True)
    (value @ value).sin().sum().backward()
    results[place] = digest_of(value.grad)


SCENARIOS["threads"] = Scenario("threads that start, run operators and end at any time", threads)


def traced_python(run: Run) -> None:
    """`sys.settrace`, `sys.setprofile`, tracemalloc, gc callbacks and debug flags, a tiny switch interval."""
    calls = [0]

    def note_call(frame: FrameType, event: str, argument: Any) -> Any:
        calls[0] += 1
        return note_call if calls[0] % 50 == 0 else None

    kind = run.random.choice(["trace", "profile", "both", "tracemalloc", "switch", "gc"])
    at, until = run.random.randrange(6), run.random.randrange(6, 12)
    with run.captured() as step:
        for number in range(12):
            if number == at:
                _begin(kind, note_call)
            step()
            if number == until:
                assert kind not in ("trace", "both") or sys.gettrace() is note_call
                assert kind not in ("profile", "both") or sys.getprofile() is note_call
                _end(kind)
    _end(kind)


def _begin(kind: str, note_call: Any) -> None:
    if kind in ("trace", "both"):
        sys.settrace(note_call)
        threading.settrace(note_call)
    if kind in ("profile", "both"):
        sys.setprofile(note_call)
    if kind == "tracemalloc":
        tracemalloc.start(5)
    if kind == "switch":
        sys.setswitchinterval(1e-6)
    if kind == "gc":
        gc.freeze()
        gc.set_threshold(1, 1, 1)


def _end(kind: str) -> None:
    sys.settrace(None)
    threading.settrace(None)
    sys.setprofile(None)
    if kind == "tracemalloc" and tracemalloc.is_tracing():
        tracemalloc.stop()
    if kind == "gc":
        gc.unfreeze()
        gc.set_threshold(700, 10, 10)


SCENARIOS["traced_python"] = Scenario(
    "sys.settrace, sys.setprofile, tracemalloc, gc.freeze, a switch interval of 1 µs", traced_python
)


class _Finalized:
    """Runs operators when it is collected."""

    def __init__(self) -> None:
        self.myself = self

    def __del__(self) -> None:
        torch.ones(2).add(1)


def collected(run: Run) -> None:
    """Objects with operators in their finalizers die in every step; models and optimizers come and go."""
    died: list[int] = []
    with run.captured() as step:
        for number in range(14):
            for _ in range(3):
                _Finalized()
            network = Network().eval()
            optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
            weakref.finalize(network, died.append, number)
            network(torch.ones(1, 8)).sum().backward()
            if run.random.random() < 0.2:
                optimizer.step()
            del network, optimizer
            if run.random.random() < 0.5:
                gc.collect(run.random.randrange(3))
            step()
    gc.collect()
    run.note(sorted(died))


SCENARIOS["collected"] = Scenario("finalizers that run operators, models and optimizers that die", collected)


def _broken(value: torch.Tensor, flag: int) -> torch.Tensor:
    value = value.sin()
    if float(value.sum()) > flag:
        value = value * 2
    print("", end="")
    return value.cos() + flag


def compiled(run: Run) -> None:
    """Call compiled functions in each step, and a compiled network."""
    backend = "inductor" if run.is_full and shutil.which("g++") else run.random.choice(["eager", "aot_eager"])
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(run.folder.parent / "tmp" / "inductor"))
    broken = torch.compile(_broken, backend=backend)
    network = torch.compile(Network().eval(), backend=backend)
    with run.captured() as step:
        for number in range(12):
            value = torch.full((3 + number % 3,), 0.5, requires_grad=True)
            broken(value, number % 2).sum().backward()
            run.note(value.grad, network(torch.ones(1 + number % 2, 8)))
            try:
                broken(torch.ones(2), "no number")
            except (TypeError, torch._dynamo.exc.TorchRuntimeError):
                run.note("refused")
            step()
    shutil.rmtree(run.folder.parent / "tmp" / "inductor", ignore_errors=True)


def _why_not() -> str:
    return "" if importlib.util.find_spec("torch._dynamo") else "this torch has no torch.compile"


SCENARIOS["compiled"] = Scenario(
    "torch.compile with graph breaks, recompilations and errors", compiled, why_not=_why_not
)


def _branching(value: torch.Tensor, times: int) -> torch.Tensor:
    for count in range(times):
        value = value.sin() + 1 if bool(value.sum() > count) else value * value
    return value


def _twice(value: torch.Tensor) -> torch.Tensor:
    futures = [torch.jit.fork(torch.neg, value), torch.jit.fork(torch.cos, value)]
    return torch.jit.wait(futures[0]) + torch.jit.wait(futures[1])


def jit(run: Run) -> None:
    """Call them in each step."""
    scripted = torch.jit.script(_branching)
    twice = torch.jit.script(_twice)
    network = Network().eval()
    traced = torch.jit.trace(network, torch.ones(2, 8))
    with run.captured() as step:
        for number in range(12):
            value = torch.full((4,), number / 4, requires_grad=True)
            scripted(value, 5).sum().backward()
            run.note(value.grad, twice(value), traced(torch.ones(3, 8)))
            results: list[str] = []
            thread = threading.Thread(
                target=lambda found=results: found.append(digest_of(scripted(torch.ones(3), 4)))
            )
            thread.start()
            thread.join()
            run.note(*results)
            if number == 6:
                run.note(torch.jit.freeze(traced)(torch.ones(1, 8)))
            step()


SCENARIOS["jit"] = Scenario("TorchScript: script, trace, freeze, fork", jit)
