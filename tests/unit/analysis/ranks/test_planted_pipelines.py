"""In a pipeline ranks wait by its order: that is no straggler; a stage that takes longer than others is."""

from __future__ import annotations

import polars as pl
import pytest

from tests.planted import PlannedJob
from tests.unit.analysis.ranks.planned import HOSTS, ranks_of
from tracebraid.analysis.ranks.late_arrivals import late_arrivals
from tracebraid.analysis.ranks.stragglers import stragglers
from tracebraid.model.answers import LateCause

STAGES, MICROBATCHES = 4, 6


def pipeline(slow: int | None = None, backward: bool = False) -> PlannedJob:
    """Steps of a pipeline: microbatches go forward through all stages, then back. A slow stage takes half more."""
    job = PlannedJob(STAGES, hosts=HOSTS)

    def compute(stage: int, name: str, ns: int) -> None:
        job.compute(ns * 3 // 2 if stage == slow else ns, [stage], name=name)

    for step in range(1, 9):
        with job.step(step):
            for _ in range(MICROBATCHES):
                for stage in range(STAGES):
                    compute(stage, "forward_gemm", 200_000)
                    if stage + 1 < STAGES:
                        job.send(stage, stage + 1)
            for _ in range(MICROBATCHES if backward else 0):
                for stage in reversed(range(STAGES)):
                    compute(stage, "backward_gemm", 400_000)
                    if stage > 0:
                        job.send(stage, stage - 1)
    return job


@pytest.mark.parametrize("backward", [False, True])
def test_a_balanced_pipeline_has_no_straggler(backward: bool) -> None:
    ranks = ranks_of(pipeline(backward=backward))
    late = late_arrivals(ranks)
    assert late.height > 0
    assert set(late.get_column("cause")) <= {
        cause.value for cause in (LateCause.PIPELINE_ORDER, LateCause.INHERITED, LateCause.BEFORE_RECORDING)
    }
    assert stragglers(ranks).is_empty()


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("slow", range(STAGES))
def test_a_slow_stage_is_found(slow: int, backward: bool) -> None:
    answer = stragglers(ranks_of(pipeline(slow, backward)))
    first = answer.filter(pl.col("systematic")).select("rank", "cause").rows()
    assert first == [(slow, LateCause.LONGER_KERNEL.value)]
