"""Cost of recording: time, bytes, forms of traces, growth over minutes."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import numpy as np
import torch

import tracebraid
from benchmarks.inputs import Given
from benchmarks.measure import Row
from tools.processes import resident_bytes
from tracebraid.files import write_whole
from tracebraid.model.graph import DependencyGraph
from tracebraid.recorders.native.recorder import NativeRecorder
from tracebraid.simulation.replay import job_step_times, replay, step_moments
from tracebraid.simulation.unrecorded import costs_of, recorded_work

_Step = Callable[[], None]
_ENOUGH_OPS = 20
"""A step of fewer operators is too long beside them for a cost of each to show."""


@dataclass(frozen=True)
class Loop:
    """A loop to run."""

    name: str  # what its ops are like
    make: Callable[[], _Step]  # gives its step
    steps: int  # how many steps a round takes


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


def measure(loop: Loop, rounds: int) -> list[Row]:
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


def _nothing() -> None:
    pass


def overhead(given: Given) -> Iterator[Row]:
    """Time of a recorded loop beside the same loop untraced, and bytes of a node; one process, one thread of torch.

    `ratio` is the median of each round's ratio of processor time, `wall` of time on the clock."""
    torch.set_num_threads(1)
    for loop in LOOPS:
        yield from measure(loop, given.rounds)
        yield Row("overhead", f"{loop.name}, bytes a node", figures=sizes(loop, given.folder))


def _cost(loop: str, way: str, cpu: dict[str, list[float]], wall: dict[str, list[float]], ops: float) -> Row:
    figures = {
        "step µs": median(cpu[way]) * 1e6,
        "ratio": median(mine / base for mine, base in zip(cpu[way], cpu["untraced"], strict=True)),
        "wall": median(mine / base for mine, base in zip(wall[way], wall["untraced"], strict=True)),
    }
    if way != "untraced" and ops >= _ENOUGH_OPS:
        added = median(mine - base for mine, base in zip(cpu[way], cpu["untraced"], strict=True))
        figures["added µs per op"] = added * 1e6 / ops
    return Row("overhead", f"{loop}, {way}", median(wall[way]), median(cpu[way]), figures=figures)


def unrecorded(given: Given) -> Iterator[Row]:
    """The step as recorded, and as predicted without recording, as ratios to the same loop outside of any capture.

    `calibrated` takes out what the capture measured, `fitted` that times `factor`; `beside` are the unrecorded steps
    of the captured run. Times are first quartiles of steps, which a busy machine disturbs least. Each round captures
    and runs alone in turn; figures are medians over the `rounds` in which there was time for the calibration."""
    torch.set_num_threads(1)
    for loop in LOOPS[:2]:
        for stacks in (False, True):
            found: dict[str, list[float]] = {}
            step = loop.make()
            for number in range(given.rounds):
                alone_ns = _alone_ns(step, loop.steps)
                for name, value in _predicted(step, loop.steps, given.folder / f"{number}", stacks).items():
                    found.setdefault(name, []).append(value if name == "factor" else value / alone_ns)
            found["rounds"] = [len(found.get("recorded", []))]
            figures = {name: median(values) for name, values in found.items()}
            yield Row("unrecorded", f"{loop.name}{', stacks' if stacks else ''}", figures=figures)


def _alone_ns(step: _Step, steps: int) -> float:
    """First quartile of the times of steps outside of any capture."""
    times = []
    for _ in range(steps):
        began = time.perf_counter_ns()
        step()
        times.append(time.perf_counter_ns() - began)
    return quantiles(times)[0]


def _predicted(step: _Step, steps: int, folder: Path, stacks: bool) -> dict[str, float]:
    """Times of a captured step in ns: as recorded, and without what recording costs."""
    with tracebraid.capture(
        folder, stacks=stacks, wait=steps, active=steps, check=False, overwrite=True
    ) as one:
        for _ in range(2 * steps + 4):
            step()
            one.step()
    graph = tracebraid.dependency_graph(tracebraid.open(folder))
    bare = tracebraid.what_if(graph, "scale 1").unrecorded
    if bare is None:  # The machine was too busy for the calibration.
        return {}
    work = recorded_work(graph, costs_of(graph))
    return {
        "recorded": _quartile_ns(graph),
        "calibrated": _quartile_ns(work.removed()),
        "fitted": _quartile_ns(work.removed(factor=bare.factor)),
        "beside": float(graph.captures[0].untraced_step_q1_ns or 0),
        "factor": bare.factor,
    }


def _quartile_ns(graph: DependencyGraph) -> float:
    """First quartile of the times of steps, replayed."""
    edges = graph.edges
    times_ns = replay(edges.first, edges.before, edges.work_ns, graph.moments.residual_ns)
    return float(np.percentile(job_step_times(times_ns, step_moments(graph.steps)).time_ns, 25))


FORMS = ("et.json", "et.json.gz", "et.arrow.zip")


def _measured_forms(folder: Path, steps: int, rounds: int) -> tuple[int, dict[str, tuple[int, float, float]]]:
    """The number of nodes, and of each form its bytes, and the seconds to write and to read it."""
    step = small_ops()
    observers = {
        form: tracebraid.ExecutionTraceObserver("native").register_callback(folder / form) for form in FORMS
    }
    for observer in observers.values():
        observer.start()
    for _ in range(steps):
        step()
    for observer in observers.values():
        observer.stop()
    writing = {form: _seconds(observer.unregister_callback) for form, observer in observers.items()}
    reading: dict[str, list[float]] = {form: [] for form in FORMS}
    for _ in range(rounds):
        for form, times in reading.items():
            times.append(_seconds(lambda form=form: tracebraid.read_execution_trace(folder / form)))  # type: ignore[misc]
    nodes = tracebraid.read_execution_trace(folder / FORMS[-1]).nodes.height
    return nodes, {
        form: ((folder / form).stat().st_size, writing[form], median(reading[form])) for form in FORMS
    }


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def forms(given: Given) -> Iterator[Row]:
    """Size, writing and reading of an Execution Trace in each form, of the same steps of a small training loop."""
    torch.set_num_threads(1)
    nodes, found = _measured_forms(given.folder, given.steps or 0, given.rounds)
    for form, (size, written, read) in found.items():
        figures = {"MB": size / 1e6, "bytes a node": size / nodes, "written s": written, "read s": read}
        yield Row("forms", f"{form}, {nodes:,} nodes", figures=figures)


_LINES = 10


def continuous(given: Given) -> Iterator[Row]:
    """Growth of memory and disk over minutes of recording: 50 MB a second in the folder of temporary files."""
    torch.set_num_threads(1)
    step = small_ops()
    for _ in range(100):
        step()
    before, steps = resident_bytes(os.getpid()), 0
    recorder = NativeRecorder(given.folder / "et.json")
    recorder.open()
    recorder.start()
    begin = time.monotonic()
    for line in range(_LINES):
        while time.monotonic() - begin < given.seconds * (line + 1) / _LINES:
            step()
            steps += 1
        grown = resident_bytes(os.getpid()) - before
        figures = {"steps": float(steps), "MB grown": grown / 1e6}
        yield Row("continuous", f"part {line + 1} of {_LINES}", time.monotonic() - begin, figures=figures)
    recorder.discard()
    counts = recorder.counts
    sizes = {name: getattr(counts, f"{name}_bytes") / 1e6 for name in ("recorded", "spilled", "peak", "lost")}
    yield Row("continuous", "MB", figures=sizes)
