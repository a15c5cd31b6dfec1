"""The program's own profilers, inside of ours and overlapping: with schedules, on other threads, of both kinds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run


def work(run: Run) -> None:
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
    """How often they saw `aten::ones`, which no training step has; 0 where they never started."""
    events = (
        theirs.function_events if isinstance(theirs, torch.autograd.profiler.profile) else theirs.events()
    )
    return sum(event.name == "aten::ones" for event in events or ())


SCENARIO = Scenario(
    "profilers of the program's own inside of ours and across its windows", work, may_lose=True
)
