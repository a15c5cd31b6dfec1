"""A simulated machine that writes Kineto traces: host threads, streams, collectives of several ranks.

Threads have a clock in ns; work of a device starts when its launch, its stream and what the stream waits for allow.
Each recorded event costs its thread the time that a profiler takes. The same program, run with `traced=False`, says how
long its steps take without one: the true saving of a fault is the difference of two such runs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.examination.planted.devices import A100, Device

__all__ = [
    "COMPUTE",
    "COPY",
    "NETWORK",
    "US",
    "Job",
    "Options",
    "Rank",
    "Thread",
]

US = 1_000
COMPUTE, COPY, NETWORK = 7, 13, 20
"""Streams."""
BASE_NS = 1_780_000_000_000_000_000

_COST_NS = {"cpu_op": 1_000, "user_annotation": 1_000, "python_function": 250, "cuda_runtime": 500}
"""What a recorded event costs its thread: measured with PyTorch 2.13 (ops with shapes, functions with stacks)."""
_LATENCY_NS = 2 * US
_RETURN_NS = 3 * US
_QUEUE = 1_000
"""So many launches wait on a device before the host does."""
_CALLBACKS = {
    "cudaLaunchKernel": 211,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaStreamSynchronize": 131,
    "cudaEventRecord": 135,
    "cudaEventSynchronize": 137,
    "cudaStreamWaitEvent": 147,
    "cudaDeviceSynchronize": 165,
    "cudaGraphLaunch": 311,
}


@dataclass(frozen=True)
class Options:
    """How a job is recorded.

    Args:
        device: of each rank; None: CPUs alone.
        stacks: whether Python functions are recorded.
        shapes: whether the inputs of ops are.
        traced: whether recording costs time.
        recorded: the ranks whose files are written; None: all.
        skew_us: how much later than the job a rank's recording begins.
        facts: what `tracebraid capture` would say of the process.
        framing: changes the members of a file, or their order.
        file_names: of the ranks' files; None: as a capture names them.
    """

    device: Device | None = A100
    stacks: bool = True
    shapes: bool = True
    traced: bool = True
    recorded: tuple[int, ...] | None = None
    skew_us: dict[int, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    framing: Callable[[dict[str, Any]], dict[str, Any]] = lambda content: content
    file_names: tuple[str, ...] | None = None


class Job:
    """The ranks of a job, which run in lockstep: what one does before a collective is planted before it."""

    def __init__(self, ranks: int = 1, options: Options | None = None) -> None:
        self.options = options or Options()
        self.ranks = [Rank(self, number) for number in range(ranks)]
        self.world = ranks
        self.began: int | None = None
        self.count = 0
        self._sequences: dict[tuple[int, ...], int] = defaultdict(int)

    def end_ns(self) -> int:
        """The end of all work so far."""
        return max(rank.end_ns() for rank in self.ranks)

    def step_ns(self) -> float:
        """Mean length of the steps so far; none before the first that counts."""
        return (self._ended - (self.began or 0)) / max(self.count, 1)

    @contextmanager
    def step(self, number: int, counts: bool = True) -> Iterator[None]:
        """A step of the profiler on all ranks."""
        if counts and self.began is None:
            self.began = min(rank.main.now for rank in self.ranks)
        opened = [rank.main.note(f"ProfilerStep#{number}") for rank in self.ranks]
        for one in opened:
            one.__enter__()
        yield
        for one in opened:
            one.__exit__(None, None, None)
        self.count += counts
        self._ended = self.end_ns()

    def collective(
        self,
        kind: str,
        elements: int,
        transfer_us: float,
        dtype: str = "Float",
        stream: int = NETWORK,
        waits: bool = True,
        ranks: Sequence[int] | None = None,
    ) -> None:
        """A collective of NCCL: begins on each rank when its stream lets it, ends on all `transfer_us` after the last.

        Args:
            kind: `all_reduce`, `all_gather`, `reduce_scatter`, `barrier`, `broadcast`, `all_to_all`.
            elements: of one rank's input.
            transfer_us: from the last arrival to the end.
            dtype: NCCL's name of the type.
            stream: where it runs.
            waits: whether the computing stream waits for it.
            ranks: the members; None: all.
        """
        members = [self.ranks[number] for number in (ranks or range(self.world))]
        group = tuple(rank.number for rank in members)
        self._sequences[group] += 1
        sequence = self._sequences[group]
        begun = [rank.begin_collective(kind, elements, dtype, stream, group, sequence) for rank in members]
        end = max(event["start"] for event in begun) + int(transfer_us * US)
        for rank, event in zip(members, begun, strict=True):
            event["dur"] = end - event["start"]
            rank.free[stream] = end
            if waits:
                rank.here.call("cudaStreamWaitEvent", 1.5)
                rank.free[COMPUTE] = max(rank.free[COMPUTE], end)

    def send(self, source: int, target: int, elements: int, transfer_us: float) -> None:
        """Send from a rank to another; both wait for it."""
        group = tuple(range(self.world))
        self._sequences[group] += 1
        sequence = self._sequences[group]
        begun = {
            rank: self.ranks[rank].begin_collective(kind, elements, "BFloat16", NETWORK, group, sequence)
            for rank, kind in ((source, "send"), (target, "recv"))
        }
        begun[source]["args"]["Dst Rank"] = target
        begun[target]["args"]["Src Rank"] = source
        end = max(event["start"] for event in begun.values()) + int(transfer_us * US)
        for number, event in begun.items():
            rank = self.ranks[number]
            event["dur"] = end - event["start"]
            rank.free[NETWORK] = end
            if number == target:
                rank.here.call("cudaStreamWaitEvent", 1.5)
                rank.free[COMPUTE] = max(rank.free[COMPUTE], end)

    def write(self, folder: Path) -> Path:
        """Write the files of the recorded ranks."""
        for rank in self.ranks:
            if self.options.recorded is None or rank.number in self.options.recorded:
                rank.write(folder)
        return folder


class Rank:
    """One process with a device."""

    def __init__(self, job: Job, number: int) -> None:
        self.job, self.number, self.options = job, number, job.options
        self.random = Random(1000 + number)
        self.pid = 4000 + number * 100
        self.events: list[dict[str, Any]] = []
        self.free: dict[int, int] = defaultdict(int)
        self.pending: list[int] = []
        self.queue = _QUEUE
        self.threads: list[Thread] = []
        self.main = self.thread("python3")
        self.here = self.main
        """The thread that computes now: that of the backward pass while it runs."""
        self.correlation = 10_000
        self.external = 0
        self.sequence = 0
        self.frames = 0

    def thread(self, name: str) -> Thread:
        """A new thread."""
        self.threads.append(Thread(self, self.pid + len(self.threads), name))
        return self.threads[-1]

    def end_ns(self) -> int:
        """The end of all that it did on its main thread and device."""
        return max(self.main.now, *self.free.values(), 0) if self.free else self.main.now

    @contextmanager
    def backward(self) -> Iterator[Thread]:
        """A backward pass: the main thread waits for autograd's."""
        with (
            self.main.frame("torch/_tensor.py(569): backward"),
            self.main.frame("torch/autograd/__init__.py(243): backward"),
            self.main.frame("<built-in method run_backward of torch._C._EngineBase object at 0x7f0>"),
        ):
            if self.options.device is None:
                yield self.main
                return
            if len(self.threads) == 1:
                self.thread("pt_autograd_0")
            self.here = self.threads[1]
            self.here.until(self.main.now + 15 * US)
            yield self.here
            self.main.until(self.here.now + 15 * US)
            self.here = self.main

    def begin_collective(
        self, kind: str, elements: int, dtype: str, stream: int, group: tuple[int, ...], sequence: int
    ) -> dict[str, Any]:
        """The host's part of a collective, and its kernel, whose end is not yet known."""
        outer, inner, name, kernel = _COLLECTIVES[kind]
        size = len(group)
        out = {"all_gather": elements * size, "reduce_scatter": elements // size}.get(kind, elements)
        args = {
            "Collective name": name,
            "In msg nelems": elements,
            "Out msg nelems": out,
            "Group size": size,
            "dtype": dtype,
            "In split size": "[]",
            "Out split size": "[]",
            "Process Group Name": "0" if size == self.job.world else str(1 + group[0]),
            "Process Group Description": "default_pg" if size == self.job.world else "undefined",
            "Process Group Ranks": str(list(group)),
            "Seq": sequence,
        }
        with (
            self.here.op(outer, 4, dims=[[[elements]], []]),
            self.here.op("record_param_comms", 3, args=args),
            self.here.note(f"nccl:{inner}"),
        ):
            self.here.call("cudaEventRecord", 1.5)
            self.here.call("cudaStreamWaitEvent", 1.5)
            ready = max(self.free[stream], self.free[COMPUTE])
            self.free[stream] = ready
            return self.here.launch(kernel, 0, stream=stream, grid=(16, 1, 1), args=args)

    def write(self, folder: Path) -> None:
        """Write its file, from the moment on at which its recording began."""
        begin = int(self.options.skew_us.get(self.number, 0) * US)
        events = [_json(event) for event in self.events if event["start"] >= begin]
        launched = {e["args"].get("correlation"): e for e in events if e["cat"].startswith("cuda_")}
        for event in [e for e in events if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]:
            call = launched.get(event["args"]["correlation"])
            if call is not None:
                for phase, end in (("s", call), ("f", event)):
                    where = {"pid": end["pid"], "tid": end["tid"], "ts": end["ts"], "bp": "e"}
                    number = event["args"]["correlation"]
                    events.append({"ph": phase, "id": number, "cat": "ac2g", "name": "ac2g", **where})
        for thread in self.threads:
            named = {"name": f"thread {thread.tid} ({thread.name})"}
            events.append(
                {"ph": "M", "name": "thread_name", "pid": self.pid, "tid": thread.tid, "ts": 0, "args": named}
            )
        content = self.options.framing({**self._header(), "traceEvents": events})
        names = self.options.file_names
        name = f"kineto_trace_{self.number}.json" if names is None else names[self.number]
        (folder / name).write_text(json.dumps(content))

    def _header(self) -> dict[str, Any]:
        device = self.options.device
        ranks = list(range(self.job.world))
        group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": len(ranks), "ranks": ranks}
        header: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [] if device is None else [device.properties()],
            "record_shapes": int(self.options.shapes),
            "with_stack": int(self.options.stacks),
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_NS,
        }
        if self.job.world > 1:
            header["host_name"] = "node-0"
            header["distributedInfo"] = {
                "backend": "nccl",
                "rank": self.number,
                "world_size": self.job.world,
                "pg_count": 1,
                "pg_config": [{**group, "backend_config": "cuda:nccl"}],
                "nccl_version": "2.21.5",
            }
        if self.options.facts:
            header["tracebraid"] = self.options.facts
        return header


class Thread:
    """A thread of a rank."""

    def __init__(self, rank: Rank, tid: int, name: str) -> None:
        self.rank, self.tid, self.name = rank, tid, name
        self.now = 1_000_000
        self.open: list[dict[str, Any]] = []

    def spend(self, us: float) -> None:
        """Let the host work, give or take 3 %."""
        self.now += int(us * US * self.rank.random.uniform(0.97, 1.03))

    def until(self, ns: int) -> None:
        """Let time pass until a moment."""
        self.now = max(self.now, ns)

    @contextmanager
    def event(self, name: str, category: str, args: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """An event around the block."""
        found: dict[str, Any] = {
            "name": name,
            "cat": category,
            "pid": self.rank.pid,
            "tid": self.tid,
            "start": self.now,
            "args": args,
        }
        self.rank.events.append(found)
        if self.rank.options.traced:
            self.now += _COST_NS.get(category, 500)
        self.open.append(found)
        yield found
        self.open.pop()
        found["dur"] = self.now - found["start"]

    @contextmanager
    def op(
        self,
        name: str,
        us: float = 4,
        dims: Sequence[Any] | None = None,
        types: Sequence[str] | None = None,
        strides: Sequence[Any] | None = None,
        concrete: Sequence[str] | None = None,
        args: dict[str, Any] | None = None,
        sequence: int | None = None,
        forward_thread: int = 0,
    ) -> Iterator[dict[str, Any]]:
        """An op that takes `us` itself, half of it before and half of it behind the block.

        An op of a backward pass has the number of the thread of its forward pass.
        """
        self.rank.external += 1
        found: dict[str, Any] = {"External id": self.rank.external, **(args or {})}
        found["Record function id"] = self.rank.external
        if sequence is not None:
            found |= {"Sequence number": sequence, "Fwd thread id": forward_thread}
        if dims is not None and self.rank.options.shapes:
            found |= _inputs(dims, types, strides, concrete)
        with self.event(name, "cpu_op", found) as planted:
            self.spend(us / 2)
            yield planted
            self.spend(us / 2)

    @contextmanager
    def note(self, name: str) -> Iterator[dict[str, Any]]:
        """An annotation around the block."""
        self.rank.external += 1
        numbers = {"External id": self.rank.external, "Record function id": self.rank.external}
        with self.event(name, "user_annotation", numbers) as planted:
            yield planted

    @contextmanager
    def frame(self, name: str, us: float = 0) -> Iterator[None]:
        """A Python function around the block, which it works `us` before."""
        if not self.rank.options.stacks:
            self.spend(us)
            yield
            return
        outer = [event for event in self.open if event["cat"] == "python_function"]
        self.rank.frames += 1
        parent = outer[-1]["args"]["Python id"] if outer else None
        args = {"Python parent id": parent, "Python id": self.rank.frames}
        if name.startswith("nn.Module: "):
            args["Python module id"] = int(name.rpartition("_")[2])
        with self.event(name, "python_function", args):
            self.spend(us)
            yield

    def call(self, name: str, us: float = 4, category: str = "cuda_runtime") -> dict[str, Any]:
        """A call of the runtime."""
        self.rank.correlation += 1
        args = {"cbid": _CALLBACKS.get(name, 999), "correlation": self.rank.correlation}
        ops = [event for event in self.open if event["cat"] in ("cpu_op", "user_annotation")]
        if ops:
            args["External id"] = ops[-1]["args"]["External id"]
        with self.event(name, category, args) as planted:
            self.spend(us)
        return planted

    def launch(
        self,
        kernel: str,
        us: float,
        stream: int = COMPUTE,
        grid: tuple[int, int, int] = (1024, 1, 1),
        block: tuple[int, int, int] = (256, 1, 1),
        args: dict[str, Any] | None = None,
        api: str = "cudaLaunchKernel",
        call_us: float = 4,
    ) -> dict[str, Any]:
        """Launch a kernel; its duration varies by 1 %."""
        found: dict[str, Any] = {"queued": 0, "grid": list(grid), "block": list(block)}
        found |= {"registers per thread": 64, "shared memory": 0, **(args or {})}
        return self._queue(api, call_us, kernel, "kernel", us, stream, found)

    def copy(
        self, kind: str, size: int, us: float, stream: int = COMPUTE, blocks: bool = False, call_us: float = 5
    ) -> dict[str, Any]:
        """Copy `size` bytes; a call that blocks ends when the copy has ended."""
        args = {"bytes": size, "memory bandwidth (GB/s)": size / (us * US)}
        return self._queue(
            "cudaMemcpyAsync", call_us, f"Memcpy {kind}", "gpu_memcpy", us, stream, args, blocks
        )

    def wait(self, name: str = "cudaStreamSynchronize", stream: int | None = COMPUTE) -> None:
        """Wait for a stream, or for all of the device."""
        free = self.rank.free[stream] if stream is not None else max(self.rank.free.values(), default=0)
        call = self.call(name, 3)
        self.until(free + _RETURN_NS)
        call["dur"] = self.now - call["start"]

    def graph(self, kernels: Iterable[tuple[str, float]], gap_us: float = 1.0, graph: int = 1) -> None:
        """Launch a CUDA graph of kernels one after another."""
        call = self.call("cudaGraphLaunch", 9)
        for node, (name, us) in enumerate(kernels):
            ready = self.now + 3 * US if not node else self.rank.free[COMPUTE] + int(gap_us * US)
            args: dict[str, Any] = {"graph id": graph, "graph node id": graph * 1000 + node, "queued": 0}
            args |= {
                "grid": [512, 1, 1],
                "block": [256, 1, 1],
                "registers per thread": 64,
                "shared memory": 0,
            }
            self.run(call, name, "kernel", us, COMPUTE, ready, args)

    def _queue(
        self,
        api: str,
        call_us: float,
        name: str,
        category: str,
        us: float,
        stream: int,
        args: dict[str, Any],
        blocks: bool = False,
    ) -> dict[str, Any]:
        rank = self.rank
        rank.pending = [start for start in rank.pending if start > self.now]
        call = self.call(api, call_us)
        if len(rank.pending) > rank.queue:
            self.until(sorted(rank.pending)[-rank.queue])
            call["dur"] = self.now - call["start"]
        found = self.run(call, name, category, us, stream, self.now + _LATENCY_NS, args)
        if blocks:
            self.until(found["start"] + found["dur"] + _RETURN_NS)
            call["dur"] = self.now - call["start"]
        return found

    def run(
        self,
        call: dict[str, Any],
        name: str,
        category: str,
        us: float,
        stream: int,
        ready: int,
        args: dict[str, Any],
    ) -> dict[str, Any]:
        """Work of a stream that a call launched: from `ready` on, behind what is on the stream."""
        rank = self.rank
        start = max(ready, rank.free[stream] + 800)
        dur = int(us * US * rank.random.uniform(0.99, 1.01))
        fixed = {
            "device": 0,
            "context": 1,
            "stream": stream,
            "correlation": call["args"]["correlation"],
            **args,
        }
        if "External id" in call["args"]:
            fixed["External id"] = call["args"]["External id"]
        found = {
            "name": name,
            "cat": category,
            "pid": 0,
            "tid": stream,
            "start": start,
            "dur": dur,
            "args": fixed,
        }
        rank.events.append(found)
        rank.free[stream] = start + dur
        rank.pending.append(start)
        return found


_COLLECTIVES = {
    "all_reduce": ("c10d::allreduce_", "all_reduce", "allreduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    "all_gather": (
        "c10d::_allgather_base_",
        "_all_gather_base",
        "_allgather_base",
        "ncclDevKernel_AllGather_RING_LL",
    ),
    "reduce_scatter": (
        "c10d::_reduce_scatter_base_",
        "_reduce_scatter_base",
        "_reduce_scatter_base",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
    ),
    "barrier": ("c10d::barrier", "all_reduce_barrier", "barrier", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    "broadcast": ("c10d::broadcast_", "broadcast", "broadcast", "ncclDevKernel_Broadcast_RING_LL"),
    "send": ("c10d::send", "send", "send", "ncclDevKernel_SendRecv"),
    "recv": ("c10d::recv_", "recv", "recv", "ncclDevKernel_SendRecv"),
    "all_to_all": ("c10d::alltoall_base_", "all_to_all", "all_to_all", "ncclDevKernel_SendRecv"),
}


def _inputs(
    dims: Sequence[Any],
    types: Sequence[str] | None,
    strides: Sequence[Any] | None,
    concrete: Sequence[str] | None,
) -> dict[str, Any]:
    """Arguments of an op about its inputs; of float32, contiguous, if not otherwise stated."""
    return {
        "Input Dims": list(dims),
        "Input type": list(types or ["float" if shape else "Scalar" for shape in dims]),
        "Input Strides": list(strides or [contiguous(shape) for shape in dims]),
        "Concrete Inputs": list(concrete or [""] * len(dims)),
    }


def contiguous(shape: Sequence[Any]) -> list[Any]:
    """Strides of a contiguous tensor, or of each of a list of tensors."""
    if any(isinstance(length, list) for length in shape):
        return [contiguous(inner) for inner in shape]
    strides, stride = [], 1
    for length in reversed(shape):
        strides.append(stride)
        stride *= length
    return strides[::-1]


def _json(event: dict[str, Any]) -> dict[str, Any]:
    """An event as Kineto writes it: microseconds with three decimals."""
    found = {key: value for key, value in event.items() if key not in ("start", "dur")}
    found = {"ph": "X", **found, "ts": event["start"] / US}
    if event["cat"] == "cpu_instant_event":
        return {**found, "ph": "i", "s": "t"}
    return {**found, "dur": event["dur"] / US}
