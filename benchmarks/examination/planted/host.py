"""Cases in which the host makes the step slow: waits for the device, loading, recording, launching, compiling."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.examination.planted.case import PlantedCase, declare
from benchmarks.examination.planted.devices import MI300X
from benchmarks.examination.planted.machine import Job, Options, Rank
from benchmarks.examination.planted.workloads import (
    BF16,
    FP32,
    Plan,
    batch,
    elementwise,
    loop,
    product,
)

__all__ = ["CASES"]

CASES: dict[str, PlantedCase] = {}
_SYNCS = ("item-sync", "size-sync", "read-sync", "explicit-sync")


@declare(CASES, "cause", first=("item-sync",), places=("aten::item", "router", "_local_scalar_dense"))
def item_in_each_layer(job: Job, fault: bool) -> None:
    """A router reads its load in each block: the device runs dry each time."""

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        with thread.frame("router.py(31): capacity", 40):
            elementwise(thread, "aten::sum", (64,), FP32)
            if fault:
                with (
                    thread.op("aten::item", 2, dims=[[]], types=["float"]),
                    thread.op("aten::_local_scalar_dense", 2, dims=[[]], types=["float"]),
                ):
                    thread.copy("DtoH (Device -> Pageable)", 4, 1.5)
                    thread.wait()

    loop(job, Plan(tokens=1024, host_us=14), layer=layer)


@declare(CASES, "cause", first=("size-sync",), places=("aten::nonzero", "aten::index", "select"))
def mask_in_each_layer(job: Job, fault: bool) -> None:
    """Rows are chosen by a mask: `nonzero` waits for the device in each block."""

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        with (
            thread.frame("experts.py(77): select", 30),
            thread.op("aten::index", 6, dims=[[1024, 1024], [[1024]]], types=[BF16, "TensorList"]),
        ):
            if fault:
                with thread.op("aten::nonzero", 5, dims=[[1024]], types=["bool"]):
                    thread.launch(
                        "void at::native::DeviceReduceSingleTileKernel<nonzero>()", 3, grid=(1, 1, 1)
                    )
                    thread.copy("DtoH (Device -> Pageable)", 8, 1.5)
                    thread.wait()
            thread.launch("void at::native::index_elementwise_kernel<128, 4>()", 6)

    loop(job, Plan(tokens=1024, host_us=14), layer=layer)


@declare(CASES, "cause", first=("read-sync",), places=("aten::copy_", "aten::to", "history", "DtoH"))
def outputs_read_in_the_middle(job: Job, fault: bool) -> None:
    """Predictions of 64 MiB are read into pageable memory between forward and backward pass.

    Into pinned memory the copy takes 2.7 ms, and nobody waits for it.
    """

    def forwarded(job: Job, number: int) -> None:
        thread = job.ranks[0].here
        if fault:
            with (
                thread.frame("history.py(19): keep_outputs", 5),
                thread.op("aten::to", 3, dims=[[4096, 8192]], types=[BF16]),
                thread.op("aten::_to_copy", 3, dims=[[4096, 8192]], types=[BF16]),
                thread.op("aten::copy_", 4, dims=[[4096, 8192]] * 2, types=[BF16] * 2),
            ):
                thread.copy("DtoH (Device -> Pageable)", 64 << 20, 6_000, blocks=True)
                thread.wait()
        else:
            thread.copy("DtoH (Device -> Pinned)", 64 << 20, 2_700)

    loop(job, forwarded=forwarded)


@declare(CASES, "cause", first=("explicit-sync",), places=("cudaDeviceSynchronize", "timer"))
def synchronized_for_times(job: Job, fault: bool) -> None:
    """A timer synchronizes around each block of a model whose launches take nearly as long as its kernels."""

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        if fault:
            with (
                thread.frame("timer.py(12): stop", 5),
                thread.frame("torch/cuda/__init__.py(1040): synchronize", 3),
                thread.frame("<built-in function _cuda_synchronize>"),
            ):
                thread.wait("cudaDeviceSynchronize", None)

    loop(job, Plan(tokens=1024, host_us=14), layer=layer)


@declare(CASES, "cause", first=("pageable-copy",), places=("aten::copy_", "Pageable", "aten::to"))
def input_from_pageable_memory(job: Job, fault: bool) -> None:
    """Images of 77 MB come from memory that is not pinned: 10 ms; pinned and asynchronous 3 ms, behind computing."""

    def begin(job: Job, number: int) -> None:
        rank = job.ranks[0]
        batch(rank.main)
        size = 77_070_336
        dims = [[128, 3, 224, 224]]
        with (
            rank.main.frame("train.py(91): to_device", 3),
            rank.main.op("aten::to", 3, dims=dims, types=[FP32]),
            rank.main.op("aten::_to_copy", 3, dims=dims, types=[FP32]),
            rank.main.op("aten::copy_", 4, dims=dims * 2, types=[FP32] * 2),
        ):
            if fault:
                rank.main.copy("HtoD (Pageable -> Device)", size, 10_000, blocks=True)
                rank.main.wait()
            else:
                rank.main.copy("HtoD (Pinned -> Device)", size, 3_000)

    loop(job, begin=begin)


@declare(
    CASES,
    "cause",
    first=("launch-bound",),
    places=("decode.py", "aten::", "nn.Module", "Block", "train_step"),
    never=("host-work",),
)
def decoding_by_short_kernels(job: Job, fault: bool) -> None:
    """A token is decoded by 150 kernels of 3 us, each launched on its own; a CUDA graph launches all at once."""
    rank = job.ranks[0]
    thread = rank.main
    for number in range(1, 7):
        with job.step(number), thread.frame("decode.py(41): next_token", 10):
            if fault:
                for layer in range(25):
                    with thread.frame(f"nn.Module: DecoderLayer_{layer}", 3):
                        for op in ("aten::rms_norm", "aten::silu", "aten::mul", "aten::add"):
                            elementwise(thread, op, (16, 1024), us=3.0, host_us=8)
                        for _ in range(2):
                            product(thread, "aten::mm", 16, 1024, 1024, us=3.0, host_us=8)
            else:
                with thread.frame("torch/cuda/graphs.py(89): replay", 4):
                    thread.graph([("triton_red_fused_norm", 3.0)] * 150)
    thread.wait("cudaDeviceSynchronize", None)


@declare(
    CASES, "cause", first=("data-loader",), places=("DataLoader", "__next__", "dataloader"), bound=("host",)
)
def loader_too_slow(job: Job, fault: bool) -> None:
    """Workers need 12 ms longer for a batch than the device for a step."""
    loop(job, wait_us=18_000 if fault else 60)


@declare(
    CASES,
    "cause",
    first=("data-loader",),
    places=("DataLoader", "__next__", "dataloader"),
    bound=("host",),
    options=Options(stacks=False),
)
def loader_too_slow_without_stacks(job: Job, fault: bool) -> None:
    """The same, known by the annotation alone."""
    loop(job, wait_us=18_000 if fault else 60)


def _log(rank: Rank, us: float) -> None:
    """Format and write a line."""
    with (
        rank.main.frame("train.py(120): log_metrics", 5),
        rank.main.frame("logging/__init__.py(1529): info", 5),
        rank.main.frame("logging/__init__.py(1684): _log", 5),
        rank.main.frame("logging/__init__.py(1143): emit", 10),
        rank.main.frame("<built-in method write of _io.TextIOWrapper object at 0x7f1>", us),
    ):
        pass


def _idle(rank: Rank) -> None:
    """Read the loss: the host waits until the device is done."""
    thread = rank.main
    with (
        thread.op("aten::item", 2, dims=[[]], types=["float"]),
        thread.op("aten::_local_scalar_dense", 2, dims=[[]], types=["float"]),
    ):
        thread.copy("DtoH (Device -> Pageable)", 4, 1.5)
        thread.wait()


@declare(CASES, "cause", first=("recording",), places=("logging", "log_metrics", "write"))
def logging_in_each_step(job: Job, fault: bool) -> None:
    """The loss is read, and 6 ms go by in logging to a slow file system, in each step."""

    def end(job: Job, number: int) -> None:
        _idle(job.ranks[0])
        if fault:
            _log(job.ranks[0], 6_000)

    loop(job, end=end)


@declare(CASES, "cause", first=("recording",), places=("save", "checkpoint"))
def checkpoint_in_each_step(job: Job, fault: bool) -> None:
    """The weights are saved in each step: read, pickled, written."""

    def end(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        _idle(job.ranks[0])
        if fault:
            with (
                thread.frame("train.py(131): checkpoint", 5),
                thread.frame("torch/serialization.py(945): save", 5),
            ):
                for _ in range(6):
                    with (
                        thread.op("aten::to", 3, dims=[[4096, 1024]]),
                        thread.op("aten::copy_", 3, dims=[[4096, 1024]] * 2),
                    ):
                        thread.copy("DtoH (Device -> Pageable)", 16 << 20, 1_500, blocks=True)
                    with thread.frame(
                        "<built-in method write_record of torch._C.PyTorchFileWriter object at 0x7f2>", 2_500
                    ):
                        pass

    loop(job, end=end)


@declare(CASES, "cause", first=("garbage-collection",), places=("collect", "gc", "Garbage"))
def garbage_collected_in_each_step(job: Job, fault: bool) -> None:
    """`gc.collect()` behind each step, of which the result is read."""

    def end(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        _idle(job.ranks[0])
        if fault:
            with (
                thread.frame("train.py(125): tidy_up", 2),
                thread.frame("<built-in function collect>", 9_000),
            ):
                pass

    loop(job, end=end)


@declare(
    CASES,
    "cause",
    first=("garbage-collection",),
    places=("Garbage collection",),
    options=Options(stacks=False),
)
def garbage_collected_by_itself(job: Job, fault: bool) -> None:
    """Python collects by itself in each step; `capture` marked it."""

    def layer(job: Job, block: int) -> None:
        if fault and block == 0:
            with job.ranks[0].main.note("Garbage collection"):
                job.ranks[0].main.spend(9_000)

    loop(job, Plan(tokens=1024), layer=layer)


@declare(
    CASES,
    "cause",
    first=("host-work",),
    places=("normalize", "rescale", "preprocess", "video_processing"),
    bound=("host",),
    never=("launch-bound",),
)
def preprocessing_before_the_first_kernel(job: Job, fault: bool) -> None:
    """Frames of a video are normalized and rescaled by the host before the first kernel of each step."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        if fault:
            with thread.frame("video_processing.py(171): preprocess", 20):
                for _ in range(4):
                    with thread.frame("video_processing.py(96): normalize", 1_600):
                        pass
                    with thread.frame("video_processing.py(118): rescale", 1_300):
                        pass
        batch(thread)

    loop(job, begin=begin, end=lambda job, number: _idle(job.ranks[0]))


@declare(
    CASES,
    "cause",
    first=("interpreter-lock",),
    places=("parse", "features.py"),
    bound=("host",),
    says=("processes",),
)
def threads_keep_the_interpreter_lock(job: Job, fault: bool) -> None:
    """Three threads parse in Python while the main thread makes a tensor of a list: that takes 8 ms instead of 2."""
    rank = job.ranks[0]
    rank.thread("pt_autograd_0")
    pool = [rank.thread(f"parser_{number}") for number in range(3 if fault else 0)]

    def begin(job: Job, number: int) -> None:
        for thread in pool:
            thread.until(rank.main.now)
            for _ in range(20):
                with (
                    thread.frame("features.py(40): parse", 20),
                    thread.frame("features.py(41): <listcomp>", 380),
                ):
                    pass
        with (
            rank.main.frame("train.py(60): prepare", 10),
            rank.main.frame("<built-in method tensor of type object at 0x7f0>", 8_000 if fault else 2_000),
        ):
            pass
        batch(rank.main)

    loop(job, begin=begin, end=lambda job, number: _idle(job.ranks[0]))


@declare(
    CASES,
    "cause",
    first=("host-work",),
    places=("aten::", "between"),
    bound=("host",),
    never=("launch-bound",),
    says=("stacks",),
    options=Options(stacks=False),
)
def host_work_without_stacks(job: Job, fault: bool) -> None:
    """The host is busy for 8 ms behind the forward pass, and there are no stacks: between two ops is all to be said."""

    def forwarded(job: Job, number: int) -> None:
        _idle(job.ranks[0])
        if fault:
            job.ranks[0].main.spend(8_000)

    loop(job, forwarded=forwarded)


@declare(CASES, "cause", first=("allocator-retry",), places=("cudaMalloc", "cudaFree", "aten::"))
def memory_freed_and_asked_for_again(job: Job, fault: bool) -> None:
    """`empty_cache()` in each step: memory is freed, which waits for the device, and asked for again."""

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        with thread.op("aten::empty", 4, dims=[[]], concrete=["[4096, 4096]"]):
            if fault:
                thread.call("cudaMalloc", 700)

    def end(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        if fault:
            with thread.frame("torch/cuda/memory.py(192): empty_cache", 5):
                call = thread.call("cudaFree", 450)
                thread.until(max(job.ranks[0].free.values()))
                call["dur"] = thread.now - call["start"]
                for _ in range(5):
                    thread.call("cudaFree", 450)

    loop(job, layer=layer, end=end)


@declare(CASES, "cause", first=("recompilation",), places=("compile", "Compiled", "dynamo"))
def compiled_again_in_each_step(job: Job, fault: bool) -> None:
    """Each step has another length, and Dynamo compiles a step's region again."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        batch(thread)
        if fault:
            with (
                thread.frame("torch/_dynamo/convert_frame.py(1337): __call__", 10),
                thread.note("_compile.compile_inner (dynamo_timed)"),
                thread.note("compile_fx_inner (dynamo_timed)"),
                thread.frame("torch/_inductor/codecache.py(1201): compile_file", 9_000),
            ):
                thread.spend(12_000)

    def layer(job: Job, block: int) -> None:
        with job.ranks[0].main.note(f"Torch-Compiled Region: {block}/0"):
            pass

    loop(job, begin=begin, layer=layer, end=lambda job, number: _idle(job.ranks[0]))


@declare(
    CASES,
    "cause",
    first=("graph-break",),
    places=("model.py", "forward", "lookup", "Torch-Compiled", "aten::"),
)
def broken_graph(job: Job, fault: bool) -> None:
    """A compiled model falls back to Python for 1.2 ms between two regions, as it looks up a table by value."""
    thread = job.ranks[0].main
    for number in range(1, 7):
        with job.step(number), thread.frame("serve.py(30): infer", 5):
            batch(thread, 20, 1 << 16)
            for half in range(2):
                region = f"Torch-Compiled Region: {half if fault else 0}/0"
                if half and fault:
                    _idle(job.ranks[0])
                    with (
                        thread.frame("model.py(73): forward", 10),
                        thread.frame("model.py(22): lookup", 1_200),
                    ):
                        pass
                if half == 0 or fault:
                    region_of = thread.note(region)
                    region_of.__enter__()
                for _ in range(4):
                    product(thread, "aten::mm", 1024, 1024, 4096, host_us=4)
                    elementwise(thread, "triton_poi_fused_gelu_0", (1024, 4096), host_us=4)
                if half or fault:
                    region_of.__exit__(None, None, None)
            _idle(job.ranks[0])


@declare(
    CASES,
    "cause",
    first=("read-sync",),
    places=("hipMemcpyWithStream", "aten::", "DtoH"),
    options=replace(Options(), device=MI300X),
)
def waits_in_a_copy_of_hip(job: Job, fault: bool) -> None:
    """On ROCm a copy to the host waits inside of `hipMemcpyWithStream`."""

    def forwarded(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        if fault:
            with (
                thread.frame("history.py(19): keep_outputs", 5),
                thread.op("aten::copy_", 4, dims=[[4096, 4096]] * 2, types=[BF16] * 2),
            ):
                call = thread.call("hipMemcpyWithStream", 5)
                found = thread.run(
                    call,
                    "Memcpy DtoH (Device -> Host)",
                    "gpu_memcpy",
                    3_000,
                    7,
                    thread.now,
                    {"bytes": 32 << 20},
                )
                thread.until(found["start"] + found["dur"] + 3_000)
                call["dur"] = thread.now - call["start"]
        else:
            thread.copy("DtoH (Device -> Pinned)", 32 << 20, 1_340)

    loop(job, Plan(tokens=8192), forwarded=forwarded)


@declare(
    CASES,
    "cause",
    first=("unfused-optimizer",),
    places=("AdamW", "Optimizer.step", "aten::"),
)
def optimizer_of_one_parameter_after_another(job: Job, fault: bool) -> None:
    """AdamW with foreach=False: eight ops for each of 96 parameters, which the device waits for."""
    loop(job, Plan(layers=24, tokens=512, optimizer="loop" if fault else "small"))


_CPU = Options(device=None)


@declare(CASES, "cause", first=("tiny-ops",), places=("boxes.py", "aten::"), options=_CPU)
def rows_one_by_one(job: Job, fault: bool) -> None:
    """A loop over 400 rows of a small table, three ops each; one op of each kind does the same."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        with thread.frame("boxes.py(44): clip_rows", 20):
            for _ in range(400 if fault else 1):
                for op in ("aten::select", "aten::clamp", "aten::mul"):
                    elementwise(thread, op, (16,), FP32, us=3)
                thread.spend(2)

    loop(job, _cpu_plan(), begin=begin)


@declare(
    CASES,
    "cause",
    first=("oversubscription",),
    places=("threads", "core"),
    options=replace(
        _CPU,
        facts={
            "cpus": 64,
            "cores": 2,
            "threads": 64,
            "cpu_ns": 300_000_000,
            "window_ns": 160_000_000,
            "torch": "2.13.0+cpu",
        },
    ),
    never=("host-work",),
)
def more_threads_than_cores(job: Job, fault: bool) -> None:
    """A container of two cores of 64, in which PyTorch starts 64 threads: products take four times as long."""
    loop(job, replace(_cpu_plan(), slow=4.0 if fault else 1.0))


def _cpu_plan() -> Plan:
    return Plan(layers=3, tokens=256, width=256)


@declare(CASES, "cause", first=("host-work",), places=("sleep", "poll"), options=_CPU)
def sleeps_on_a_cpu(job: Job, fault: bool) -> None:
    """A loop polls for a file, and sleeps 5 ms."""

    def end(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        if fault:
            with (
                thread.frame("queue_reader.py(9): poll", 4),
                thread.frame("<built-in function sleep>", 5_000),
            ):
                pass

    loop(job, _cpu_plan(), end=end)


@declare(
    CASES,
    "pair",
    first=("data-loader",),
    places=("DataLoader", "dataloader"),
    also_true=("host-work", "item-sync"),
)
def loader_before_host_work(job: Job, fault: bool) -> None:
    """The loader takes 11 ms, a function of the program 3 ms."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        batch(thread, 11_000 if fault else 60)
        with thread.frame("augment.py(12): mixup", 3_000):
            pass

    loop(job, begin=begin, end=lambda job, number: _idle(job.ranks[0]))


@declare(CASES, "pair", first=("host-work",), places=("mixup",), also_true=("data-loader", "item-sync"))
def host_work_before_loader(job: Job, fault: bool) -> None:
    """A function of the program takes 9 ms, the loader 2 ms."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        batch(thread, 2_000)
        if fault:
            with thread.frame("augment.py(12): mixup", 9_000):
                pass

    loop(job, begin=begin, end=lambda job, number: _idle(job.ranks[0]))


@declare(
    CASES, "pair", first=("garbage-collection",), places=("collect",), also_true=("recording", "item-sync")
)
def garbage_before_recording(job: Job, fault: bool) -> None:
    """Collecting takes 10 ms, logging 2.5 ms."""

    def end(job: Job, number: int) -> None:
        rank = job.ranks[0]
        _idle(rank)
        _log(rank, 2_500)
        if fault:
            with (
                rank.main.frame("train.py(125): tidy_up", 2),
                rank.main.frame("<built-in function collect>", 10_000),
            ):
                pass

    loop(job, end=end)


@declare(
    CASES,
    "pair",
    first=("recording",),
    places=("logging", "write", "log_metrics"),
    also_true=("pageable-copy", "item-sync"),
)
def recording_before_pageable_copy(job: Job, fault: bool) -> None:
    """Logging takes 8 ms, a copy from pageable memory 1.5 ms."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        batch(thread)
        with thread.op("aten::copy_", 4, dims=[[2_500_000]] * 2):
            thread.copy("HtoD (Pageable -> Device)", 10_000_000, 1_500, blocks=True)
            thread.wait()

    def end(job: Job, number: int) -> None:
        _idle(job.ranks[0])
        if fault:
            _log(job.ranks[0], 8_000)

    loop(job, begin=begin, end=end)
