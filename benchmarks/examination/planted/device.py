"""Cases in which the device does more than it has to, or does it slowly."""

from __future__ import annotations

from math import prod
from typing import Any

from benchmarks.examination.planted.case import PlantedCase, declare
from benchmarks.examination.planted.devices import V100
from benchmarks.examination.planted.machine import Job, Options, Thread
from benchmarks.examination.planted.workloads import (
    BF16,
    FP16,
    FP32,
    Net,
    Plan,
    batch,
    elementwise,
    gemm_us,
    loop,
    product,
)

__all__ = ["CASES"]

CASES: dict[str, PlantedCase] = {}
_CPU = Options(device=None)
_VOLTA = "volta_sgemm_128x64_tn"


@declare(CASES, "cause", first=("full-precision-products",), places=("aten::", "sgemm"), bound=("compute",))
def full_precision_on_a100(job: Job, fault: bool) -> None:
    """Products in FP32 outside of tensor cores: in BF16 they take a sixteenth."""
    loop(job, Plan(layers=3, tokens=1024, dtype=FP32 if fault else BF16))


@declare(
    CASES,
    "cause",
    first=("full-precision-products",),
    places=("aten::", "sgemm"),
    unsaid=("bfloat16", "TF32"),
    says=("float16", "FP16", "GradScaler"),
    options=Options(device=V100),
)
def full_precision_on_v100(job: Job, fault: bool) -> None:
    """The same on a device that has neither BF16 nor TF32."""
    loop(job, Plan(layers=3, tokens=1024, dtype=FP32 if fault else FP16, gemm=_VOLTA if fault else ""))


@declare(CASES, "cause", first=("unaligned-products",), places=("50257", "aten::"), bound=("compute",))
def unaligned_vocabulary(job: Job, fault: bool) -> None:
    """Logits over 50,257 words: kernels of alignment 1 take 2.4 times as long as those of 50,304."""

    def forwarded(job: Job, number: int) -> None:
        rank = job.ranks[0]
        words = 50_257 if fault else 50_304
        us = gemm_us(rank, 4096, 1024, words, BF16) * (2.4 if fault else 1.0)
        kernel = "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align1" if fault else ""
        with rank.here.frame("nn.Module: LMHead_0", 3):
            product(rank.here, "aten::mm", 4096, 1024, words, gemm=kernel, us=us)

    loop(job, forwarded=forwarded)


def _attention(thread: Thread, eager: bool, heads: int = 128, length: int = 2048, width: int = 64) -> None:
    """Attention in BF16: as products and a softmax, or as one kernel."""
    scores = [heads, length, length]
    flops = 4.0 * heads * length * length * width
    least = flops / (312e12 * 0.6) * 1e6
    with thread.frame("attention.py(40): attend", 4):
        if not eager:
            shape = [8, heads // 8, length, width]
            with thread.op(
                "aten::scaled_dot_product_attention",
                5,
                dims=[shape] * 3 + [[]] * 3,
                types=[BF16] * 3 + ["Scalar"] * 3,
            ):
                thread.launch("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>()", least)
            return
        factors: Any = [[heads, length, width], [heads, width, length]]
        with (
            thread.op("aten::matmul", 3, dims=factors, types=[BF16] * 2),
            thread.op("aten::bmm", 5, dims=factors, types=[BF16] * 2),
        ):
            thread.launch("ampere_bf16_s16816gemm_bf16_128x128_tn", least / 2)
        elementwise(thread, "aten::div", scores)
        elementwise(thread, "aten::add", scores, inputs=2)
        with thread.op(
            "aten::softmax",
            3,
            dims=[scores, [], []],
            types=[BF16, "Scalar", "Scalar"],
            concrete=["", "-1", ""],
        ):
            elementwise(
                thread, "aten::_softmax", scores, dims=[scores, [], []], types=[BF16, "Scalar", "Scalar"]
            )
        factors = [scores, [heads, length, width]]
        with (
            thread.op("aten::matmul", 3, dims=factors, types=[BF16] * 2),
            thread.op("aten::bmm", 5, dims=factors, types=[BF16] * 2),
        ):
            thread.launch("ampere_bf16_s16816gemm_bf16_128x64_nn", least / 2)


@declare(CASES, "cause", first=("eager-attention",), places=("softmax", "attend", "2048"), bound=("compute",))
def attention_written_out(job: Job, fault: bool) -> None:
    """Scores of 128 heads are written and read five times."""
    loop(job, Plan(backward=False), layer=lambda job, block: _attention(job.ranks[0].here, fault))


@declare(CASES, "cause", first=("dtype-bounces",), places=("aten::", "_to_copy"), bound=("compute",))
def cast_and_cast_back(job: Job, fault: bool) -> None:
    """A norm in FP32 between layers in BF16: a cast to it and one back, 400 MB each."""
    shape = (32_768, 2048)

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        with thread.frame("norm.py(15): norm", 3):
            if fault:
                _cast(thread, shape, BF16, FP32)
            elementwise(thread, "aten::layer_norm", shape, FP32 if fault else BF16, us=300)
            if fault:
                _cast(thread, shape, FP32, BF16)

    loop(job, Plan(backward=False), layer=layer)


def _cast(thread: Thread, shape: tuple[int, int], source: str, target: str) -> None:
    number = {BF16: "15", FP32: "6"}[target]
    given: dict[str, Any] = {
        "dims": [list(shape), [], [], [], [], [], []],
        "types": [source] + ["Scalar"] * 6,
    }
    concrete = ["", number, "", "", "", "False", ""]
    us = shape[0] * shape[1] * 6 / (2039e9 * 0.85) * 1e6
    with (
        thread.op(
            "aten::to",
            2,
            dims=[list(shape), [], [], [], []],
            types=[source] + ["Scalar"] * 4,
            concrete=["", number, "False", "False", ""],
        ),
        thread.op("aten::_to_copy", 3, **given, concrete=concrete),
        thread.op("aten::copy_", 4, dims=[list(shape)] * 2 + [[]], types=[target, source, "Scalar"]),
    ):
        thread.launch("void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda>()", us)


@declare(
    CASES,
    "cause",
    first=("layout-copies",),
    places=("aten::contiguous", "aten::clone", "aten::copy_"),
    bound=("compute",),
)
def transposed_and_copied(job: Job, fault: bool) -> None:
    """Heads are transposed, and `contiguous()` copies them in each layer: 134 MB."""

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        if fault:
            _contiguous(thread, [16, 16, 2048, 64], 220)

    loop(job, layer=layer)


def _contiguous(thread: Thread, shape: list[int], us: float) -> None:
    strides = [shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1]
    dense = [shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1]
    with (
        thread.frame("attention.py(61): merge_heads", 2),
        thread.op("aten::contiguous", 2, dims=[shape, []], types=[BF16, "Scalar"], strides=[strides, []]),
        thread.op("aten::clone", 2, dims=[shape, []], types=[BF16, "Scalar"], strides=[strides, []]),
        thread.op(
            "aten::copy_",
            3,
            dims=[shape, shape, []],
            types=[BF16, BF16, "Scalar"],
            strides=[dense, strides, []],
        ),
    ):
        thread.launch("void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>()", us)


def _norm(thread: Thread, written_out: bool, rows: int, width: int) -> None:
    """A norm in FP32 of a tensor in BF16: eight kernels that read and write all of it, or one."""
    full, narrow, scalar = [1, rows, width], [1, rows, 1], "Scalar"
    with thread.frame("model.py(31): rms_norm", 4):
        if not written_out:
            kernel = "triton_red_fused_add_mean_mul_pow_rsqrt_0"
            with thread.op(
                kernel, 6, dims=[full, [width]], types=[BF16] * 2, args={"kernel_backend": "triton"}
            ):
                thread.launch(kernel, rows * width * 4 / (2039e9 * 0.85) * 1e6)
            return
        _converted(thread, full, BF16, FP32)
        elementwise(
            thread, "aten::pow", full, FP32, dims=[full, []], types=[FP32, scalar], concrete=["", "2"]
        )
        us = rows * width * 4 / (2039e9 * 0.85) * 1e6
        dims = [full, [], [], []]
        mean: dict[str, Any] = {
            "dims": dims,
            "types": [FP32, *[scalar] * 3],
            "concrete": ["", "[-1]", "True", ""],
        }
        elementwise(thread, "aten::mean", narrow, FP32, us=us, **mean)
        elementwise(
            thread,
            "aten::add",
            narrow,
            FP32,
            dims=[narrow, [], []],
            types=[FP32, scalar, scalar],
            concrete=["", "1e-6", "1"],
        )
        elementwise(thread, "aten::rsqrt", narrow, FP32)
        elementwise(thread, "aten::mul", full, FP32, dims=[full, narrow], types=[FP32] * 2)
        _converted(thread, full, FP32, BF16)
        elementwise(thread, "aten::mul", full, BF16, dims=[full, [width]], types=[BF16] * 2)


def _converted(thread: Thread, shape: list[int], source: str, target: str) -> None:
    with thread.op("aten::copy_", 4, dims=[shape, shape, []], types=[target, source, "Scalar"]):
        us = prod(shape) * 6 / (2039e9 * 0.85) * 1e6
        thread.launch("void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda>()", us)


@declare(
    CASES,
    "cause",
    first=("unfused-elementwise",),
    places=("rms_norm",),
    says=("torch.compile",),
    never=("dtype-bounces",),
    bound=("compute",),
)
def norm_written_out(job: Job, fault: bool) -> None:
    """A norm of 32,768 rows in each layer takes eight kernels that each read what the one before wrote."""
    loop(job, Plan(backward=False), layer=lambda job, block: _norm(job.ranks[0].here, fault, 32_768, 2048))


@declare(CASES, "decoy", never=("unfused-elementwise",), bound=("compute",))
def norm_compiled(job: Job, fault: bool) -> None:
    """The same norms, each one kernel of Triton."""
    loop(job, Plan(backward=False), layer=lambda job, block: _norm(job.ranks[0].here, False, 32_768, 2048))


@declare(CASES, "decoy", never=("unfused-elementwise",), bound=("compute",))
def norm_of_few_rows(job: Job, fault: bool) -> None:
    """Norms of 16 rows: their tensors are too small to take any time."""
    loop(job, Plan(backward=False), layer=lambda job, block: _norm(job.ranks[0].here, True, 16, 2048))


@declare(CASES, "cause", first=("tiny-products",), places=("aten::mm", "experts"))
def experts_one_by_one(job: Job, fault: bool) -> None:
    """Sixty-four experts of 16 rows each, a product each, in each of six layers; one batched product does the same."""

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        with thread.frame("experts.py(52): apply_experts", 5):
            if fault:
                for _ in range(64):
                    product(thread, "aten::mm", 16, 256, 256, us=3.0)
            else:
                dims = [[64, 16, 256], [64, 256, 256]]
                with thread.op("aten::bmm", 6, dims=dims, types=[BF16] * 2):
                    thread.launch("ampere_bf16_s16816gemm_bf16_64x64_batched_nn", 9)

    loop(job, Plan(tokens=1024), layer=layer)


@declare(CASES, "cause", first=("recomputed-prefix",), places=("aten::", "generate"))
def generated_without_a_cache(job: Job, fault: bool) -> None:
    """Sixteen tokens are generated, the whole prefix again for each."""
    thread = job.ranks[0].main
    for number in range(1, 4):
        with job.step(number), thread.frame("generate.py(18): generate", 10):
            for token in range(16):
                rows = 1024 + token if fault else 1
                for layer in range(2):
                    with thread.frame(f"nn.Module: Block_{layer}", 2):
                        for k, n in ((1024, 4096), (4096, 1024)):
                            us = max(
                                gemm_us(job.ranks[0], rows, k, n, BF16), 8e6 * k * n / 4e6 / 2039e9 * 1.1
                            )
                            with thread.op("aten::linear", 2, dims=[[1, rows, k], [n, k]], types=[BF16] * 2):
                                product(thread, "aten::mm", rows, k, n, us=us, host_us=4)
                with thread.op("aten::argmax", 4, dims=[[1, 32_000]], types=[BF16]):
                    thread.launch("void at::native::reduce_kernel<512, 1, ArgMaxOps>()", 6, grid=(1, 1, 1))
    thread.wait("cudaDeviceSynchronize", None)


@declare(
    CASES,
    "cause",
    first=("costly-recomputation",),
    places=("aten::", "checkpoint", "Block"),
    bound=("compute",),
)
def everything_recomputed(job: Job, fault: bool) -> None:
    """Checkpoints compute all products of the blocks again, though half of the memory is free."""
    plan = Plan(layers=4)
    rank = job.ranks[0]
    net = Net(rank, plan)
    for number in range(1, 6):
        with job.step(number), rank.main.frame("train.py(88): train_step", 2):
            batch(rank.main)
            for block in range(plan.layers):
                with rank.main.frame("torch/utils/checkpoint.py(495): checkpoint", 5):
                    net.forward(block)
            with rank.backward() as thread:
                for block in reversed(range(plan.layers)):
                    if fault:
                        name = "autograd::engine::evaluate_function: CheckpointFunctionBackward"
                        with (
                            thread.op(name, 4),
                            thread.op("CheckpointFunctionBackward", 4),
                            thread.frame("torch/utils/checkpoint.py(271): backward", 8),
                        ):
                            net.forward(block)
                            net.backward(block)
                    else:
                        net.backward(block)
    rank.main.wait("cudaDeviceSynchronize", None)


@declare(
    CASES,
    "cause",
    first=("stored-activations",),
    places=("DtoH", "aten::copy_", "offload", "HtoD", "save_on_cpu"),
)
def activations_on_the_host(job: Job, fault: bool) -> None:
    """Activations of 32 MiB go to the host in each block, and come back, on the computing stream."""

    def copied(job: Job, kind: str) -> None:
        thread = job.ranks[0].here
        if fault:
            with (
                thread.frame("torch/autograd/graph.py(350): pack_to_cpu", 3),
                thread.op(
                    "aten::copy_", 4, dims=[[4096, 4096], [4096, 4096], []], types=[BF16, BF16, "Scalar"]
                ),
            ):
                thread.copy(kind, 32 << 20, 1_340)

    loop(
        job,
        layer=lambda job, block: copied(job, "DtoH (Device -> Pinned)"),
        gradient=lambda job, block: copied(job, "HtoD (Pinned -> Device)"),
    )


@declare(
    CASES,
    "cause",
    first=("double-precision",),
    places=("aten::mm", "aten::addmm", "aten::linear"),
    options=_CPU,
)
def doubles_on_a_cpu(job: Job, fault: bool) -> None:
    """A table of doubles from NumPy makes a product of doubles: twice the time."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        dtype = "double" if fault else FP32
        with thread.frame("features.py(8): project", 5):
            product(thread, "aten::mm", 512, 512, 512, dtype, us=4_000 if fault else 2_000)

    loop(job, Plan(layers=2, tokens=256, width=128), begin=begin)


@declare(CASES, "cause", first=("dense-gradient",), places=("embedding",), options=_CPU)
def dense_gradient_of_a_table(job: Job, fault: bool) -> None:
    """A table of 500,000 rows, of which 256 are looked up, has a dense gradient."""
    table = [500_000, 64]

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].here
        with thread.op(
            "aten::embedding", 30, dims=[table, [256], [], [], []], types=[FP32, "long int"] + ["Scalar"] * 3
        ):
            pass

    def gradient(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        if block == 0:
            with (
                thread.op("autograd::engine::evaluate_function: EmbeddingBackward0", 2, sequence=9_000),
                thread.op("EmbeddingBackward0", 2, sequence=9_000),
                thread.op("aten::embedding_backward", 2, dims=[[256, 64], [256], [], [], [], []]),
            ):
                given: Any = {
                    "dims": [[256, 64], [256], [], [], []],
                    "types": [FP32, "long int"] + ["Scalar"] * 3,
                }
                concrete = ["", "", "500000", "-1", "False"]
                if fault:
                    with thread.op("aten::embedding_dense_backward", 6_000, **given, concrete=concrete):
                        elementwise(thread, "aten::zero_", (500_000, 64), FP32, us=4_000)
                else:
                    elementwise(thread, "aten::embedding_sparse_backward", (256, 64), FP32, us=20)

    def reduced(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        if fault:
            with thread.note("Optimizer.step#SGD.step"):
                elementwise(
                    thread,
                    "aten::add_",
                    (500_000, 64),
                    FP32,
                    dims=[table, table, []],
                    types=[FP32, FP32, "Scalar"],
                    us=6_000,
                )

    loop(job, Plan(layers=2, tokens=256, width=128), begin=begin, gradient=gradient, reduced=reduced)


@declare(
    CASES,
    "cause",
    first=("broadcast",),
    places=("aten::sub", "aten::pow", "aten::sum", "distances"),
    options=_CPU,
)
def distances_by_broadcasting(job: Job, fault: bool) -> None:
    """Distances of 1,024 points to 512: a tensor of 33 million differences, instead of one product."""

    def begin(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        with thread.frame("cluster.py(27): distances", 5):
            if not fault:
                product(thread, "aten::mm", 1024, 64, 512, FP32, us=400)
                return
            full = [1024, 512, 64]
            with thread.op(
                "aten::sub", 12_000, dims=[[1024, 1, 64], [1, 512, 64], []], types=[FP32, FP32, "Scalar"]
            ):
                pass
            with thread.op("aten::pow", 14_000, dims=[full, []], types=[FP32, "Scalar"], concrete=["", "2"]):
                pass
            with thread.op(
                "aten::sum",
                8_000,
                dims=[full, [], [], []],
                types=[FP32] + ["Scalar"] * 3,
                concrete=["", "[-1]", "False", ""],
            ):
                pass

    loop(job, Plan(layers=2, tokens=256, width=128), begin=begin)


@declare(
    CASES,
    "pair",
    first=("full-precision-products",),
    places=("aten::", "sgemm"),
    also_true=("layout-copies",),
    saves_us=(9_000, 10_300),
)
def full_precision_before_layouts(job: Job, fault: bool) -> None:
    """Products in FP32 take 11 ms, layout copies 0.7 ms.

    By hand: 6 products of 1024 x 1024 x 4096 in each of 3 layers (2 forward, 4 backward), 8.6 GFLOP each: 611 us at
    72 % of 19.5 TFLOP/s, 55 us at half of 312. 18 x 556 us is 10.0 ms; TF32 at half of its peak would save 9.0 ms.
    """
    loop(
        job,
        Plan(layers=3, tokens=1024, dtype=FP32),
        layer=lambda job, block: _contiguous(job.ranks[0].here, [16, 16, 2048, 64], 220),
    )


@declare(
    CASES,
    "pair",
    first=("layout-copies",),
    places=("aten::contiguous", "aten::clone", "aten::copy_"),
    also_true=("dtype-bounces",),
)
def layouts_before_casts(job: Job, fault: bool) -> None:
    """Layout copies take 3 ms of a step, casts 0.7 ms."""

    def layer(job: Job, block: int) -> None:
        thread = job.ranks[0].here
        if fault:
            _contiguous(thread, [16, 16, 2048, 64], 500)
        _cast(thread, (4096, 4096), BF16, FP32)
        elementwise(thread, "aten::layer_norm", (4096, 4096), FP32, us=60)
        _cast(thread, (4096, 4096), FP32, BF16)

    loop(job, layer=layer)


@declare(
    CASES,
    "pair",
    first=("eager-attention",),
    places=("softmax", "attend", "2048"),
    also_true=("unaligned-products", "layout-copies"),
)
def attention_before_unaligned(job: Job, fault: bool) -> None:
    """Eager attention costs some 17 ms, unaligned logits 3 ms."""

    def forwarded(job: Job, number: int) -> None:
        rank = job.ranks[0]
        us = gemm_us(rank, 4096, 1024, 50_257, BF16) * 2.4
        kernel = "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align1"
        product(rank.here, "aten::mm", 4096, 1024, 50_257, gemm=kernel, us=us)

    loop(
        job,
        Plan(backward=False),
        layer=lambda job, block: _attention(job.ranks[0].here, fault),
        forwarded=forwarded,
    )
