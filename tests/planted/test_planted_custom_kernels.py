"""All-reduce kernels that are no library's collectives: vLLM's, PyTorch's symmetric memory. Waits are as planted."""

from __future__ import annotations

import polars as pl
import pytest

from tests.planted import PlannedJob
from tracebraid.analysis.collectives.transfers import collective_ranks
from tracebraid.linking.ranks.clocks import link_ranks

NETWORK_NS = 20_000
KERNELS = {
    "_C_custom_ar::all_reduce": "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 2>(vllm::RankData*, int)",
    "symm_mem::multimem_all_reduce_": (
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)"
    ),
}


def reduce(job: PlannedJob, op: str) -> list[int]:
    """A reduction of all ranks; gives the waits that it has."""
    kernels, streams = [], []
    for scene, thread in zip(job.scenes, job.threads, strict=True):
        streams.append(scene.stream(7))
        with thread.op(op, dims=[[1024]]):
            kernels.append(thread.launch(streams[-1], KERNELS[op], NETWORK_NS))
    last = max(kernel.ts for kernel in kernels)
    for kernel, stream in zip(kernels, streams, strict=True):
        kernel.dur = last + NETWORK_NS - kernel.ts
        stream.free = kernel.ts + kernel.dur
    return [last - kernel.ts for kernel in kernels]


@pytest.mark.parametrize("op", KERNELS)
def test_the_ranks_of_a_kernel_wait_as_planted(op: str) -> None:
    job = PlannedJob(2)
    waits = []
    for number in range(1, 9):
        with job.step(number):
            for _ in range(3):
                job.compute(100_000 + 7_000 * number)
                job.compute(50_000 + 11_000 * number, [number % 2])
                waits += reduce(job, op)
    linked = link_ranks(job.parts())
    members = linked.members
    assert members.height == 48
    assert members.get_column("collective").null_count() == 0
    assert linked.collectives.get_column("ranks").to_list() == [[0, 1]] * 24
    found = collective_ranks(linked).sort("collective", "rank")
    assert found.get_column("waiting_ns").to_list() == waits
    assert found.get_column("arrival_ns").sort().equals(members.get_column("start_ns").sort())
    assert (found.filter(pl.col("waiting_ns") == 0).get_column("transfer_ns") == NETWORK_NS).all()
