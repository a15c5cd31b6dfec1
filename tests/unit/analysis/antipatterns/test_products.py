"""Detectors of matrix products: what counts as unaligned, tiny, or in full precision."""

from __future__ import annotations

import pytest

from tests.planted import A100, V100, Scene, Stream, Thread
from tests.planted.busy import busy
from tracebraid.analysis.antipatterns.matmuls.eager_attention import eager_attention, scores_of
from tracebraid.analysis.antipatterns.matmuls.full_precision_products import full_precision_products
from tracebraid.analysis.antipatterns.matmuls.tiny_products import (
    HOST_STALL_NS,
    LEAST_PRODUCTS,
    tiny_products,
)
from tracebraid.analysis.antipatterns.matmuls.unaligned_products import is_unaligned
from tracebraid.analysis.efficiency.costs_by_shape import LATENCY_NS
from tracebraid.model.step import PROFILER_STEP


@pytest.mark.parametrize(
    ("name", "dims", "strides", "precision", "expected"),
    [
        ("aten::mm", "[[64, 1001], [1001, 64]]", None, "bf16", True),
        ("aten::mm", "[[1001, 64], [64, 128]]", None, "bf16", False),
        ("aten::mm", "[[64, 128], [128, 1001]]", None, "fp16", True),
        ("aten::mm", "[[64, 1001], [1001, 64]]", "[[1, 64], [64, 1]]", "bf16", False),
        ("aten::mm", "[[64, 12], [12, 64]]", None, "tf32", False),
        ("aten::mm", "[[64, 12], [12, 64]]", None, "bf16", True),
        ("aten::mm", "[[64, 24], [24, 64]]", None, "fp8", True),
        ("aten::mm", "[[64, 24], [24, 1]]", None, "fp16", False),
        ("aten::addmm", "[[1001], [64, 64], [64, 1001], [], []]", None, "bf16", True),
        ("aten::linear", "[[4, 64, 64], [1001, 64], [1001]]", None, "bf16", True),
        ("aten::linear", "[[4, 64, 64], [64, 64], [64]]", None, "bf16", False),
        ("aten::mm", None, None, "bf16", False),
        ("aten::mm", "[[64, 1001]]", None, "bf16", False),
        ("aten::mm", '[["a"], {}]', None, "bf16", False),
        ("aten::mm", "{", "7", "bf16", False),
        ("aten::mm", "[[0, 1001], [1001, 64]]", None, "bf16", False),
    ],
)
def test_rows_of_factors_and_result_are_multiples(
    name: str, dims: str | None, strides: str | None, precision: str, expected: bool
) -> None:
    assert is_unaligned(name, dims, strides, precision) is expected


@pytest.mark.parametrize(
    ("dims", "first", "expected"),
    [
        ("[[2, 3, 4], [2, 4, 5]]", 0, (2, 3, 4, 3, 5)),
        ("[[9], [2, 3, 4], [2, 4, 5]]", 1, (2, 3, 4, 3, 5)),
        ("[[2, 3, 4, 5], []]", None, (6, 4, 5, None, None)),
        ("[[3, 4], [4, 5]]", 0, (None,) * 5),
        ("[[2, 3, 4]]", 0, (None,) * 5),
        ("nonsense", 0, (None,) * 5),
        (None, None, (None,) * 5),
    ],
)
def test_scores_of_an_op(dims: str | None, first: int | None, expected: tuple[int | None, ...]) -> None:
    assert scores_of(dims, first) == expected


def product(scene: Scene, count: int, kernel: str, size: int = 16, ns: int = 30_000) -> None:
    host, stream = scene.threads[0], scene.stream(7)
    for _ in range(count):
        with host.op("aten::mm", dims=[[size, size], [size, size]], types=["float"] * 2):
            host.launch(stream, kernel, ns)


@pytest.mark.parametrize(("count", "runs"), [(LEAST_PRODUCTS - 1, 0), (LEAST_PRODUCTS, 3)])
def test_few_tiny_products_make_no_run(count: int, runs: int) -> None:
    scene = busy(lambda scene, host, stream: product(scene, count, "gemm"))
    assert tiny_products(scene.linked(), PROFILER_STEP).height == runs


@pytest.mark.parametrize(
    ("between", "gap_ns", "runs"),
    [
        ([], 100_000, 1),
        (["aten::t", "aten::view", "aten::relu"], 100_000, 1),
        (["aten::relu", "aten::add"], 0, 0),
        ([], HOST_STALL_NS, 0),
    ],
)
def test_on_a_host_computing_ops_end_a_run_and_a_busy_machine_does_not(
    between: list[str], gap_ns: int, runs: int
) -> None:
    scene = Scene(devices=())
    host = scene.thread()
    with host.step(1):
        for _ in range(LEAST_PRODUCTS):
            host.run("aten::mm", 5_000, dims=[[8, 8], [8, 8]], types=["float"] * 2)
            for name in between:
                host.run(name, 1_000, dims=[[8, 8]], types=["float"])
            host.spend(gap_ns)
    found = tiny_products(scene.linked(), PROFILER_STEP)
    assert found.height == runs
    if runs:
        assert found.item(0, "saving_ns") >= (LEAST_PRODUCTS - 1) * 5_000


def test_large_products_are_not_tiny() -> None:
    scene = busy(lambda scene, host, stream: product(scene, 20, "gemm", 1024))
    assert tiny_products(scene.linked(), PROFILER_STEP).is_empty()


_FLOPS = 2 * 2048**3
_SGEMM_NS = 2_000_000


@pytest.mark.parametrize(
    ("device", "kernel", "peak"),
    [
        (A100, "ampere_sgemm_128x64_tn", 312e12),
        (A100, "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(P)", 312e12),
        (A100, "ampere_s1688gemm_tf32_128x64", None),
        (A100, "cutlass_80_tensorop_s1688gemm_128x128", None),
        (V100, "volta_sgemm_128x64_nn", 125e12),
        (V100, "volta_h884gemm_64x64", None),
    ],
)
def test_full_precision_is_known_by_the_kernel(
    device: dict[str, object], kernel: str, peak: float | None
) -> None:
    scene = busy(lambda scene, host, stream: product(scene, 1, kernel, 2048, _SGEMM_NS), devices=(device,))
    saved = full_precision_products(scene.linked(), PROFILER_STEP).get_column("saving_ns").to_list()
    assert saved == ([pytest.approx(_SGEMM_NS - _FLOPS / peak * 1e9, abs=2)] * 3 if peak else [])


def test_products_in_several_kernels_save_all_but_the_least_time_of_the_product() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.op("aten::mm", dims=[[2048, 2048], [2048, 2048]], types=["float"] * 2):
            for _ in range(4):
                host.launch(stream, "ampere_sgemm_128x64_tn", _SGEMM_NS)

    saved = full_precision_products(busy(body).linked(), PROFILER_STEP).get_column("saving_ns")
    assert len(saved) == 12
    assert saved.sum() == pytest.approx(3 * (4 * _SGEMM_NS - _FLOPS / 312e12 * 1e9), abs=12)


@pytest.mark.parametrize(("op", "size"), [("aten::mm", 16), ("aten::cudnn_convolution", 2048)])
def test_at_least_the_time_of_the_shortest_kernel_remains(op: str, size: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.op(op, dims=[[size, size], [size, size]], types=["float"] * 2):
            host.launch(stream, "ampere_scudnn_winograd_128x128_ldg1_ldg4_tile148t_nt", 30_000)

    saved = full_precision_products(busy(body).linked(), PROFILER_STEP).get_column("saving_ns").to_list()
    assert saved == [30_000 - LATENCY_NS] * 3


def test_an_unknown_device_has_no_advice_on_precision() -> None:
    unknown = {**A100, "name": "NVIDIA Z9000"}
    scene = busy(
        lambda scene, host, stream: product(scene, 1, "ampere_sgemm_128x64_tn", 2048), devices=(unknown,)
    )
    assert full_precision_products(scene.linked(), PROFILER_STEP).is_empty()


def test_work_that_other_compute_hides_saves_nothing() -> None:
    def body(scene: Scene) -> None:
        scene.stream(9).run("other_kernel", 5_000_000, scene.stream(7).free)
        product(scene, 1, "ampere_sgemm_128x64_tn", 2048)

    scene = busy(lambda scene, host, stream: body(scene))
    assert full_precision_products(scene.linked(), PROFILER_STEP).is_empty()


def test_a_softmax_over_classes_is_no_attention() -> None:
    def body(scene: Scene) -> None:
        host, stream = scene.threads[0], scene.stream(7)
        product(scene, 1, "gemm", 512)
        with host.op("aten::_softmax", dims=[[512, 512], [], []], types=["float", "Scalar", "Scalar"]):
            host.launch(stream, "softmax", 30_000)
        product(scene, 1, "gemm", 512)

    scene = busy(lambda scene, host, stream: body(scene))
    assert eager_attention(scene.linked(), PROFILER_STEP).is_empty()
