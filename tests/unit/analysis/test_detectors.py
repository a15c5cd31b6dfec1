"""Detectors of communication, products, tensors and imbalance: thresholds, and what they leave alone."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracebraid
from tests.builders import Json
from tests.planted import A100, H100, MI300X, V100, Copy, Scene, Stream, Thread, host_scene
from tests.planted.busy import busy, cast
from tests.planted.hosts import Cause
from tests.planted.jobs import PlannedJob
from tests.planted.patterns import PATTERNS
from tracebraid.analysis.antipatterns.catalog import job_detectors
from tracebraid.analysis.antipatterns.communication import LEAST_COLLECTIVES, hidden_most
from tracebraid.analysis.antipatterns.evidence import HOST_STALL_NS
from tracebraid.analysis.antipatterns.matmuls import LEAST_PRODUCTS, is_unaligned, scores_of
from tracebraid.analysis.antipatterns.ranks import (
    LEAST_LATE_NS,
    few_microbatches,
    late_for_another_reason,
    rank_imbalance,
    stage_imbalance,
)
from tracebraid.analysis.antipatterns.small_ops import LEAST_RUNS
from tracebraid.analysis.efficiency.roofline import LATENCY_NS
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Detector


def evidence(detector: str, scene: Scene | LinkedTrace) -> pl.DataFrame:
    """What a detector finds in a rank."""
    (found,) = (known for known in tracebraid.plugins.detectors() if known.name == detector)
    assert isinstance(found, Detector)
    return found.detect(scene.linked() if isinstance(scene, Scene) else scene)


def saved(detector: str, scene: Scene) -> list[int]:
    return evidence(detector, scene).get_column("saving_ns").to_list()


@pytest.mark.parametrize(
    ("count", "nelems", "between", "found"),
    [
        (LEAST_COLLECTIVES, 1024, 0, 3),
        (LEAST_COLLECTIVES - 1, 1024, 0, 0),
        (10, 1024 * 1024, 0, 0),
        (10, 1024, 3, 0),
        (10, 1024, 1, 3),
    ],
)
def test_small_collectives_stand_back_to_back(count: int, nelems: int, between: int, found: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        for _ in range(count):
            host.collective(stream, 20_000, nelems=nelems)
            for _ in range(between):
                with host.op("aten::div_"):
                    host.launch(stream, "div_kernel", 2_000)

    assert evidence("small-collectives", busy(body, world_size=2)).height == found


def test_small_collectives_behind_compute_save_nothing() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        network = scene.stream(20)
        network.free = max(network.free, stream.free)
        with host.op("aten::gelu"):
            host.launch(stream, "gelu_kernel", 1_000_000)
        for _ in range(10):
            host.collective(network, 20_000)

    assert evidence("small-collectives", busy(body, world_size=2)).is_empty()


ALL_GATHER_OBJECT = "torch/distributed/distributed_c10d.py(3438): all_gather_object"


def gathered(calls: int, *frames: str) -> LinkedTrace:
    """Objects that are gathered in each step on CPUs: their sizes, then their bytes, on threads of their own."""
    scene = Scene(devices=[])
    host, backends = scene.thread(), [scene.thread("pt_gloo_runner") for _ in range(2)]
    for number in range(3):
        with host.step(number), host.frame("train.py(3): gather_metrics"):
            for _ in range(calls):
                with ExitStack() as stack:
                    for frame in frames:
                        stack.enter_context(host.frame(frame))
                    for backend, dtype, size in zip(
                        backends, ("long int", "unsigned char"), (1, 400), strict=True
                    ):
                        host.run("c10d::allgather_", 5_000, dims=[[[size]], [], [], [], [], []])
                        backend.until(host.now + 3_000)
                        with backend.annotation("gloo:all_gather", 30_000) as event:
                            event.args |= {"Input Dims": [[size]], "Input type": [dtype]}
                        host.until(backend.now)
                    host.run("aten::empty", 1_000)
    return scene.linked()


@pytest.mark.parametrize(("calls", "found"), [(6, 18), (2, 6), (1, 0)])
@pytest.mark.parametrize("frames", [(), (ALL_GATHER_OBJECT,)], ids=["no stacks", "stacks"])
def test_objects_are_gathered_as_sizes_and_bytes(calls: int, found: int, frames: tuple[str, ...]) -> None:
    rows = evidence("small-collectives", gathered(calls, *frames))
    assert rows.height == found
    if found:
        assert set(rows.get_column("op")) == {"all_gather_object" if frames else "allgather"}
    if found and frames:
        assert set(rows.get_column("call_site")) == {"train.py(3): gather_metrics"}


@pytest.mark.parametrize(("sizes", "found"), [((1, 1, 1, 3), 0), ((1, 1, 1, 4), 3), ((1, 9), 0)])
def test_buckets_of_like_size_are_balanced(sizes: tuple[int, ...], found: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        for size in sizes:
            host.collective(stream, size * 50_000, nelems=size * 1024 * 1024)

    assert evidence("unbalanced-buckets", busy(body, world_size=2)).height == found


def test_reductions_behind_the_backward_pass_could_run_in_it() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.op("aten::cos", dims=[[4096, 4096]], sequence=scene.count("sequence")) as forward:
            host.launch(stream, "cos_kernel", 100_000)
        with host.backward("CosBackward0", forward, host), host.op("aten::sin"):
            host.launch(stream, "sin_kernel", 150_000)
        for _ in range(3):
            host.collective(stream, 100_000, nelems=1024 * 1024)

    found = evidence("hidable-communication", busy(body, world_size=2))
    assert found.get_column("saving_ns").to_list() == [100_000, 50_000] * 3


def test_what_a_backward_node_communicates_it_needs() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.op("aten::cos", dims=[[4096, 4096]], sequence=scene.count("sequence")) as forward:
            host.launch(stream, "cos_kernel", 100_000)
        with host.backward("CopyToRegionBackward", forward, host):
            host.collective(stream, 100_000, nelems=1024 * 1024)
            with host.op("aten::sin"):
                host.launch(stream, "sin_kernel", 150_000)

    assert evidence("hidable-communication", busy(body, world_size=2)).is_empty()


def linked(job: PlannedJob, missing: tuple[int, ...] = ()) -> LinkedRanks:
    return link_ranks(
        job.parts(
            missing,
            gathers=sorted({gather for detector in job_detectors() for gather in detector.gathers}, key=repr),
        )
    )


def even(job: PlannedJob, number: int) -> None:
    with job.step(number):
        job.compute(100_000)
        job.collective(nelems=1024 * 1024)


@pytest.mark.slow
def test_balanced_ranks_have_no_imbalance() -> None:
    job = PlannedJob(4)
    for number in range(1, 4):
        even(job, number)
    ranks = linked(job)
    assert all(detector.detect(ranks).is_empty() for detector in job_detectors())


@pytest.mark.slow
def test_ranks_that_are_late_for_another_reason_compute_no_more() -> None:
    job = PlannedJob(4)
    with job.step(1):
        job.compute(100_000)
        job.compute(10_000_000, ranks=[3], name="copy")
        job.collective()
    with job.step(2):
        job.compute(1_000_000)
        job.threads[3].until(job.scenes[3].stream(7).free + 5_000_000)
        job.collective()
    found = rank_imbalance(linked(job))
    assert set(found.get_column("step").to_list()) == {"ProfilerStep#1"}


def late_job(cause: Cause, ns: int) -> pl.DataFrame:
    """Time of ranks of which one is late in a step, without the others."""
    job = PlannedJob(4)
    for number in (1, 2):
        with job.step(number):
            job.compute(1_000_000)
            if number == 2:
                job.delay(3, cause, ns)
            job.collective()
    return late_for_another_reason(linked(job))


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (Cause.SLEEP, "its host is in nothing that is recorded"),
        (Cause.DATA_LOADER, "it waits for its data"),
        (Cause.OP, "ops take longer (aten::nonzero)"),
    ],
)
def test_a_rank_that_is_late_is_named_with_what_makes_it_late(cause: Cause, why: str) -> None:
    (found,) = late_job(cause, 5_000_000).rows(named=True)
    assert (found["rank"], found["step"]) == (3, "ProfilerStep#2")
    assert found["subject"].startswith(f"rank 3 is late: {why}")
    assert found["saving_ns"] == pytest.approx(5_000_000, rel=0.05)
    assert found["end_ns"] - found["start_ns"] == found["saving_ns"]


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize(("cause", "ns"), [(Cause.KERNEL, 5_000_000), (Cause.SLEEP, LEAST_LATE_NS // 2)])
def test_computing_more_and_little_waiting_are_no_late_rank(cause: Cause, ns: int) -> None:
    assert late_job(cause, ns).is_empty()


def test_a_recording_that_begins_later_makes_no_rank_late() -> None:
    job = PlannedJob(2, windows={1: (2, 9)})
    for number in range(1, 4):
        even(job, number)
    ranks = linked(job)
    assert late_for_another_reason(ranks).is_empty()
    assert rank_imbalance(ranks).is_empty()


def test_an_imbalance_saves_what_the_busiest_is_above_the_mean() -> None:
    job = PlannedJob(4)
    with job.step(1):
        job.compute(100_000, name="gemm")
        job.compute(400_000, ranks=[2], name="gemm")
        job.collective()
    (found,) = rank_imbalance(linked(job)).rows(named=True)
    assert found["rank"] == 2
    assert found["saving_ns"] == pytest.approx(300_000, rel=0.05)
    assert found["subject"] == "rank 2 is late: its kernels take longer (gemm)"


def test_ranks_that_take_turns_to_compute_more_are_no_imbalance() -> None:
    job = PlannedJob(2)
    for number in range(1, 5):
        with job.step(number):
            job.compute(1_000_000, name="gemm")
            job.compute(300_000, ranks=[number % 2], name="gemm")
            job.collective()
    assert rank_imbalance(linked(job)).is_empty()


@pytest.mark.parametrize(("more_ns", "is_uneven"), [(300_000, False), (1_000_000, True)])
def test_equal_work_may_take_some_ranks_a_little_longer(more_ns: int, is_uneven: bool) -> None:
    job = PlannedJob(2)
    with job.step(1):
        job.compute(10_000_000, name="gemm")
        job.compute(more_ns, ranks=[1], name="gemm")
        job.collective()
    assert rank_imbalance(linked(job)).is_empty() != is_uneven


@pytest.mark.slow
def test_missing_ranks_and_no_collectives_give_no_error() -> None:
    job = PlannedJob(4)
    even(job, 1)
    for detector in job_detectors():
        assert detector.detect(linked(job, missing=(1, 2, 3))).is_empty()
    alone = PlannedJob(2)
    with alone.step(1):
        alone.compute(1_000)
    assert rank_imbalance(linked(alone)).is_empty()
    assert stage_imbalance(linked(alone)).is_empty()


def test_ranks_without_devices_are_compared_by_their_ops() -> None:
    job = PlannedJob(2, devices=())
    with job.step(1):
        job.compute(1_000_000)
        job.compute(4_000_000, ranks=[1])
        job.collective()
    found = rank_imbalance(linked(job))
    assert found.get_column("rank").to_list() == [1]
    assert found.item(0, "saving_ns") == pytest.approx(2_000_000, rel=0.02)


def pipeline(stages: list[int], microbatches: int, neighbours: str = "line") -> PlannedJob:
    """A step forward and backward through stages that compute so long for a microbatch, in each direction."""
    job = PlannedJob(len(stages))
    last = len(stages) - 1
    with job.step(1):
        for order in (list(range(last + 1)), list(range(last, -1, -1))):
            for _ in range(microbatches):
                for rank in order:
                    job.compute(stages[rank] // microbatches, ranks=[rank])
                    if rank != order[-1]:
                        job.send(rank, rank + (1 if order[0] == 0 else -1), transfer=1_000)
                if neighbours == "ring":
                    job.send(order[-1], order[0], transfer=1_000)
    return job


MS = 1_000_000
PIPELINES = {
    # Stages, microbatches; what equal stages save of the step, and four microbatches for each stage.
    "a microbatch alone passes one stage after another": ([2 * MS, MS], 1, "line", 0, 2 * MS * 7 // 8),
    "equal stages": ([MS, MS], 2, "line", 0, 2 * MS * 3 // 8),
    "as many microbatches as are enough": ([2 * MS, MS], 8, "line", MS * 7 // 8, 0),
    "three stages": ([MS, 4 * MS, MS], 4, "line", 2 * 2 * MS * 3 // 4, 2 * 2 * MS * 2 // 12),
    "ranks in a ring are no stages in line": ([MS, MS, MS], 1, "ring", 0, 0),
}


@pytest.mark.parametrize(
    ("stages", "microbatches", "neighbours", "by_balance", "by_more"), PIPELINES.values(), ids=PIPELINES
)
def test_stages_save_what_the_other_schedule_takes_less(
    stages: list[int], microbatches: int, neighbours: str, by_balance: int, by_more: int
) -> None:
    job = linked(pipeline(stages, microbatches, neighbours))
    for detector, expected in ((stage_imbalance, by_balance), (few_microbatches, by_more)):
        found = detector(job)
        most = max(found.group_by("rank").agg(pl.col("saving_ns").sum()).get_column("saving_ns"), default=0)
        assert most == pytest.approx(expected, rel=0.05, abs=1000), detector.__name__


amounts = st.lists(st.integers(0, 50), max_size=6)


def test_work_behind_the_last_hides_it_and_what_is_left_the_others() -> None:
    found = hidden_most(np.array([80, 80, 80, 80]), np.array([300, 200, 100, 0]))
    assert found.tolist() == [80, 80, 80, 0]
    assert hidden_most(np.array([100, 100]), np.array([120, 120])).sum() == 120
    assert hidden_most(np.array([], dtype=np.int64), np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.full
@settings(deadline=None, derandomize=True)
@given(exposed=amounts, more=amounts)
def test_it_is_the_most_that_no_suffix_forbids(exposed: list[int], more: list[int]) -> None:
    count = min(len(exposed), len(more))
    spent = np.array(exposed[:count], dtype=np.int64)
    there = np.cumsum(np.array(more[:count], dtype=np.int64)[::-1])[::-1]
    found = hidden_most(spent, there)
    assert ((found >= 0) & (found <= spent)).all()
    left, total = 0, 0
    for row in reversed(range(count)):
        left = int(there[row]) - total
        total += min(int(spent[row]), left)
        assert found[row:].sum() <= there[row]
    assert found.sum() == total


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
    assert evidence("tiny-products", scene).height == runs


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
    scene, host = host_scene(devices=())
    with host.step(1):
        for _ in range(LEAST_PRODUCTS):
            host.run("aten::mm", 5_000, dims=[[8, 8], [8, 8]], types=["float"] * 2)
            for name in between:
                host.run(name, 1_000, dims=[[8, 8]], types=["float"])
            host.spend(gap_ns)
    found = evidence("tiny-products", scene)
    assert found.height == runs
    if runs:
        assert found.item(0, "saving_ns") >= (LEAST_PRODUCTS - 1) * 5_000


def test_large_products_are_not_tiny() -> None:
    scene = busy(lambda scene, host, stream: product(scene, 20, "gemm", 1024))
    assert evidence("tiny-products", scene).is_empty()


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
    savings = evidence("full-precision-products", scene).get_column("saving_ns").to_list()
    assert savings == ([pytest.approx(_SGEMM_NS - 2 * _FLOPS / peak * 1e9, abs=2)] * 3 if peak else [])


def test_products_in_several_kernels_save_all_but_the_least_time_of_the_product() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.op("aten::mm", dims=[[2048, 2048], [2048, 2048]], types=["float"] * 2):
            for _ in range(4):
                host.launch(stream, "ampere_sgemm_128x64_tn", _SGEMM_NS)

    savings = evidence("full-precision-products", busy(body)).get_column("saving_ns")
    assert len(savings) == 12
    assert savings.sum() == pytest.approx(3 * (4 * _SGEMM_NS - 2 * _FLOPS / 312e12 * 1e9), abs=12)


@pytest.mark.parametrize(
    ("op", "size", "left"),
    [("aten::mm", 16, LATENCY_NS), ("aten::cudnn_convolution", 2048, 30_000 * 2 * 19.5 / 312)],
    ids=["the shortest kernel", "half of the ratio of the peaks"],
)
def test_so_much_remains_in_lower_precision(op: str, size: int, left: float) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.op(op, dims=[[size, size], [size, size]], types=["float"] * 2):
            host.launch(stream, "ampere_scudnn_winograd_128x128_ldg1_ldg4_tile148t_nt", 30_000)

    savings = evidence("full-precision-products", busy(body)).get_column("saving_ns").to_list()
    assert savings == [pytest.approx(30_000 - left, abs=1)] * 3


def test_an_unknown_device_has_no_advice_on_precision() -> None:
    unknown = {**A100, "name": "NVIDIA Z9000"}
    scene = busy(
        lambda scene, host, stream: product(scene, 1, "ampere_sgemm_128x64_tn", 2048), devices=(unknown,)
    )
    assert evidence("full-precision-products", scene).is_empty()


def test_work_that_other_compute_hides_saves_nothing() -> None:
    def body(scene: Scene) -> None:
        scene.stream(9).run("other_kernel", 5_000_000, scene.stream(7).free)
        product(scene, 1, "ampere_sgemm_128x64_tn", 2048)

    scene = busy(lambda scene, host, stream: body(scene))
    assert evidence("full-precision-products", scene).is_empty()


def test_a_softmax_over_classes_is_no_attention() -> None:
    def body(scene: Scene) -> None:
        host, stream = scene.threads[0], scene.stream(7)
        product(scene, 1, "gemm", 512)
        with host.op("aten::_softmax", dims=[[512, 512], [], []], types=["float", "Scalar", "Scalar"]):
            host.launch(stream, "softmax", 30_000)
        product(scene, 1, "gemm", 512)

    scene = busy(lambda scene, host, stream: body(scene))
    assert evidence("eager-attention", scene).is_empty()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "said", "unsaid"),
    [
        (V100, ("float16", "GradScaler"), ("bfloat16", "TF32")),
        (A100, ("bfloat16", "TF32"), ("GradScaler",)),
        (MI300X, ("bfloat16",), ("GradScaler",)),
    ],
    ids=["V100", "A100", "MI300X"],
)
def test_the_change_is_one_that_the_device_can_carry_out(
    device: Json, said: tuple[str, ...], unsaid: tuple[str, ...]
) -> None:
    advice = tracebraid.advise(busy(lambda *_: None, (device,)).linked(), 0.0)
    change = advice.change_of("full-precision-products")
    assert all(word in change for word in said)
    assert not any(word in change for word in unsaid)


HALF = "c10::BFloat16"


def some_ops(host: Thread, stream: Stream, count: int) -> None:
    for _ in range(count):
        with host.op("aten::pow", dims=[[512, 512], []]):
            host.launch(stream, "pow_kernel", 10_000)


@pytest.mark.parametrize(("between", "pairs"), [(0, 3), (1, 3), (2, 0), (5, 0)])
def test_a_norm_in_fp32_is_no_bounce(between: int, pairs: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        cast(host, stream, HALF, "float", 20_000)
        some_ops(host, stream, between)
        cast(host, stream, "float", HALF, 20_000)

    assert evidence("dtype-bounces", busy(body)).height == pairs


def test_of_three_casts_two_are_a_pair() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        for types in ((HALF, "float"), ("float", HALF), (HALF, "float")):
            cast(host, stream, *types, 20_000)

    assert saved("dtype-bounces", busy(body)) == [40_000] * 3


@pytest.mark.parametrize(
    ("between", "apart_ns", "pairs"),
    [
        (0, 0, 1),
        (1, 0, 1),
        (2, 0, 0),
        pytest.param(0, HOST_STALL_NS // 2, 1, id="hooks and another program in between"),
        pytest.param(0, HOST_STALL_NS, 0, id="another part of the program"),
    ],
)
def test_casts_of_the_host_alone_are_found_too(between: int, apart_ns: int, pairs: int) -> None:
    scene, host = host_scene(devices=())

    def cast_on_host(source: str, target: str) -> None:
        with host.op("aten::_to_copy"):
            host.run(
                "aten::copy_", 30_000, dims=[[512, 512], [512, 512], []], types=[target, source, "Scalar"]
            )

    cast_on_host(HALF, "float")
    for _ in range(between):
        host.run("aten::mm", 5_000_000, dims=[[512, 512], [512, 512]])
    host.spend(apart_ns)
    cast_on_host("float", HALF)
    found = evidence("dtype-bounces", scene)
    assert found.get_column("saving_ns").to_list() == [60_000] * pairs


@pytest.mark.parametrize(
    ("around", "target", "source", "found"),
    [
        ("aten::contiguous", [1024, 1], [1, 512], 3),
        ("aten::clone", [1024, 1], [1, 512], 3),
        ("aten::clone", [1024, 1], [1024, 1], 0),
        ("aten::index_put_", [2048, 1], [1024, 1], 0),
    ],
)
def test_a_layout_copy_changes_strides(around: str, target: list[int], source: list[int], found: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        dims = [[512, 1024], [512, 1024], []]
        with host.op(around), host.op("aten::copy_", dims=dims, strides=[target, source, []]):
            host.launch(stream, "copy_kernel", 10_000)

    assert evidence("layout-copies", busy(body)).height == found


@pytest.mark.parametrize(
    ("name", "count", "found"),
    [
        ("aten::mul_", LEAST_RUNS, 3),
        ("aten::mul_", LEAST_RUNS - 1, 0),
        ("aten::_foreach_mul_", LEAST_RUNS, 0),
        ("aten::mm", LEAST_RUNS, 0),
    ],
)
def test_only_many_elementwise_ops_are_an_unfused_optimizer(name: str, count: int, found: int) -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.annotation("Optimizer.step#SGD.step"):
            for _ in range(count):
                with host.op(name):
                    host.launch(stream, "kernel", 5_000)

    assert evidence("unfused-optimizer", busy(body)).height == found


def test_ops_of_a_foreach_op_are_not_the_optimizers_own() -> None:
    scene, host = host_scene(devices=())
    with host.annotation("Optimizer.step#SGD.step"), host.op("aten::_foreach_mul_"):
        for _ in range(2 * LEAST_RUNS):
            host.run("aten::mul_", 5_000)
    assert evidence("unfused-optimizer", scene).is_empty()


def test_an_optimizer_on_the_host_costs_host_time() -> None:
    scene, host = host_scene(devices=())
    with host.annotation("Optimizer.step#SGD.step"):
        for _ in range(20):
            host.run("aten::mul_", 5_000)
            host.run("aten::add_", 4_000)
    found = evidence("unfused-optimizer", scene)
    assert found.get_column("saving_ns").to_list() == [20 * 9_000 - 20 * 3_000]


def test_recomputation_pays_where_memory_is_short() -> None:
    pattern = PATTERNS["costly-recomputation"]
    scene = pattern.scenes[0]
    assert evidence("costly-recomputation", scene).height == 3
    full = pattern.scenes[0]
    host = full.threads[0]
    host.release(host.allocate(int(H100["totalGlobalMem"] * 0.95)))
    assert evidence("costly-recomputation", full).is_empty()


def test_an_activation_that_is_not_fetched_again_is_not_stored() -> None:
    def body(scene: Scene, host: Thread, stream: Stream) -> None:
        with host.op("aten::cos", dims=[[1024, 1024]], sequence=scene.count("sequence")) as forward:
            host.launch(stream, "cos_kernel", 100_000)
        host.copy(stream, Copy.DEVICE_TO_PINNED, 4 * 1024 * 1024, 50_000)
        with host.backward("CosBackward0", forward, host), host.op("aten::sin", dims=[[1024, 1024]]):
            host.launch(stream, "sin_kernel", 100_000)

    assert evidence("stored-activations", busy(body)).is_empty()
