"""Small jobs that hold everything that some analysis looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.planted import A100, CPU, H100, Copy, Host, PlannedJob, Scene, Stream, Thread

_STEPS = 3


def _nccl_ranks() -> list[Scene]:
    """Two hosts whose clocks differ: computing, collectives of two groups, a message, memory, graphs."""
    job = PlannedJob(2, [Host("a"), Host("b", 5_000_000, 20.0)])
    pair = job.group("pair", [0, 1], renamed={1: "7"})
    for number in range(1, _STEPS + 1):
        with job.step(number):
            job.compute(30_000)
            for scene, thread in zip(job.scenes, job.threads, strict=True):
                _train(scene, thread, scene.stream(7))
            job.collective("allreduce", skew={1: 2_000}, overlaps=number == 2)
            job.collective("_allgather_base", pair)
            job.send(0, 1, pair)
    return job.finished()


def _gloo_ranks() -> list[Scene]:
    """Three ranks on CPUs, whose collectives run on a thread of their own; one has recorded fewer steps."""
    job = PlannedJob(3, devices=(), windows={2: (2, 3)})
    for number in range(1, _STEPS + 1):
        with job.step(number):
            job.compute(40_000)
            job.collective("allreduce")
            job.collective("_reduce_scatter_base", nelems=512)
    return job.finished()


def _training() -> list[Scene]:
    """One rank with Python functions, modules, backward ops, memory, copies, syncs and counters."""
    scene = Scene(devices=(H100,), device_annotations=True)
    host, stream = scene.thread(), scene.stream(7)
    for number in range(1, _STEPS + 1):
        with host.step(number), host.frame("train.py(10): step"):
            _train(scene, host, stream)
            _wait(scene, host, stream)
    host.synchronize()
    scene.raw({"ph": "C", "name": "GPU 0 Utilization", "pid": 0, "ts": 20, "args": {"utilization": 50}})
    return [scene]


def _inference() -> list[Scene]:
    """One rank that serves: a prefill and decodes, by graphs."""
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for phase in ("prefill", "decode", "decode"):
        with host.annotation(phase), host.op("aten::scaled_dot_product_attention", dims=[[2, 8, 4, 16]] * 3):
            host.launch(stream, "flash_fwd_kernel", 20_000, grid=[8, 1, 1], block=[128, 1, 1])
            host.replay(stream, [("gemm", 10_000), ("softmax", 2_000)])
    host.synchronize(stream, recorded=False)
    return [scene]


def _few() -> list[Scene]:
    """One step with one op and one kernel."""
    scene = Scene(devices=(A100,))
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1), host.op("aten::mm", dims=[[4, 4], [4, 4]]):
        host.launch(stream, "gemm", 10_000)
    return [scene]


def _train(scene: Scene, host: Thread, stream: Stream) -> None:
    number = scene.count("sequence")
    with host.op("aten::to"), host.op("aten::copy_", dims=[[8, 16], [8, 16]]):
        data = host.allocate(4096, malloc_ns=3_000)
        host.copy(stream, Copy.PINNED_TO_DEVICE, 4096, 8_000)
    with host.module("Linear_0"), host.op("aten::linear", dims=[[8, 16], [16, 32], [32]]):
        dims, types = [[32], [8, 16], [16, 32]], ["c10::BFloat16"] * 3
        with host.op("aten::addmm", dims=dims, types=types, sequence=number) as forward:
            kept = host.allocate(1024)
            host.launch(stream, "sm90_gemm_bf16", 12_000, grid=[8, 1, 1], block=[128, 1, 1])
    with host.backward("AddmmBackward0", forward, host), host.op("aten::mm", dims=[[16, 8], [8, 32]]):
        host.launch(stream, "gemm_backward", 15_000)
        host.release(kept)
    with host.annotation("Optimizer.step#SGD.step"), host.op("aten::_foreach_add_"):
        host.launch(stream, "multi_tensor_apply_kernel", 4_000)
        host.fill(stream, 512, 1_000)
    host.release(data)


def _wait(scene: Scene, host: Thread, stream: Stream) -> None:
    other = scene.stream(13)
    with host.op("aten::item"), host.op("aten::_local_scalar_dense", dims=[[]]):
        host.copy(stream, Copy.DEVICE_TO_PAGEABLE, 4, 1_000, blocking=True)
    host.wait_event(other, host.record(stream))
    host.replay(other, [("gemm", 5_000), ("relu", 1_000)])
    host.synchronize_event(host.record(other))
    host.release(host.allocate(64, CPU))
    host.load_data(9_000)


MADE: Mapping[str, Callable[[], list[Scene]]] = {
    "nccl": _nccl_ranks,
    "nccl_alone": _nccl_ranks,
    "gloo": _gloo_ranks,
    "training": _training,
    "training_alone": _training,
    "inference": _inference,
    "few": _few,
}
"""Samples by their names."""
