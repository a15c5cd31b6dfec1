"""ASTRA-sim on ranks of Chakra nodes: its cycle counts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tracebraid.chakra.wire.writing import write_rank
from tracebraid.exporters.chakra.astra_sim import (
    RUN_SCRIPT,
    SimulatorOptions,
    SimulatorTraces,
    write_simulator_files,
)
from tracebraid.model.chakra.chakra_rank import ChakraRank

__all__ = ["BINARY", "Cycles", "astra_sim"]

BINARY = "ASTRA_SIM"
"""The environment variable that names the binary."""
_FINISHED = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication (\d+) cycles")
_TIMEOUT_S = 300

Cycles = list[tuple[int, int]]
"""Of each rank the cycle in which it ended, and its exposed communication."""


def astra_sim(
    ranks: Sequence[ChakraRank], groups: Mapping[str, Sequence[int]], options: SimulatorOptions
) -> Cycles | None:
    """Run ASTRA-sim.

    Args:
        ranks: what runs.
        groups: the process groups.
        options: on what.

    Returns:
        The cycle counts; None where not all ranks finished.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, rank in enumerate(ranks):
            write_rank(folder / f"job.{number}.et", rank)
        (folder / "comm_groups.json").write_text(json.dumps(groups))
        traces = SimulatorTraces(len(ranks), "job", "comm_groups.json" if groups else None)
        write_simulator_files(folder, traces, options)
        done = subprocess.run(
            [f"./{RUN_SCRIPT}"],
            cwd=folder,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
            env=os.environ,
        )
        text = (folder / "astra_sim.txt").read_text(errors="replace")
    found = {int(rank): (int(cycles), int(exposed)) for rank, cycles, exposed in _FINISHED.findall(text)}
    if done.returncode != 0 or len(found) != len(ranks):
        return None
    return [found[number] for number in range(len(ranks))]
