"""Random jobs, whose ranks come at different times, take the cycles that ASTRA-sim counts on each rank."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.astra_sim import BINARY, Cycles, astra_sim
from tests.chakra_jobs import random_job
from tests.chakra_ranks import rank_of
from tracebraid.exporters.chakra.astra_sim import SimulatorOptions
from tracebraid.model.chakra.network import CollectiveSettings, Dimension, Lanes, Network, Topology
from tracebraid.simulation.chakra.meetings import Groups
from tracebraid.simulation.chakra.run_ranks import run_ranks

TOPOLOGIES = (Topology.RING, Topology.SWITCH, Topology.FULLY_CONNECTED)
LIVE = 6
"""Jobs that are run on ASTRA-sim itself, where there is one."""


def network(seed: int) -> Network:
    return Network("", (Dimension(TOPOLOGIES[seed % len(TOPOLOGIES)], 50 * 2**30 / 1e9, 500.0),))


def ours(seed: int) -> Cycles:
    job = random_job(seed)
    ranks = [(f"job.{number}.et", rank_of(number, nodes)) for number, nodes in enumerate(job.ranks)]
    found = run_ranks(ranks, Groups("", job.groups), [network(seed)], CollectiveSettings(), Lanes.ASTRA_SIM)
    assert found.is_finished
    return found.ranks.select("end_ns", "not_computing_ns").rows()


def test_random_jobs_take_the_recorded_cycles() -> None:
    recorded = json.loads(Path(__file__).with_name("astra_sim_jobs.json").read_text())
    assert len(recorded) == 24
    for seed, cycles in recorded.items():
        assert ours(int(seed)) == [tuple(pair) for pair in cycles], seed


@pytest.mark.skipif(BINARY not in os.environ, reason=f"{BINARY} names no ASTRA-sim")
@pytest.mark.parametrize("seed", range(100, 100 + LIVE))
def test_random_jobs_take_the_cycles_of_astra_sim(seed: int) -> None:
    job = random_job(seed)
    ranks = [rank_of(number, nodes) for number, nodes in enumerate(job.ranks)]
    assert ours(seed) == astra_sim(ranks, job.groups, SimulatorOptions(network(seed)))
