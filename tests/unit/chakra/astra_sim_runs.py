"""Synthetic jobs on ASTRA-sim: how they are run, and what it said of them.

Record anew, where the environment variable ASTRA_SIM names the binary::

    python -m tests.unit.chakra.astra_sim_runs
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path

import tracebraid
from tests.planted.synthetic import small_jobs
from tracebraid.chakra import Network, SimulatorOptions
from tracebraid.chakra.exporting.astra_sim import RUN_SCRIPT, SimulatorTraces, write_simulator_files
from tracebraid.chakra.generating.generate import comm_groups
from tracebraid.chakra.generating.workloads import Workload
from tracebraid.chakra.running.network import network_of_text

RECORDED = Path(__file__).with_name("astra_sim_cycles.json")
"""Of each job the cycles of each rank, as ASTRA-sim of commit 518bd51 (2026-03-25) counts them."""

_FINISHED = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles")


def network_of(job: Workload) -> Network:
    """A ring; for a job with groups two, since ASTRA-sim may crash at its end on a single one."""
    if not comm_groups(job):
        return network_of_text("ring,50GiB/s,500ns")
    return network_of_text(f"ring:{job.ranks // 2},50GiB/s,500ns+ring:2,50GiB/s,500ns")


def simulated(job: Workload, folder: Path) -> list[int]:
    """The cycles of each rank on ASTRA-sim, which must run all of them to the end."""
    tracebraid.chakra.generate(job, folder)
    groups = "comm_groups.json" if comm_groups(job) else None
    traces = SimulatorTraces(job.ranks, "job", groups)
    write_simulator_files(folder, traces, SimulatorOptions(network_of(job)))
    done = subprocess.run([folder / RUN_SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = (folder / "astra_sim.txt").read_text()
    assert "[critical]" not in text
    cycles = {int(rank): int(count) for rank, count in _FINISHED.findall(text)}
    return [cycles[rank] for rank in range(job.ranks)]


def main() -> None:
    """Record the cycles of all jobs."""
    with tempfile.TemporaryDirectory() as folder:
        found = {name: simulated(job, Path(folder) / name) for name, job in small_jobs().items()}
    lines = ",\n".join(f'"{name}": {json.dumps(cycles)}' for name, cycles in found.items())
    RECORDED.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
