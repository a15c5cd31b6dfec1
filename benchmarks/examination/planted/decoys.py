"""Cases in which something looks like a cause and saves nothing, and jobs in which nothing is wrong."""

from __future__ import annotations

from benchmarks.examination.planted.case import PlantedCase, declare
from benchmarks.examination.planted.devices import H100
from benchmarks.examination.planted.machine import COMPUTE, COPY, Job, Options, Rank
from benchmarks.examination.planted.workloads import BF16, Plan, batch, elementwise, loop

__all__ = ["CASES"]

CASES: dict[str, PlantedCase] = {}
_H100 = Options(device=H100)
_SYNCS = ("item-sync", "size-sync", "read-sync", "explicit-sync")


def _item(rank: Rank, stream: int = COMPUTE) -> None:
    thread = rank.main
    with (
        thread.op("aten::item", 2, dims=[[]], types=["float"]),
        thread.op("aten::_local_scalar_dense", 2, dims=[[]], types=["float"]),
    ):
        thread.copy("DtoH (Device -> Pageable)", 4, 1.5, stream=stream)
        thread.wait(stream=stream)


@declare(CASES, "decoy", bound=("compute",))
def loss_read_behind_a_busy_device(job: Job, fault: bool) -> None:
    """`loss.item()` waits 9 ms for a device that computes all the while: without it the step is as long."""
    loop(job, Plan(layers=12), end=lambda job, number: _item(job.ranks[0]))


@declare(
    CASES,
    "decoy",
    bound=("compute",),
    never=("read-sync", "stored-activations", "pageable-copy", "host-work"),
)
def copies_on_another_stream(job: Job, fault: bool) -> None:
    """Outputs go to pinned memory on a stream of their own, behind computing."""

    def forwarded(job: Job, number: int) -> None:
        thread = job.ranks[0].here
        with thread.op("aten::copy_", 4, dims=[[4096, 8192]] * 2, types=[BF16] * 2):
            thread.copy("DtoH (Device -> Pinned)", 64 << 20, 2_700, stream=COPY)

    loop(job, forwarded=forwarded)


@declare(CASES, "decoy", bound=("compute",), never=_SYNCS)
def another_thread_waits(job: Job, fault: bool) -> None:
    """A thread that pins memory waits for its copies' events; the main thread does not wait for it."""
    rank = job.ranks[0]
    with rank.backward():
        pinning = rank.thread("pin_memory")

    def forwarded(job: Job, number: int) -> None:
        pinning.until(rank.main.now)
        with pinning.frame("torch/utils/data/_utils/pin_memory.py(40): do_one_step", 5):
            call = pinning.call("cudaEventSynchronize", 5)
            pinning.until(max(rank.free[COMPUTE], pinning.now))
            call["dur"] = pinning.now - call["start"]

    loop(job, forwarded=forwarded)


@declare(CASES, "decoy", bound=("compute",), never=("host-work", "data-loader", "launch-bound"))
def gaps_outside_of_the_steps(job: Job, fault: bool) -> None:
    """A data set is read for 300 ms before the first step, and an evaluation written behind the last."""
    thread = job.ranks[0].main
    with thread.frame("train.py(60): main", 5), thread.frame("data.py(12): read_all", 300_000):
        elementwise(thread, "aten::add", (1024, 1024))
    loop(job)
    with thread.frame("evaluate.py(5): write", 200_000):
        pass
    elementwise(thread, "aten::add", (1024, 1024))


@declare(CASES, "decoy", bound=("compute",))
def many_cheap_shapes(job: Job, fault: bool) -> None:
    """Forty layout copies of as many shapes, 1.6 us each, in a step of 8 ms."""

    def forwarded(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        for rows in range(40):
            shape = [16 + rows, 8, 32]
            strides = [[256, 1, 8], []]
            with (
                thread.op("aten::contiguous", 2, dims=[shape, []], strides=strides, types=[BF16, "Scalar"]),
                thread.op("aten::clone", 2, dims=[shape, []], strides=strides, types=[BF16, "Scalar"]),
                thread.op("aten::copy_", 3, dims=[shape, shape], types=[BF16] * 2),
            ):
                thread.launch("void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>()", 1.6)

    loop(job, Plan(layers=8), forwarded=forwarded)


@declare(CASES, "decoy", bound=("compute",), never=("item-sync",))
def value_that_is_ready(job: Job, fault: bool) -> None:
    """A value on a stream that has nothing to do is read in each block: the wait returns at once."""

    def layer(job: Job, block: int) -> None:
        _item(job.ranks[0], stream=COPY)

    loop(job, layer=layer)


@declare(CASES, "decoy", bound=("compute",), never=("launch-bound", "host-work"))
def launches_blocked_by_a_full_queue(job: Job, fault: bool) -> None:
    """The host is so far ahead that each launch waits for a place in the device's queue."""
    job.ranks[0].queue = 40
    loop(job, Plan(layers=10))


@declare(CASES, "decoy", bound=("compute",), never=("data-loader",))
def loader_behind_a_busy_device(job: Job, fault: bool) -> None:
    """The loader takes 2.5 ms, in which the device has work left for 5 ms."""
    loop(job, Plan(steps=7), begin=lambda job, number: batch(job.ranks[0].main, 2_500 if number > 2 else 60))


@declare(CASES, "decoy", bound=("compute",), never=("recording",))
def logging_behind_a_busy_device(job: Job, fault: bool) -> None:
    """A line of the log takes 2 ms, of which the device notices nothing."""

    def end(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        with (
            thread.frame("train.py(120): log_metrics", 5),
            thread.frame("logging/__init__.py(1529): info", 2_000 if number > 2 else 10),
        ):
            pass

    loop(job, Plan(steps=7), end=end)


@declare(CASES, "decoy", bound=("compute",), never=("garbage-collection",))
def garbage_collected_behind_a_busy_device(job: Job, fault: bool) -> None:
    """`gc.collect()` takes 2 ms while the device has work."""

    def end(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        with thread.frame("<built-in function collect>", 2_000 if number > 2 else 10):
            pass

    loop(job, Plan(steps=7), end=end)


@declare(CASES, "clean", bound=("compute",), says=("comput",), options=_H100)
def compute_bound_on_h100(job: Job, fault: bool) -> None:
    """Large products in BF16 at 72 % of the peak."""
    loop(job, Plan(tokens=8192, width=2048))


@declare(
    CASES,
    "clean",
    bound=("compute",),
    says=("peak",),
    never=("host-work", "launch-bound", *_SYNCS),
    options=_H100,
)
def two_kernels_of_experts(job: Job, fault: bool) -> None:
    """Inference of a mixture of experts: 80 % of the time in two grouped products at 71 % of the peak."""
    thread = job.ranks[0].main
    for number in range(1, 7):
        with job.step(number), thread.frame("serve.py(30): infer", 10):
            batch(thread)
            for _ in range(6):
                with thread.frame("fused_moe.py(812): fused_experts", 5):
                    for k, n in ((4096, 14336), (14336, 4096)):
                        dims = [[4096, k], [8, k, n], [8]]
                        us = 2.0 * 4096 * k * n / (0.71 * 989e12) * 1e6
                        with thread.op("aten::_grouped_mm", 12, dims=dims, types=[BF16] * 2 + ["int"]):
                            thread.launch("void cutlass::device_kernel<GroupedGemmBf16>()", us)
                    elementwise(thread, "aten::silu", (4096, 14336))
                    elementwise(thread, "aten::add", (2048, 4096), inputs=2)
    thread.wait("cudaDeviceSynchronize", None)


@declare(CASES, "clean", bound=("compute",), says=("memory", "bandwidth"))
def memory_bound_pointwise(job: Job, fault: bool) -> None:
    """Norms and pointwise kernels of a compiled model at 85 % of the bandwidth."""
    thread = job.ranks[0].main
    for number in range(1, 7):
        with job.step(number), thread.frame("serve.py(30): infer", 10):
            batch(thread)
            with thread.note("Torch-Compiled Region: 0/0"):
                for _ in range(20):
                    elementwise(thread, "aten::add", (16_384, 8192), inputs=2)
                    elementwise(thread, "aten::mul", (16_384, 8192), inputs=2)
                    elementwise(thread, "aten::native_layer_norm", (16_384, 8192))
    thread.wait("cudaDeviceSynchronize", None)


@declare(CASES, "clean", bound=("compute",), never=("launch-bound", "host-work"), options=_H100)
def replayed_graph(job: Job, fault: bool) -> None:
    """Inference by one CUDA graph of 120 kernels of 40 us."""
    thread = job.ranks[0].main
    for number in range(1, 7):
        with job.step(number), thread.frame("serve.py(30): infer", 10):
            batch(thread)
            with thread.frame("torch/cuda/graphs.py(89): replay", 4):
                thread.graph([("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", 40.0)] * 120)
    thread.wait("cudaDeviceSynchronize", None)


@declare(CASES, "clean", bound=("compute",))
def training_without_a_fault(job: Job, fault: bool) -> None:
    """The loop that the other cases start from."""
    loop(job)


@declare(CASES, "clean", bound=("compute",), options=Options(stacks=False, shapes=False))
def training_without_stacks_and_shapes(job: Job, fault: bool) -> None:
    """The same with as little recorded as the profiler's defaults do."""
    loop(job)


@declare(CASES, "clean", options=Options(device=None))
def clean_on_a_cpu(job: Job, fault: bool) -> None:
    """A small model on a CPU, whose products take nearly all of the step."""
    loop(job, Plan(layers=3, tokens=1024, width=256))


@declare(CASES, "decoy", never=("interpreter-lock",))
def threads_that_wait_beside_the_step(job: Job, fault: bool) -> None:
    """Two threads of a user's reader wait in one function all the time; the main one runs Python."""
    rank = job.ranks[0]
    rank.thread("pt_autograd_0")
    waiting = [rank.thread(f"reader_{number}") for number in range(2)]
    opened = [thread.frame("reader.py(12): run") for thread in waiting]
    for frame in opened:
        frame.__enter__()

    def begin(job: Job, number: int) -> None:
        with rank.main.frame("train.py(60): schedule", 100):
            pass
        batch(rank.main)

    loop(job, begin=begin)
    for thread, frame in zip(waiting, opened, strict=True):
        thread.until(rank.main.now)
        frame.__exit__(None, None, None)


@declare(CASES, "clean", bound=("compute",), says=("causal_bias",))
def mask_made_in_each_layer(job: Job, fault: bool) -> None:
    """Most of the device's time is that of a mask which each layer makes anew: the function is to be named."""

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        with thread.frame("model.py(31): causal_bias", 10):
            elementwise(thread, "aten::masked_fill", (8192, 8192), us=1_500)

    loop(job, Plan(tokens=1024), layer=layer)
