"""Jobs with planted stragglers, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from tests.planted import A100, Cause, Host, PlannedJob
from tracebraid.analysis.ranks.rank_steps import steps_of_rank
from tracebraid.analysis.ranks.segments import rank_segments
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.answers.job import LateCause
from tracebraid.model.linked_ranks import LinkedRanks

LATE_NS = 400_000
HOSTS = (Host("a"), Host("b", ahead_ns=3 * 10**9, drift_ppm=15.0))
KINDS = {"nccl": (A100,), "gloo": ()}

CAUSES = {
    ("nccl", Cause.KERNEL): LateCause.LONGER_KERNEL,
    ("gloo", Cause.KERNEL): LateCause.LONGER_HOST_OP,
    **{(kind, Cause.OP): LateCause.LONGER_HOST_OP for kind in KINDS},
    **{(kind, Cause.SLEEP): LateCause.HOST_WITHOUT_EVENTS for kind in KINDS},
    **{(kind, Cause.DATA_LOADER): LateCause.DATA_LOADER for kind in KINDS},
}
"""The answer to each planted cause; without a device a matmul is an op of the host."""


def data_parallel(
    world_size: int,
    kind: str = "nccl",
    steps: int = 10,
    delays: Mapping[int, tuple[int, Cause]] | Callable[[int], tuple[int, Cause] | None] | None = None,
    jitter_ns: int = 4_000,
    hosts: Sequence[Host] = HOSTS,
) -> PlannedJob:
    """Steps of two matmuls, each with an all-reduce after it; all ranks' matmuls vary a little.

    Args:
        world_size: the number of ranks.
        kind: `nccl` or `gloo`.
        steps: their number.
        delays: rank and cause of `LATE_NS` before the second all-reduce of a step, by its number.
        jitter_ns: standard deviation of the matmuls.
        hosts: as of `PlannedJob`.
    """
    random = np.random.default_rng(world_size * 100 + steps)
    job = PlannedJob(world_size, hosts=hosts, devices=KINDS[kind])
    find = delays if callable(delays) else (delays or {}).get
    for step in range(1, steps + 1):
        with job.step(step):
            for number in range(2):
                for rank in range(world_size):
                    job.compute(100_000 + int(abs(random.normal()) * jitter_ns), [rank])
                late = find(step)
                if number == 1 and late is not None:
                    job.delay(*late, LATE_NS)
                job.collective(transfer=50_000)
    return job


def ranks_of(job: PlannedJob) -> LinkedRanks:
    """The linked ranks, with what the analyses of ranks gather."""
    return link_ranks(job.parts(gathers=(rank_segments, steps_of_rank)))


def planted(job: PlannedJob) -> pl.DataFrame:
    """The planted late arrivals: step and rank."""
    return pl.DataFrame(
        [(found.step, rank) for found in job.collectives for rank in found.causes],
        schema={"step": pl.String, "rank": pl.Int64},
        orient="row",
    )
