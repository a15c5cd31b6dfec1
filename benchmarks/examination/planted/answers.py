"""Rows of what was once answered wrongly that `advise` alone does not show: other questions about a planted job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tracebraid
from benchmarks.examination.planted.case import PlantedCase, declare
from benchmarks.examination.planted.devices import H100, Device
from benchmarks.examination.planted.machine import Job, Options
from benchmarks.examination.planted.ranks import buckets, join
from benchmarks.examination.planted.workloads import BF16, Plan, batch, elementwise, loop

__all__ = ["CASES"]

CASES: dict[str, PlantedCase] = {}
_UNKNOWN = Device("NVIDIA X900 Prototype", 12, 0, 200, 1 << 37, 5e12, {BF16: 1e15, "float": 1e14})


def _rank(folder: Path) -> tracebraid.LinkedTrace:
    """The trace of the only rank."""
    return tracebraid.open(folder)[0]


def _straggler(folder: Path) -> str:
    rows = tracebraid.analyses.stragglers(tracebraid.open(folder))
    if "rank" not in rows.columns:
        return f"no rank among {rows.columns}"
    return ""


@declare(
    CASES,
    "missing",
    ranks=2,
    never=(),
    check=_straggler,
    first=("host-work", "late-rank"),
    places=("rank 1",),
)
def straggler_of_three_steps(job: Job, fault: bool) -> None:
    """Rank 1 is late in three steps, too few to prove it."""

    def begin(job: Job, number: int) -> None:
        for rank in job.ranks:
            if rank.number and fault:
                with rank.main.frame("train.py(43): inputs", 12_000):
                    pass
            batch(rank.main)

    loop(job, Plan(steps=3), begin=begin, gradient=buckets, reduced=lambda job, number: join(job))


def _in_place(folder: Path) -> str:
    table = tracebraid.analyses.op_costs(_rank(folder))
    each = {row["bytes"] // row["count"] for row in table.to_dicts() if row["bytes"] is not None}
    return "" if each == {2 * 4096 * 4096 * 2} else f"bytes {each}"


@declare(CASES, "clean", check=_in_place, bound=("compute",))
def triton_in_place(job: Job, fault: bool) -> None:
    """A kernel of Triton adds to its input in place: it reads and writes it."""
    thread = job.ranks[0].main
    shape = [4096, 4096]
    for number in range(1, 6):
        with job.step(number):
            for _ in range(20):
                kernel = "triton_poi_fused_add_0"
                with thread.op(
                    kernel, 6, dims=[shape, []], types=[BF16, "Scalar"], args={"kernel_backend": "triton"}
                ):
                    thread.launch(kernel, 42)
    thread.wait("cudaDeviceSynchronize", None)


def _formulas(folder: Path) -> str:
    table = tracebraid.analyses.op_costs(_rank(folder))
    missing = [
        row["name"]
        for row in table.to_dicts()
        if "::" in row["name"]
        and not row["name"].startswith("aten::")
        and (row["flops"] or row["bytes"]) is None
    ]
    return f"neither FLOPs nor bytes of {', '.join(missing)}" if missing else ""


@declare(CASES, "clean", check=_formulas, bound=("compute",), options=Options(device=H100))
def served_by_custom_ops(job: Job, fault: bool) -> None:
    """Attention and norms of serving libraries."""
    thread = job.ranks[0].main
    query = [2048, 32, 128]
    for number in range(1, 6):
        with job.step(number):
            batch(thread)
            for _ in range(8):
                for name in ("sgl_kernel::rmsnorm", "_C::rms_norm", "_C::fused_add_rms_norm"):
                    dims = [[2048, 4096], [2048, 4096], [4096], []]
                    with thread.op(name, 6, dims=dims, types=[BF16] * 3 + ["Scalar"]):
                        thread.launch("rms_norm_kernel", 15)
                for name in ("vllm::unified_attention", "aiter::flash_attn_varlen"):
                    with thread.op(name, 8, dims=[query] * 3, types=[BF16] * 3):
                        thread.launch("flash_fwd_kernel", 120)
    thread.wait("cudaDeviceSynchronize", None)


def _asks_for_the_device(folder: Path) -> str:
    command = [sys.executable, "-m", "tracebraid", "analyze", "roofline", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    return "" if "--device" in said or "--peak-flops" in said else "does not ask for the device or its peaks"


@declare(CASES, "missing", bound=("compute",), options=Options(device=_UNKNOWN), check=_asks_for_the_device)
def device_without_known_peaks(job: Job, fault: bool) -> None:
    """A device that no table has: its roofline asks for its peaks."""
    loop(job, Plan(layers=4))


@declare(
    CASES,
    "decoy",
    bound=("compute",),
    never=("unfused-optimizer", "launch-bound"),
)
def clipped_gradients(job: Job, fault: bool) -> None:
    """Gradients are clipped by foreach ops, of which there are few."""

    def reduced(job: Job, number: int) -> None:
        thread = job.ranks[0].main
        for name in ("aten::_foreach_norm", "aten::_foreach_mul_"):
            elementwise(thread, name, (4096, 1024), us=60)

    loop(job, reduced=reduced)
