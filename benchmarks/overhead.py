"""What recording costs: a traced loop against the same loop untraced.

    python -m benchmarks.overhead [--rounds 31] [--json]

Needs torch. Everything runs in one process, with one thread in torch: each round goes through all ways to run a
loop, in an order that is shuffled anew. Only the steps count, not the start and the end of a window. Figures are
medians over the rounds; ratios are medians of each round's ratio.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

import tracebraid

__all__: list[str] = []

_Step = Callable[[], None]
_ENOUGH_OPS = 20
"""A step of fewer operators is too long beside them for a cost of each to show."""


@dataclass(frozen=True)
class Loop:
    """A loop to run.

    Args:
        name: what its ops are like.
        make: gives its step.
        steps: how many steps a round takes.
    """

    name: str
    make: Callable[[], _Step]
    steps: int


@dataclass(frozen=True)
class Cost:
    """What a way to run a loop costs, in processor time; `wall_ratio` in time on the clock."""

    loop: str
    way: str
    step_us: float
    ratio: float
    wall_ratio: float
    added_us_per_op: float | None


def small_ops() -> _Step:
    """A training step of an MLP of 64 x 64: its operators take a microsecond or two each."""
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(16, 64)

    def step() -> None:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def big_ops() -> _Step:
    """Products of 1024 x 1024 matrices: tens of milliseconds each."""
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)

    def step() -> None:
        for _ in range(2):
            torch.mm(left, right)

    return step


LOOPS = (Loop("small ops", small_ops, 40), Loop("big ops", big_ops, 3))


@contextmanager
def untraced(folder: Path, steps: int) -> Iterator[_Step]:
    """The loop alone."""
    yield _nothing


@contextmanager
def waiting(folder: Path, steps: int) -> Iterator[_Step]:
    """Inside a capture whose window has not opened."""
    with tracebraid.capture(folder, wait=steps, skip_first=0, check=False, overwrite=True) as capture:
        yield capture.step


@contextmanager
def kineto_alone(folder: Path, steps: int) -> Iterator[_Step]:
    """PyTorch's profiler with shapes."""
    with torch.profiler.profile(record_shapes=True):
        yield _nothing


@contextmanager
def observer_alone(folder: Path, steps: int) -> Iterator[_Step]:
    """Tracebraid's observer over PyTorch's recorder."""
    observer = tracebraid.ExecutionTraceObserver().register_callback(folder / "et.json")
    observer.start()
    yield _nothing
    observer.unregister_callback()


@contextmanager
def capturing(folder: Path, steps: int) -> Iterator[_Step]:
    """Both recorders, by `tracebraid.capture`."""
    with tracebraid.capture(
        folder, check=False, overwrite=True, skip_first=0, wait=0, warmup=1, active=steps + 1
    ) as capture:
        capture.step()
        yield capture.step
        # What the window writes is not part of its steps: it ends here, one step early.


WAYS: dict[str, Callable[[Path, int], Any]] = {
    "untraced": untraced,
    "in a capture, not recorded": waiting,
    "Kineto alone": kineto_alone,
    "Execution Trace alone": observer_alone,
    "both, by capture": capturing,
}


def measure(loop: Loop, rounds: int) -> list[Cost]:
    """Run each way in each round, in shuffled order."""
    step = loop.make()
    for _ in range(loop.steps):
        step()
    cpu: dict[str, list[float]] = {way: [] for way in WAYS}
    wall: dict[str, list[float]] = {way: [] for way in WAYS}
    shuffle = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for way in shuffle.sample(list(WAYS), len(WAYS)):
                with WAYS[way](Path(folder), loop.steps) as mark:
                    cpu_s, wall_s = _run(step, mark, loop.steps)
                cpu[way].append(cpu_s / loop.steps)
                wall[way].append(wall_s / loop.steps)
        ops = _ops_per_step(step, Path(folder))
    return [_cost(loop.name, way, cpu, wall, ops) for way in WAYS]


def _run(step: _Step, mark: _Step, steps: int) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(steps):
        step()
        mark()
    return time.process_time() - cpu, time.perf_counter() - wall


def _ops_per_step(step: _Step, folder: Path) -> float:
    with tracebraid.capture(
        folder, skip_first=0, wait=0, warmup=1, active=2, check=False, overwrite=True
    ) as one:
        for _ in range(4):
            step()
            one.step()
    return tracebraid.open(folder)[0].coverage.host_ops.total / 2


def _cost(loop: str, way: str, cpu: dict[str, list[float]], wall: dict[str, list[float]], ops: float) -> Cost:
    added = median(mine - base for mine, base in zip(cpu[way], cpu["untraced"], strict=True))
    return Cost(
        loop,
        way,
        median(cpu[way]) * 1e6,
        median(mine / base for mine, base in zip(cpu[way], cpu["untraced"], strict=True)),
        median(mine / base for mine, base in zip(wall[way], wall["untraced"], strict=True)),
        None if way == "untraced" or ops < _ENOUGH_OPS else added * 1e6 / ops,
    )


def _nothing() -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=31, metavar="N", help="how often each is measured (31)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    costs = [cost for loop in LOOPS for cost in measure(loop, given.rounds)]
    if given.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))
        return
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {given.rounds} rounds\n")
    print(f"{'loop':12}{'way':30}{'step':>12}{'ratio':>8}{'wall':>8}{'added per op':>15}")
    for cost in costs:
        added = "" if cost.added_us_per_op is None else f"{cost.added_us_per_op:.2f} µs"
        figures = f"{cost.step_us:>9.0f} µs{cost.ratio:>8.2f}{cost.wall_ratio:>8.2f}{added:>15}"
        print(f"{cost.loop:12}{cost.way:30}{figures}")


if __name__ == "__main__":
    main(sys.argv[1:])
