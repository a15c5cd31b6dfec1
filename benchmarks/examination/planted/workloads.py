"""Parts of models on a simulated machine, and a training loop in which nothing is wrong, with places for faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

from benchmarks.examination.planted.machine import Job, Rank, Thread, contiguous

__all__ = [
    "BF16",
    "FP16",
    "FP32",
    "Net",
    "Plan",
    "batch",
    "elementwise",
    "gemm_us",
    "loop",
    "optimizer",
    "product",
]

BF16, FP16, FP32 = "c10::BFloat16", "c10::Half", "float"
BYTES = {BF16: 2, FP16: 2, FP32: 4, "double": 8, "long int": 8}
_EFFICIENCY = 0.72
"""Of the peak, what large products reach here."""
_BANDWIDTH = 0.85
_GEMMS = {
    BF16: "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    FP16: "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
    FP32: "ampere_sgemm_128x64_tn",
}


@dataclass(frozen=True)
class Plan:
    """A model and its loop.

    Args:
        layers: blocks of two products each.
        tokens: rows.
        width: columns; four times as many inside of a block.
        dtype: of the products.
        gemm: the kernel's name; empty: the usual one of the type.
        slow: products take so many times as long.
        steps: steps of the loop.
        backward: whether there is a backward pass and an optimizer.
        optimizer: what it launches: `fused`, `loop`, or `small` (fused, of as few elements as `loop`).
        host_us: what an op costs the host.
        scale: by rank, products take so many times as long.
    """

    layers: int = 6
    tokens: int = 4096
    width: int = 1024
    dtype: str = BF16
    gemm: str = ""
    slow: float = 1.0
    steps: int = 5
    backward: bool = True
    optimizer: str = "fused"
    host_us: float = 5.0
    scale: dict[int, float] = field(default_factory=dict)


def gemm_us(rank: Rank, m: int, k: int, n: int, dtype: str) -> float:
    """Duration of a product on the rank's device; on a CPU at 200 GFLOP/s."""
    flops = 2.0 * m * k * n
    device = rank.options.device
    peak = 200e9 if device is None else device.flops_per_s[dtype] * _EFFICIENCY
    return max(flops / peak * 1e6, 2.0)


def elementwise(
    thread: Thread,
    name: str,
    shape: Sequence[int],
    dtype: str = BF16,
    inputs: int = 1,
    kernel: str = "",
    us: float | None = None,
    host_us: float = 5.0,
    **given: Any,
) -> None:
    """An elementwise op: reads its inputs and writes one output of the shape."""
    rank = thread.rank
    size = prod(shape) * BYTES[dtype] * (inputs + 1)
    device = rank.options.device
    if us is None:
        us = max(size / (20e9 if device is None else device.bytes_per_s * _BANDWIDTH) * 1e6, 1.5)
    dims = given.pop("dims", [list(shape)] * inputs)
    types = given.pop("types", [dtype] * inputs)
    with thread.op(name, host_us if device else us, dims=dims, types=types, **given):
        if device is not None:
            functor = name.removeprefix("aten::").strip("_")
            called = (
                kernel
                or f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}_kernel_cuda>()"
            )
            thread.launch(called, us, grid=(max(prod(shape) // 512, 1), 1, 1), block=(128, 1, 1))


def product(
    thread: Thread,
    name: str,
    m: int,
    k: int,
    n: int,
    dtype: str = BF16,
    gemm: str = "",
    us: float | None = None,
    host_us: float = 6.0,
    sequence: int | None = None,
) -> None:
    """A product of matrices: `aten::mm`, `aten::addmm` (of a linear layer)."""
    rank = thread.rank
    us = gemm_us(rank, m, k, n, dtype) if us is None else us
    dims: list[Any] = [[m, k], [k, n]]
    if name.endswith("addmm"):
        dims = [[n], *dims, [], []]
    types = [dtype if shape else "Scalar" for shape in dims]
    strides = [contiguous(shape) for shape in dims]
    cpu = rank.options.device is None
    with thread.op(name, us if cpu else host_us, dims=dims, types=types, strides=strides, sequence=sequence):
        if not cpu:
            grid = (max(m // 128, 1), max(n // 128, 1), 1)
            thread.launch(gemm or _GEMMS[dtype], us, grid=grid, block=(128, 1, 1))


@contextmanager
def _node(thread: Thread, name: str, sequence: int, forward_thread: int) -> Any:
    with (
        thread.op(
            f"autograd::engine::evaluate_function: {name}",
            2,
            sequence=sequence,
            forward_thread=forward_thread,
        ),
        thread.op(name, 2, sequence=sequence, forward_thread=forward_thread),
    ):
        yield


class Net:
    """A model on a rank: what its forward pass did is undone by its backward pass."""

    def __init__(self, rank: Rank, plan: Plan) -> None:
        self.rank, self.plan = rank, plan
        self.sequences: dict[int, list[int]] = {}
        self.forward_thread = 1

    def forward(self, layer: int) -> None:
        """A block: two products and two elementwise ops."""
        plan, thread = self.plan, self.rank.here
        inner = 4 * plan.width
        self.sequences[layer] = []
        self.forward_thread = 1 + self.rank.threads.index(thread)
        with (
            thread.frame(f"nn.Module: Block_{layer}", 3),
            thread.frame("model.py(58): forward", 2),
        ):
            for number, (k, n, op) in enumerate(
                ((plan.width, inner, "aten::gelu"), (inner, plan.width, "aten::add"))
            ):
                self.rank.sequence += 1
                self.sequences[layer].append(self.rank.sequence)
                with (
                    thread.frame(f"nn.Module: Linear_{2 * layer + number}", 2),
                    thread.op(
                        "aten::linear", 3, dims=[[plan.tokens, k], [n, k], [n]], types=[plan.dtype] * 3
                    ),
                ):
                    self._product(thread, "aten::addmm", plan.tokens, k, n, self.rank.sequence)
                self.rank.sequence += 1
                elementwise(
                    thread,
                    op,
                    (plan.tokens, n),
                    plan.dtype,
                    1 + (op == "aten::add"),
                    host_us=plan.host_us,
                    sequence=self.rank.sequence,
                )

    def backward(self, layer: int) -> None:
        """Gradients of a block."""
        plan, thread = self.plan, self.rank.here
        inner = 4 * plan.width
        for number, (k, n, op) in (
            (1, (inner, plan.width, "AddBackward0")),
            (0, (plan.width, inner, "GeluBackward0")),
        ):
            sequence = self.sequences[layer][number]
            with _node(thread, op, sequence + 1, self.forward_thread):
                kernel = "aten::gelu_backward" if op == "GeluBackward0" else "aten::mul"
                elementwise(thread, kernel, (plan.tokens, n), plan.dtype, 2, host_us=plan.host_us)
            with _node(thread, "AddmmBackward0", sequence, self.forward_thread):
                self._product(thread, "aten::mm", plan.tokens, n, k)
                self._product(thread, "aten::mm", n, plan.tokens, k)

    def _product(
        self, thread: Thread, name: str, m: int, k: int, n: int, sequence: int | None = None
    ) -> None:
        plan = self.plan
        us = gemm_us(self.rank, m, k, n, plan.dtype) * plan.slow * plan.scale.get(self.rank.number, 1.0)
        product(thread, name, m, k, n, plan.dtype, plan.gemm, us, plan.host_us, sequence)


def batch(thread: Thread, wait_us: float = 60, copied: int = 1 << 20) -> None:
    """Take a batch that workers have ready, and copy it from pinned memory."""
    with (
        thread.note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
        thread.frame("torch/utils/data/dataloader.py(701): __next__"),
        thread.frame("torch/utils/data/dataloader.py(1448): _next_data", wait_us),
    ):
        pass
    if thread.rank.options.device is not None:
        with (
            thread.op("aten::to", 3, dims=[[copied // 8]], types=["long int"]),
            thread.op("aten::_to_copy", 3, dims=[[copied // 8]], types=["long int"]),
            thread.op("aten::copy_", 3, dims=[[copied // 8]] * 2, types=["long int"] * 2),
        ):
            thread.copy("HtoD (Pinned -> Device)", copied, copied / 25e3)


def optimizer(thread: Thread, plan: Plan) -> None:
    """A step of AdamW: fused, or one parameter after another."""
    rank = thread.rank
    parameters = 4 * plan.layers
    elements = 4 * plan.width * plan.width
    with (
        thread.frame("torch/optim/optimizer.py(465): wrapper", 3),
        thread.note("Optimizer.step#AdamW.step"),
        thread.frame("torch/optim/adamw.py(220): step", 5),
    ):
        if plan.optimizer != "loop":
            size = plan.layers * 2 * elements * 4 * 7
            device = rank.options.device
            us = size / (20e9 if device is None else device.bytes_per_s * _BANDWIDTH) * 1e6
            us = 40.0 if plan.optimizer == "small" else us
            shapes = [[4 * plan.width, plan.width] for _ in range(2 * plan.layers)]
            with thread.op(
                "aten::_fused_adamw_",
                15 if device else us,
                dims=[shapes] * 4,
                types=["TensorList"] * 4,
            ):
                if device is not None:
                    name = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>()"
                    thread.launch(name, us, grid=(4096, 1, 1), block=(512, 1, 1))
            return
        for _ in range(parameters):
            for op in (
                "aten::mul_",
                "aten::lerp_",
                "aten::mul_",
                "aten::addcmul_",
                "aten::sqrt",
                "aten::div_",
                "aten::add_",
                "aten::addcdiv_",
            ):
                elementwise(thread, op, (plan.width, 64), FP32, 1 + op.startswith("aten::addc") * 2)


Hook = Callable[[Job, int], None]


def loop(
    job: Job,
    plan: Plan | None = None,
    begin: Hook | None = None,
    layer: Hook | None = None,
    forwarded: Hook | None = None,
    gradient: Hook | None = None,
    reduced: Hook | None = None,
    end: Hook | None = None,
    wait_us: float = 60,
    first: int = 1,
) -> None:
    """Train in lockstep on all ranks.

    Args:
        job: the ranks.
        plan: the model.
        begin: called as a step begins, with its number, instead of taking a batch.
        layer: behind each block of the forward pass, with the block's number.
        forwarded: between forward and backward pass, with the step's number.
        gradient: behind each block of the backward pass, with the block's number, on the thread of the pass.
        reduced: between backward pass and optimizer, with the step's number.
        end: behind the optimizer, with the step's number.
        wait_us: for a batch.
        first: number of the first step.
    """
    plan = plan or Plan()
    nets = [Net(rank, plan) for rank in job.ranks]
    for number in range(first, first + plan.steps):
        with job.step(number), ExitStack() as frames:
            for rank in job.ranks:
                frames.enter_context(rank.main.frame("train.py(88): train_step", 2))
            if begin is not None:
                begin(job, number)
            else:
                for rank in job.ranks:
                    batch(rank.main, wait_us)
            for block in range(plan.layers):
                for net in nets:
                    net.forward(block)
                if layer is not None:
                    layer(job, block)
            if forwarded is not None:
                forwarded(job, number)
            if plan.backward:
                _backward(job, plan, nets, gradient)
                if reduced is not None:
                    reduced(job, number)
                for rank in job.ranks:
                    optimizer(rank.main, plan)
            if end is not None:
                end(job, number)
    for rank in job.ranks:
        if rank.options.device is not None:
            rank.main.wait("cudaDeviceSynchronize", None)


def _backward(job: Job, plan: Plan, nets: Sequence[Net], gradient: Hook | None) -> None:
    with ExitStack() as passes:
        for rank in job.ranks:
            passes.enter_context(rank.backward())
        for block in reversed(range(plan.layers)):
            for net in nets:
                net.backward(block)
            if gradient is not None:
                gradient(job, block)
