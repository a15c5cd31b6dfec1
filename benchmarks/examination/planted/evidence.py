"""Cases in which evidence is missing, so that the right answer is that one cannot tell; and artefacts of recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tracebraid
from benchmarks.examination.planted.case import PlantedCase, declare
from benchmarks.examination.planted.machine import COMPUTE, US, Job, Options, Rank
from benchmarks.examination.planted.ranks import buckets, join
from benchmarks.examination.planted.workloads import FP32, Plan, batch, elementwise, loop, product

__all__ = ["CASES"]

CASES: dict[str, PlantedCase] = {}
_LATE = ("late-rank", "rank-imbalance")
_HOST = ("host-work", "launch-bound", "data-loader", "recording")
_SYNCS = ("item-sync", "size-sync", "read-sync", "explicit-sync")


def _half_without_launch(content: dict[str, Any]) -> dict[str, Any]:
    """The launches of every other call were not recorded."""
    events = content["traceEvents"]
    kept = [
        event
        for event in events
        if not (event.get("cat") == "cuda_runtime" and event["args"]["correlation"] % 2)
        and not (event.get("cat") == "ac2g" and event["id"] % 2)
    ]
    for event in kept:
        if event.get("cat") == "kernel" and event["args"]["correlation"] % 2:
            event["args"].pop("External id", None)
    return {**content, "traceEvents": kept}


@declare(
    CASES,
    "missing",
    abstains=True,
    says=("launch",),
    options=Options(framing=_half_without_launch, stacks=False),
)
def half_of_the_launches_lost(job: Job, fault: bool) -> None:
    """Half of the device's work has no launch in the trace, and the device waits between kernels."""
    thread = job.ranks[0].main
    for number in range(1, 6):
        with job.step(number):
            for _ in range(60):
                thread.call("cudaLaunchKernel", 4)
                thread.launch("unknown_kernel", 30)
                thread.spend(60)
                for _ in range(3):
                    thread.launch("unknown_kernel", 25)
                    thread.rank.correlation += 1
            thread.wait()


@declare(CASES, "missing", abstains=True, never=(*_SYNCS, "host-work", "launch-bound"))
def graph_without_its_kernels(job: Job, fault: bool) -> None:
    """The kernels of a CUDA graph were not recorded: the host waits 20 ms for a device that seems idle."""
    thread = job.ranks[0].main
    for number in range(1, 6):
        with job.step(number), thread.frame("serve.py(30): infer", 10):
            elementwise(thread, "aten::copy_", (64, 1024))
            with thread.frame("torch/cuda/graphs.py(89): replay", 4):
                thread.call("cudaGraphLaunch", 9)
            thread.rank.free[COMPUTE] = thread.now + 20_000 * US
            elementwise(thread, "aten::argmax", (64, 1024))
            with thread.op("aten::item", 2), thread.op("aten::_local_scalar_dense", 2):
                thread.copy("DtoH (Device -> Pageable)", 4, 1.5)
                thread.wait()


@declare(CASES, "missing", abstains=True, never=(*_SYNCS, *_HOST))
def graph_that_begins_late(job: Job, fault: bool) -> None:
    """A graph is launched, and its first node begins 9 ms later, for no reason that the trace has."""
    thread = job.ranks[0].main
    for number in range(1, 6):
        with job.step(number), thread.frame("serve.py(30): infer", 10):
            thread.rank.free[COMPUTE] = max(thread.rank.free[COMPUTE], thread.now) + 9_000 * US
            with thread.frame("torch/cuda/graphs.py(89): replay", 4):
                thread.graph([("triton_poi_fused", 40.0)] * 60)
            with thread.op("aten::item", 2), thread.op("aten::_local_scalar_dense", 2):
                thread.copy("DtoH (Device -> Pageable)", 4, 1.5)
                thread.wait()


@declare(CASES, "missing", abstains=True, never=(*_SYNCS, "launch-bound", "host-work"))
def graph_that_begins_late_beside_the_host(job: Job, fault: bool) -> None:
    """A graph is launched early, its first node begins 9 ms later; meanwhile the host runs 5 ms of Python."""
    thread = job.ranks[0].main
    for number in range(1, 6):
        with job.step(number), thread.frame("serve.py(30): infer", 10):
            thread.rank.free[COMPUTE] = max(thread.rank.free[COMPUTE], thread.now) + 9_000 * US
            with thread.frame("torch/cuda/graphs.py(89): replay", 4):
                thread.graph([("triton_poi_fused", 40.0)] * 60)
            with thread.frame("serve.py(44): schedule", 5_000):
                pass
            with thread.op("aten::item", 2), thread.op("aten::_local_scalar_dense", 2):
                thread.copy("DtoH (Device -> Pageable)", 4, 1.5)
                thread.wait()


@declare(
    CASES,
    "missing",
    ranks=8,
    bound=("communication",),
    never=(*_LATE, "host-work"),
    says=("all ranks",),
    options=Options(recorded=(3,)),
)
def one_rank_of_eight(job: Job, fault: bool) -> None:
    """Of eight ranks one was recorded; its reductions take 64 % of the step at 2 GB/s: a link, or another rank."""

    def gradient(job: Job, block: int) -> None:
        if block % 3 == 0:
            job.collective("all_reduce", 3_300_000, 6_600, waits=False)

    loop(job, Plan(steps=4), gradient=gradient, reduced=lambda job, number: join(job))


@declare(
    CASES,
    "missing",
    first=("data-loader",),
    places=("DataLoader", "dataloader"),
    says=("one step", "1 step", "single step"),
)
def one_step_alone(job: Job, fault: bool) -> None:
    """One step was recorded, in which the loader took 15 ms: once, which may be every time or never again."""
    loop(job, Plan(steps=1), wait_us=15_000 if fault else 60)


@declare(CASES, "missing", never=("eager-attention",), bound=("compute",), options=Options(shapes=False))
def attention_without_shapes(job: Job, fault: bool) -> None:
    """Products and softmaxes whose shapes were not recorded may be attention, or not."""

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        with thread.op("aten::bmm", 5):
            thread.launch("ampere_bf16_s16816gemm_bf16_128x128_tn", 200)
        with thread.op("aten::softmax", 3):
            elementwise(thread, "aten::_softmax", (128, 1024, 1024))
        with thread.op("aten::bmm", 5):
            thread.launch("ampere_bf16_s16816gemm_bf16_128x64_nn", 200)

    loop(job, Plan(backward=False), layer=layer)


def _memory(rank: Rank, total: int, size: int, address: int) -> None:
    args = {
        "Total Reserved": 1 << 30,
        "Total Allocated": total,
        "Bytes": size,
        "Addr": address,
        "Device Id": 0,
        "Device Type": 1,
    }
    thread = rank.here
    rank.events.append(
        {
            "name": "[memory]",
            "cat": "cpu_instant_event",
            "pid": rank.pid,
            "tid": thread.tid,
            "start": thread.now,
            "args": args,
        }
    )


def _keeps(job: Job, steps: int, kept: int, until: int = 1_000) -> None:
    """A loop that allocates 8 MiB in each step, gives them back, and keeps some of it until a step."""
    rank = job.ranks[0]
    total = 1 << 28
    count = 0

    def forwarded(job: Job, number: int) -> None:
        nonlocal total, count
        thread = rank.here
        with (
            thread.frame("history.py(5): remember", 3),
            thread.op("aten::empty", 4, dims=[[]], concrete=["[2097152]"]),
        ):
            count += 1
            _memory(rank, total + (8 << 20), 8 << 20, 4096 * count)
        if number <= until:
            with thread.op("aten::clone", 4, dims=[[32_768]]):
                total += kept
                _memory(rank, total + (8 << 20), kept, 1 << 40 | 4096 * count)
        thread.spend(2)
        _memory(rank, total, -(8 << 20), 4096 * count)

    loop(job, Plan(steps=steps, layers=2), forwarded=forwarded)


def _growth(folder: Path) -> tuple[Any, ...]:
    return tracebraid.advise(tracebraid.open(folder)).growth


def _no_growth(folder: Path) -> str:
    return "says that memory grows" if _growth(folder) else ""


def _grows(folder: Path) -> str:
    growth = _growth(folder)
    if not growth:
        return "does not say that memory grows"
    return "" if abs(growth[0].bytes_per_step - 131_072) < 7_000 else f"{growth[0].bytes_per_step} a step"


@declare(CASES, "missing", says=("ten steps", "too few steps"), bound=("compute",))
def leak_of_three_steps(job: Job, fault: bool) -> None:
    """Memory grows by 131 KB in each of three steps: too few to tell: ask for more."""
    _keeps(job, 3, 131_072)


@declare(CASES, "cause", check=_grows, bound=("compute",))
def leak_of_ten_steps(job: Job, fault: bool) -> None:
    """Memory grows by 131 KB in each of ten steps."""
    _keeps(job, 10, 131_072)


@declare(CASES, "decoy", check=_no_growth, bound=("compute",))
def memory_that_fills_caches(job: Job, fault: bool) -> None:
    """Memory grows in the first four of ten steps, and no more."""
    _keeps(job, 10, 131_072, until=4)


@declare(CASES, "artefact", ranks=2, never=(*_LATE, "host-work"), bound=("compute",))
def ranks_that_begin_apart(job: Job, fault: bool) -> None:
    """The profiler of rank 1 starts 7.5 ms after that of rank 0; the first reduction waits for it."""
    job.ranks[1].main.spend(7_500)
    loop(job, Plan(steps=4), gradient=buckets, reduced=lambda job, number: join(job))


def _without_what_was_apart(folder: Path) -> str:
    step_ms = tracebraid.advise(tracebraid.open(folder)).step_ns / 1e6
    return "" if step_ms < 10 else f"a step of {step_ms:.1f} ms, of which 7.5 are apart"


@declare(
    CASES,
    "artefact",
    ranks=2,
    never=(*_LATE, "host-work"),
    unsaid=("waiting for something not in the trace",),
    check=_without_what_was_apart,
)
def one_step_of_ranks_that_begin_apart(job: Job, fault: bool) -> None:
    """One step was recorded, which rank 1 begins 7.5 ms after rank 0; rank 0 waits for it at the first reduction."""
    job.ranks[1].main.spend(7_500)
    loop(job, Plan(steps=1), gradient=buckets, reduced=lambda job, number: join(job))


@declare(
    CASES,
    "artefact",
    ranks=4,
    never=(*_LATE, "host-work"),
    bound=("compute",),
    options=Options(skew_us={1: 3_500, 2: 6_000, 3: 8_500}),
)
def recordings_cut_at_their_starts(job: Job, fault: bool) -> None:
    """Four ranks, of which each began to record 2.5 ms after the one before, in the midst of the first step."""

    def end(job: Job, number: int) -> None:
        for rank in job.ranks:
            with rank.main.op("aten::item", 2), rank.main.op("aten::_local_scalar_dense", 2):
                rank.main.copy("DtoH (Device -> Pageable)", 4, 1.5)
                rank.main.wait()

    loop(job, Plan(steps=4), gradient=buckets, reduced=lambda job, number: join(job), end=end)


def _from_the_middle(content: dict[str, Any]) -> dict[str, Any]:
    """The host's events of the first 4 ms were not recorded, what they launched was."""
    events = [e for e in content["traceEvents"] if "ts" in e and e["ph"] != "M"]
    begin = min(event["ts"] for event in events) + 4_000
    host = {"cpu_op", "user_annotation", "python_function", "cuda_runtime", "ac2g"}
    kept = [
        event
        for event in content["traceEvents"]
        if event["ph"] == "M" or event.get("cat") not in host or event["ts"] >= begin
    ]
    return {**content, "traceEvents": kept}


@declare(
    CASES, "artefact", never=(*_HOST, *_SYNCS), bound=("compute",), options=Options(framing=_from_the_middle)
)
def launched_before_the_window(job: Job, fault: bool) -> None:
    """The recording begins while the host is four steps ahead of the device: much work has no launch."""
    loop(job, Plan(steps=8))


@declare(CASES, "artefact", bound=("compute",), never=_HOST)
def first_step_is_slow(job: Job, fault: bool) -> None:
    """Kernels are loaded and algorithms chosen in the first step: 250 ms; seven follow without."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        batch(thread)
        if number == 1:
            with thread.frame("nn.Module: Conv2d_0", 5), thread.op("aten::cudnn_convolution", 200):
                for _ in range(5):
                    thread.call("cuModuleLoadData", 50_000, "cuda_driver")
                thread.launch("cudnn_convolve_sgemm_sm80", 300)

    loop(job, Plan(steps=8), begin=begin, end=lambda job, number: None)


@declare(
    CASES,
    "artefact",
    never=_HOST,
    says=("start-up", "warm-up"),
    options=Options(stacks=False),
    bound=("host",),
)
def recorded_from_the_first_use_on(job: Job, fault: bool) -> None:
    """Without marked steps: the context is created and libraries are loaded, 1.2 s, and then the model runs once."""
    thread = job.ranks[0].main
    with thread.note("warmup"):
        thread.call("cudaDeviceGetStreamPriorityRange", 900_000)
        thread.call("cudaFree", 300_000)
    for _ in range(20):
        product(thread, "aten::mm", 4096, 4096, 4096)
    thread.wait("cudaDeviceSynchronize", None)


def _from_its_step(content: dict[str, Any]) -> dict[str, Any]:
    """Nothing was recorded of the host before the step."""
    events = content["traceEvents"]
    begin = min(event["ts"] for event in events if event["name"].startswith("ProfilerStep"))
    on_device = ("kernel", "gpu_memcpy", "gpu_memset")
    kept = [e for e in events if e["ph"] == "M" or e.get("cat") in on_device or e["ts"] >= begin]
    return {**content, "traceEvents": kept}


@declare(
    CASES,
    "artefact",
    bound=("compute",),
    never=(*_HOST, *_SYNCS),
    options=Options(framing=_from_its_step),
)
def synchronized_around_the_recording(job: Job, fault: bool) -> None:
    """A harness records one step, and waits for the device as it begins, for older work, and as it ends."""
    thread = job.ranks[0].main
    for _ in range(20):
        elementwise(thread, "aten::native_layer_norm", (16_384, 8192))

    def synchronize(job: Job, number: int) -> None:
        with thread.frame("bench.py(34): run_profiler", 5):
            thread.wait("cudaDeviceSynchronize", None)

    loop(job, Plan(steps=1, layers=8, tokens=8192, backward=False), begin=synchronize, end=synchronize)


@declare(CASES, "artefact", bound=("compute",), never=_HOST)
def profiler_stops_behind_the_last_step(job: Job, fault: bool) -> None:
    """Behind the last step is the profiler's own end: 80 ms."""

    loop(job, Plan(steps=6))
    thread = job.ranks[0].main
    with (
        thread.frame("torch/profiler/profiler.py(778): step", 20),
        thread.frame("torch/profiler/profiler.py(803): _transit_action", 5),
        thread.frame("torch/profiler/profiler.py(203): stop_trace", 5),
        thread.frame("torch/autograd/profiler.py(382): __exit__", 10),
        thread.frame("<built-in function _disable_profiler>", 80_000),
    ):
        pass


@declare(CASES, "artefact", never=("host-work", "launch-bound"), bound=("compute",))
def profiler_flushes_its_buffers(job: Job, fault: bool) -> None:
    """In one step of six the profiler stops the host for 12 ms, to request a buffer."""

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].main
        if block == 3 and thread.rank.job.count == 3:
            with thread.op("aten::add", 4, dims=[[1024]]):
                start = thread.now
                call = thread.call("cudaLaunchKernel", 12_000)
                thread.run(
                    call,
                    "void at::native::vectorized_elementwise_kernel<add>()",
                    "kernel",
                    3,
                    7,
                    thread.now,
                    {},
                )
                with thread.event("Activity Buffer Request", "overhead", {}) as overhead:
                    pass
                overhead["start"], overhead["tid"] = start, 0
                overhead["dur"] = 11_900 * US

    loop(job, Plan(steps=6), layer=layer)


@declare(
    CASES,
    "artefact",
    first=("host-work",),
    places=("encode", "tokenize"),
    bound=("host",),
)
def stacks_that_inflate_the_host(job: Job, fault: bool) -> None:
    """A tokenizer of 8,000 calls takes 4 ms, and with stacks 6 ms: the saving is that of a run without a profiler."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        if fault:
            with thread.frame("tokens.py(14): tokenize", 10):
                for _ in range(2_000):
                    with thread.frame("tokens.py(31): encode", 2.0):
                        pass
        batch(thread)

    def end(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        with thread.op("aten::item", 2), thread.op("aten::_local_scalar_dense", 2):
            thread.copy("DtoH (Device -> Pageable)", 4, 1.5)
            thread.wait()

    loop(job, Plan(steps=4, layers=3), begin=begin, end=end)


@declare(
    CASES,
    "artefact",
    options=Options(device=None),
    bound=("host",),
    first=("recompilation",),
    places=("compile", "dynamo"),
)
def compiles_on_a_cpu(job: Job, fault: bool) -> None:
    """Inductor compiles C++ in each step: that is the host's, and computes nothing."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        if fault:
            with (
                thread.frame("torch/_dynamo/convert_frame.py(1337): __call__", 10),
                thread.note("_compile.compile_inner (dynamo_timed)"),
                thread.note("async_compile.wait (dynamo_timed)"),
                thread.frame("torch/_inductor/codecache.py(2110): compile_file", 40_000),
            ):
                pass
        elementwise(thread, "aten::add", (1024, 16), FP32)

    loop(job, Plan(layers=2, tokens=256, width=128), begin=begin)


def _header_last(content: dict[str, Any]) -> dict[str, Any]:
    """As an on-demand trace has it: `distributedInfo` behind the events, its ranks as text."""
    info = content["distributedInfo"]
    for group in info["pg_config"]:
        group["ranks"] = str(group["ranks"])
    return {
        **{key: value for key, value in content.items() if key != "distributedInfo"},
        "distributedInfo": info,
    }


def _both_ranks(folder: Path) -> str:
    ranks = tuple(tracebraid.open(folder).ranks)
    return "" if ranks == (0, 1) else f"ranks {ranks}"


@declare(
    CASES,
    "artefact",
    ranks=2,
    first=("host-work", "late-rank"),
    places=("rank 1",),
    check=_both_ranks,
    options=Options(framing=_header_last, file_names=("alpha.pt.trace.json", "beta.pt.trace.json")),
)
def ranks_named_behind_the_events(job: Job, fault: bool) -> None:
    """The files say of which rank they are behind their events only; rank 1 is late."""

    def begin(job: Job, number: int) -> None:
        for rank in job.ranks:
            if rank.number and fault:
                with rank.main.frame("train.py(43): inputs", 12_000):
                    pass
            batch(rank.main)

    loop(job, gradient=buckets, begin=begin, reduced=lambda job, number: join(job))
