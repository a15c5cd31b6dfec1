"""Synthetic jobs take as many cycles as ASTRA-sim counts: in its own run where there is one, and in ours."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import tracebraid
from tests.unit.chakra.generating.astra_sim_runs import RECORDED, network_of, simulated
from tests.unit.chakra.generating.synthetic import small_jobs

JOBS = small_jobs()
CYCLES: dict[str, list[int]] = json.loads(RECORDED.read_text())


def test_every_job_is_recorded() -> None:
    assert list(CYCLES) == list(JOBS)
    assert CYCLES["golden"] == [193_000] * 4


@pytest.mark.parametrize("name", sorted(JOBS))
def test_our_run_agrees_with_astra_sim(name: str, tmp_path: Path) -> None:
    done = tracebraid.generate_chakra(JOBS[name], tmp_path / "job")
    ranks = tracebraid.run_chakra(done.path, network_of(JOBS[name])).ranks.sort("rank")
    assert ranks.get_column("end_ns").to_list() == CYCLES[name]


@pytest.mark.parametrize("name", ["golden", "ring-all-reduce_5", "all_sharded_16", "three_64"])
def test_the_check_finds_nothing(name: str, tmp_path: Path) -> None:
    done = tracebraid.generate_chakra(JOBS[name], tmp_path / "job")
    found = tracebraid.check_chakra(done.path)
    assert len(found.ranks) == JOBS[name].ranks
    assert found.findings == ()


@pytest.mark.skipif("ASTRA_SIM" not in os.environ, reason="needs ASTRA-sim, whose binary ASTRA_SIM names")
@pytest.mark.parametrize("name", sorted(JOBS))
def test_astra_sim_runs_it_to_the_end(name: str, tmp_path: Path) -> None:
    assert simulated(JOBS[name], tmp_path / "job") == CYCLES[name]
