"""What recording costs: a traced loop against the same loop untraced, in time and in bytes.

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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

import tracebraid
from tracebraid.files import write_whole
from tracebraid.recorders.native.recorder import NativeRecorder

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


def transformer() -> _Step:
    """A training step of two transformer layers, 64 wide, of 4 x 16 tokens."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(4, 16, 64)

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


LOOPS = (
    Loop("small ops", small_ops, 40),
    Loop("transformer", transformer, 10),
    Loop("big ops", big_ops, 3),
)


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


def observer(backend: str, starts: bool = True, with_kineto: bool = False) -> _Way:
    """Tracebraid's observer over a recorder."""

    @contextmanager
    def way(folder: Path, steps: int) -> Iterator[_Step]:
        one = tracebraid.ExecutionTraceObserver(backend).register_callback(folder / "et.json")
        if starts:
            one.start()
        with torch.profiler.profile(record_shapes=True) if with_kineto else nullcontext():
            yield _nothing
        one.discard()

    return way


@contextmanager
def capturing(folder: Path, steps: int) -> Iterator[_Step]:
    """Both recorders, by `tracebraid.capture`."""
    with tracebraid.capture(
        folder, check=False, overwrite=True, skip_first=0, wait=0, warmup=1, active=steps + 1
    ) as capture:
        capture.step()
        yield capture.step
        # What the window writes is not part of its steps: it ends here, one step early.


_Way = Callable[[Path, int], AbstractContextManager[_Step]]
WAYS: dict[str, _Way] = {
    "untraced": untraced,
    "native, registered": observer("native", starts=False),
    "native": observer("native"),
    "PyTorch's": observer("torch"),
    "Kineto": kineto_alone,
    "native and Kineto": observer("native", with_kineto=True),
    "PyTorch's and Kineto": observer("torch", with_kineto=True),
    "in a capture, waiting": waiting,
    "in a capture, recorded": capturing,
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


def sizes(loop: Loop, folder: Path) -> dict[str, float]:
    """Bytes per node of a native recording: in memory or its spill, as JSON, and as JSON in gzip."""
    step, path = loop.make(), folder / "sizes.json"
    recorder = NativeRecorder(path)
    recorder.open()
    recorder.start()
    for _ in range(loop.steps):
        step()
    recorder.close()
    packed = folder / "sizes.json.gz"
    write_whole(packed, [path.read_bytes()], overwrite=True)
    nodes = recorder.counts.nodes
    in_bytes = {"memory": recorder.counts.recorded_bytes, "JSON": path.stat().st_size}
    return {kind: size / nodes for kind, size in (*in_bytes.items(), ("JSON, gzip", packed.stat().st_size))}


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
    print("\nbytes per node, native:")
    with tempfile.TemporaryDirectory() as folder:
        for loop in LOOPS:
            print(f"{loop.name:12}", {kind: round(size) for kind, size in sizes(loop, Path(folder)).items()})


if __name__ == "__main__":
    main(sys.argv[1:])
