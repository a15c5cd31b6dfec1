"""Cases of several ranks: late ranks, unequal work, communication that is slow, too small, or not hidden."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.examination.planted.case import PlantedCase, declare
from benchmarks.examination.planted.machine import COMPUTE, NETWORK, Job
from benchmarks.examination.planted.workloads import (
    FP32,
    Net,
    Plan,
    batch,
    elementwise,
    gemm_us,
    loop,
    optimizer,
    product,
)

__all__ = ["CASES", "buckets", "join"]

CASES: dict[str, PlantedCase] = {}
_LATE = ("late-rank", "rank-imbalance")


def join(job: Job) -> None:
    """Let the computing stream wait for all communication."""
    for rank in job.ranks:
        rank.here.call("cudaStreamWaitEvent", 1.5)
        rank.free[COMPUTE] = max(rank.free[COMPUTE], rank.free[NETWORK])


def buckets(job: Job, block: int, us: float = 500, elements: int = 6_553_600) -> None:
    """Reduce the gradients of every other block, as DDP does: behind what computes on."""
    if block % 2 == 0:
        job.collective("all_reduce", elements, us, waits=False)


def _joined(job: Job, number: int) -> None:
    join(job)


@declare(
    CASES, "cause", first=("small-collectives",), places=("all_reduce", "allreduce"), ranks=2, never=_LATE
)
def gradients_one_by_one(job: Job, fault: bool) -> None:
    """Sixty-four reductions of 64 KiB, 30 us each, behind the backward pass; one of 4 MiB takes 110 us."""

    def reduced(job: Job, number: int) -> None:
        for _ in range(64 if fault else 1):
            job.collective("all_reduce", 16_384 if fault else 1 << 20, 30 if fault else 110)

    loop(job, reduced=reduced)


@declare(
    CASES,
    "cause",
    first=("small-collectives",),
    places=("all_reduce", "allreduce"),
    ranks=2,
    never=_LATE,
    unsaid=("DDP or FSDP2",),
)
def scalars_reduced_in_fsdp2(job: Job, fault: bool) -> None:
    """A model of FSDP2 reduces 24 metrics, each a tensor without dimensions, at the end of each step."""

    def layer(job: Job, block: int) -> None:
        with ExitStack() as frames:
            for rank in job.ranks:
                frames.enter_context(
                    rank.main.frame(
                        "torch/distributed/fsdp/_fully_shard/_fsdp_state.py(230): _pre_forward", 5
                    )
                )
                frames.enter_context(rank.main.note("FSDP::all_gather (Block)"))
            job.collective("all_gather", 2_097_152, 250, "BFloat16", waits=False)

    def gradient(job: Job, block: int) -> None:
        job.collective("reduce_scatter", 4_194_304, 250, "BFloat16", waits=False)

    def end(job: Job, number: int) -> None:
        for _ in range(24 if fault else 1):
            for rank in job.ranks:
                elementwise(
                    rank.main, "aten::mean", (1,), FP32, dims=[[4096], []], types=["float", "Scalar"], us=3
                )
            job.collective("all_reduce", 1, 28)

    loop(job, layer=layer, gradient=gradient, reduced=_joined, end=end)


def _forward_of_ddp(job: Job, buffers: int) -> None:
    """Before the forward pass of a small model rank 0 sends its buffers, joined into one tensor, to all ranks."""
    for rank in job.ranks:
        batch(rank.main)
    with ExitStack() as notes:
        for rank in job.ranks:
            notes.enter_context(rank.main.note("DistributedDataParallel.forward"))
        if buffers:
            for rank in job.ranks:
                with rank.main.op("aten::flatten_dense_tensors", 8 * buffers):
                    rank.main.launch("void at::native::CatArrayBatchedCopy<char, 1, 128, 1>()", 6)
            job.collective("broadcast", 256 * buffers, 30)
            for rank in job.ranks:
                with rank.main.op("aten::unflatten_dense_tensors", 30 * buffers):
                    pass
                for _ in range(buffers):
                    with rank.main.op("aten::copy_", 3):
                        rank.main.launch(
                            "void at::native::vectorized_elementwise_kernel<4, direct_copy>()", 1.5
                        )


@declare(
    CASES,
    "cause",
    first=("buffer-broadcast",),
    places=("unflatten_dense_tensors", "broadcast of buffers"),
    says=("broadcast_buffers",),
    ranks=2,
    never=_LATE,
)
def buffers_sent_each_step(job: Job, fault: bool) -> None:
    """Two hundred buffers of BatchNorm are joined, sent and parted before each forward pass: 6 ms on the host."""
    loop(
        job,
        Plan(layers=3, tokens=1024),
        begin=lambda job, number: _forward_of_ddp(job, 200 if fault else 0),
        gradient=buckets,
        reduced=_joined,
    )


@declare(CASES, "decoy", ranks=2, never=("buffer-broadcast",))
def ddp_without_buffers(job: Job, fault: bool) -> None:
    """The same model without buffers."""
    loop(
        job,
        Plan(layers=3, tokens=1024),
        begin=lambda job, number: _forward_of_ddp(job, 0),
        gradient=buckets,
        reduced=_joined,
    )


@declare(
    CASES, "cause", first=("unbalanced-buckets",), places=("all_reduce", "allreduce"), ranks=2, never=_LATE
)
def one_large_bucket(job: Job, fault: bool) -> None:
    """The embedding's gradient is a bucket of 256 MiB that is reduced last; equal ones would be hidden."""

    def gradient(job: Job, block: int) -> None:
        if fault:
            buckets(job, block)
            if block == 0:
                job.collective("all_reduce", 67_108_864, 3_000, waits=False)
        else:
            job.collective("all_reduce", 14_000_000, 750, waits=False)

    loop(job, gradient=gradient, reduced=_joined)


@declare(
    CASES, "cause", first=("hidable-communication",), places=("all_reduce", "allreduce"), ranks=2, never=_LATE
)
def gradients_behind_the_pass(job: Job, fault: bool) -> None:
    """Six reductions of 50 MiB behind the backward pass, 600 us each, that DDP would hide but for the last."""

    def gradient(job: Job, block: int) -> None:
        if not fault:
            job.collective("all_reduce", 13_107_200, 600, waits=False)

    def reduced(job: Job, number: int) -> None:
        if fault:
            for _ in range(6):
                job.collective("all_reduce", 13_107_200, 600)
        join(job)

    loop(job, gradient=gradient, reduced=reduced)


@declare(
    CASES,
    "cause",
    first=("hidable-communication",),
    places=("reduce_scatter", "reducescatter"),
    ranks=2,
    never=_LATE,
    says=("fully_shard",),
    unsaid=("DDP, FSDP2", "bucket_cap_mb"),
)
def shards_reduced_behind_the_pass(job: Job, fault: bool) -> None:
    """FSDP2 reduces six units of 50 MiB behind the backward pass: it is in use, and needs smaller units."""

    def scattered(waits: bool) -> None:
        notes = [rank.here.note("FSDP::post_backward_reduce") for rank in job.ranks]
        for note in notes:
            note.__enter__()
        job.collective("reduce_scatter", 13_107_200, 600, waits=waits)
        for note in notes:
            note.__exit__(None, None, None)

    def gradient(job: Job, block: int) -> None:
        if not fault:
            scattered(waits=False)

    def reduced(job: Job, number: int) -> None:
        if fault:
            for _ in range(6):
                scattered(waits=True)
        join(job)

    loop(job, gradient=gradient, reduced=reduced)


@declare(
    CASES,
    "pair",
    first=("buffer-broadcast",),
    places=("unflatten_dense_tensors", "broadcast of buffers"),
    ranks=2,
    also_true=("launch-bound",),
    never=_LATE,
)
def buffers_before_launches(job: Job, fault: bool) -> None:
    """Buffers are sent before each forward pass of a model whose kernels are shorter than their launches."""
    loop(
        job,
        Plan(layers=12, tokens=64, host_us=14),
        begin=lambda job, number: _forward_of_ddp(job, 200 if fault else 0),
        gradient=buckets,
        reduced=_joined,
    )


@declare(
    CASES,
    "cause",
    first=("barrier", "explicit-sync"),
    places=("barrier", "synchronize_ranks"),
    ranks=2,
    never=_LATE,
)
def barrier_between_uneven_steps(job: Job, fault: bool) -> None:
    """Two ranks whose steps are long in turns wait for each other at a barrier, of which nothing depends."""
    plan = Plan(backward=False)
    nets = [Net(rank, plan) for rank in job.ranks]
    for number in range(1, 9):
        with job.step(number):
            for rank, net in zip(job.ranks, nets, strict=True):
                with rank.main.frame("serve.py(30): infer", 5):
                    batch(rank.main)
                    for block in range(plan.layers):
                        for _ in range(2 if number % 2 == rank.number else 1):
                            net.forward(block)
            if fault:
                with ExitStack() as frames:
                    for rank in job.ranks:
                        frames.enter_context(rank.main.frame("serve.py(52): synchronize_ranks", 3))
                        frames.enter_context(
                            rank.main.frame("torch/distributed/distributed_c10d.py(4818): barrier", 5)
                        )
                    job.collective("barrier", 1, 25)
                    for rank in job.ranks:
                        rank.main.wait()
    for rank in job.ranks:
        rank.main.wait("cudaDeviceSynchronize", None)


@declare(
    CASES, "cause", first=("repeated-reduction",), places=("all_reduce", "allreduce"), ranks=2, never=_LATE
)
def reduced_in_each_microbatch(job: Job, fault: bool) -> None:
    """Gradients of four microbatches are added up, and reduced each time: 900 us, three of four for nothing."""
    plan = Plan(layers=3)
    nets = [Net(rank, plan) for rank in job.ranks]
    for number in range(1, 6):
        with job.step(number):
            for micro in range(4):
                for rank, net in zip(job.ranks, nets, strict=True):
                    batch(rank.main, 30)
                    for block in range(plan.layers):
                        net.forward(block)
                with ExitStack() as passes:
                    for rank in job.ranks:
                        passes.enter_context(rank.backward())
                    for block in reversed(range(plan.layers)):
                        for net in nets:
                            net.backward(block)
                    if fault or micro == 3:
                        job.collective("all_reduce", 25_165_824, 900)
            for rank in job.ranks:
                optimizer(rank.main, plan)
    for rank in job.ranks:
        rank.main.wait("cudaDeviceSynchronize", None)


def _data_parallel(job: Job, plan: Plan | None = None, **hooks: object) -> None:
    loop(job, plan, gradient=buckets, reduced=_joined, **hooks)  # type: ignore[arg-type]


@declare(
    CASES, "cause", first=("rank-imbalance",), places=("rank 1",), ranks=2, at_top=_LATE, never=("late-rank",)
)
def rank_with_more_work(job: Job, fault: bool) -> None:
    """Rank 1 has sequences 1.6 times as long: products take longer. Equal shares would take the mean."""
    _data_parallel(job, Plan(scale={1: 1.6} if fault else {0: 1.3, 1: 1.3}))


@declare(
    CASES, "cause", first=("rank-imbalance",), places=("rank 2",), ranks=4, at_top=_LATE, never=("late-rank",)
)
def slow_device_of_four(job: Job, fault: bool) -> None:
    """The device of rank 2 is throttled, and takes 1.4 times as long for everything; equal devices do not."""
    _data_parallel(job, Plan(scale={2: 1.4} if fault else dict.fromkeys(range(4), 1.1)))


def _inputs(job: Job, number: int, late: int, us: float) -> None:
    for rank in job.ranks:
        with rank.main.frame("train.py(43): inputs", 5):
            if rank.number == late:
                with rank.main.frame("<built-in function sleep>", us):
                    pass
        batch(rank.main)


def _read(job: Job, number: int) -> None:
    for rank in job.ranks:
        with rank.main.op("aten::item", 2), rank.main.op("aten::_local_scalar_dense", 2):
            rank.main.copy("DtoH (Device -> Pageable)", 4, 1.5)
            rank.main.wait()


@declare(
    CASES,
    "cause",
    first=("host-work", "late-rank"),
    places=("rank 1",),
    ranks=2,
    at_top=(*_LATE, "host-work"),
)
def sleeping_rank(job: Job, fault: bool) -> None:
    """Rank 1 sleeps 12 ms before it reads its inputs: longer than the device has work."""
    _data_parallel(job, begin=lambda job, number: _inputs(job, number, 1 if fault else -1, 12_000))


@declare(
    CASES,
    "cause",
    first=("host-work", "late-rank", "item-sync"),
    places=("inputs", "sleep", "aten::item"),
    ranks=4,
    also_true=("item-sync",),
)
def straggler_that_moves(job: Job, fault: bool) -> None:
    """In each step another rank of four sleeps 4 ms, and reads its loss, without which the sleep would be hidden."""
    _data_parallel(
        job,
        begin=lambda job, number: _inputs(job, number, number % 4 if fault else -1, 4_000),
        end=_read,
    )


@declare(CASES, "cause", first=("data-loader",), places=("rank 3",), ranks=4, also_true=("item-sync",))
def loader_of_one_rank(job: Job, fault: bool) -> None:
    """The loader of rank 3 alone takes 6 ms."""

    def begin(job: Job, number: int) -> None:
        for rank in job.ranks:
            batch(rank.main, 6_000 if fault and rank.number == 3 else 60)

    _data_parallel(job, begin=begin, end=_read)


@declare(
    CASES, "cause", first=("stage-imbalance",), places=("rank 1", "rank 0"), ranks=2, never=("late-rank",)
)
def pipeline_with_a_heavy_stage(job: Job, fault: bool) -> None:
    """Two stages, of which the second computes 1.8 times as long; even ones would take the mean."""
    scale = (1.0, 1.8) if fault else (1.4, 1.4)

    def stage(number: int, backward: bool) -> None:
        rank = job.ranks[number]
        with rank.main.frame(f"pipeline.py(66): {'backward' if backward else 'forward'}_stage", 5):
            for _ in range(4):
                us = gemm_us(rank, 4096, 1024, 4096, "c10::BFloat16") * scale[number]
                product(rank.main, "aten::mm", 4096, 1024, 4096, us=us * (1 + backward))

    for number in range(1, 6):
        with job.step(number):
            for backward in (False, True):
                for _ in range(6):
                    first, second = (1, 0) if backward else (0, 1)
                    stage(first, backward)
                    job.send(first, second, 4_194_304, 60)
                    stage(second, backward)
    for rank in job.ranks:
        rank.main.wait("cudaDeviceSynchronize", None)


@declare(
    CASES,
    "cause",
    ranks=2,
    bound=("communication",),
    says=("GB/s", "link", "network"),
    never=_LATE,
)
def slow_link(job: Job, fault: bool) -> None:
    """Gradients of 100 MiB go at 2 GB/s and last much longer than what computes behind them; no rank is late."""

    def gradient(job: Job, block: int) -> None:
        if block % 2 == 0:
            job.collective("all_reduce", 8_738_000, 17_500 if fault else 300, waits=False)

    loop(job, gradient=gradient, reduced=_joined)


@declare(
    CASES,
    "pair",
    first=("host-work", "late-rank"),
    places=("rank 1",),
    ranks=2,
    also_true=("small-collectives", "hidable-communication"),
)
def sleeping_rank_before_small_collectives(job: Job, fault: bool) -> None:
    """Rank 1 sleeps 14 ms, longer than the device has work; 24 small reductions take 0.7 ms."""

    def reduced(job: Job, number: int) -> None:
        for _ in range(24):
            job.collective("all_reduce", 16_384, 28)

    loop(
        job,
        begin=lambda job, number: _inputs(job, number, 1 if fault else -1, 14_000),
        reduced=reduced,
    )


@declare(
    CASES,
    "pair",
    first=("hidable-communication",),
    places=("all_reduce", "allreduce"),
    ranks=2,
    also_true=("item-sync", "read-sync", "host-work", "recording"),
)
def hidable_before_recording(job: Job, fault: bool) -> None:
    """Reductions behind the pass cost 3 ms, a line of the log 0.8 ms."""

    def gradient(job: Job, block: int) -> None:
        if not fault:
            job.collective("all_reduce", 13_107_200, 600, waits=False)

    def reduced(job: Job, number: int) -> None:
        if fault:
            for _ in range(6):
                job.collective("all_reduce", 13_107_200, 600)
        join(job)

    def end(job: Job, number: int) -> None:
        _read(job, number)
        for rank in job.ranks:
            with rank.main.frame("logging/__init__.py(1529): info", 800):
                pass

    loop(job, gradient=gradient, reduced=reduced, end=end)


@declare(
    CASES,
    "pair",
    first=("rank-imbalance",),
    places=("rank 1",),
    ranks=2,
    also_true=("data-loader", "item-sync"),
    never=("late-rank",),
)
def imbalance_before_loader(job: Job, fault: bool) -> None:
    """Rank 1 computes 2.2 times as long; the loader of both takes 0.8 ms."""
    plan = Plan(scale={1: 2.2} if fault else {0: 1.6, 1: 1.6})

    def begin(job: Job, number: int) -> None:
        for rank in job.ranks:
            batch(rank.main, 800)

    _data_parallel(job, plan, begin=begin, end=_read)


@declare(CASES, "clean", ranks=2, bound=("compute",), never=(*_LATE, "hidable-communication"))
def clean_data_parallel(job: Job, fault: bool) -> None:
    """DDP whose reductions are hidden."""
    _data_parallel(job)


@declare(CASES, "clean", ranks=4, bound=("compute",), never=(*_LATE, "hidable-communication"))
def clean_fully_sharded(job: Job, fault: bool) -> None:
    """FSDP2: gathers a block ahead and scatters behind, hidden by what computes."""

    def layer(job: Job, block: int) -> None:
        job.collective("all_gather", 1_048_576, 150, "BFloat16", waits=False)

    def gradient(job: Job, block: int) -> None:
        job.collective("reduce_scatter", 4_194_304, 150, "BFloat16", waits=False)

    loop(job, Plan(steps=4), layer=layer, gradient=gradient, reduced=_joined)


@declare(
    CASES,
    "decoy",
    ranks=2,
    never=("hidable-communication", "small-collectives", *_LATE),
    bound=("compute",),
)
def long_communication_that_is_hidden(job: Job, fault: bool) -> None:
    """The network is busy for most of the backward pass, and nothing waits for it."""
    loop(
        job,
        gradient=lambda job, block: job.collective("all_reduce", 9_000_000, 560, waits=False),
        reduced=_joined,
    )


@declare(CASES, "decoy", ranks=2, never=("host-work", *_LATE))
def late_on_the_host_alone(job: Job, fault: bool) -> None:
    """Rank 1's host sleeps 2 ms in each step, while its device has work for longer: no collective is late."""
    _data_parallel(
        job, Plan(steps=6), begin=lambda job, number: _inputs(job, number, 1, 2_000 if number > 2 else 0)
    )


@declare(CASES, "decoy", ranks=2, never=_LATE)
def late_and_early_by_turns(job: Job, fault: bool) -> None:
    """Ranks differ by 40 us from step to step, by chance, in a step of 6 ms."""
    _data_parallel(
        job,
        begin=lambda job, number: _inputs(job, number, number % 2, 40),
    )
