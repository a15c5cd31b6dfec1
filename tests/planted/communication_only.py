"""The communication of a plan as `.et` files without anything else, and ASTRA-sim's run of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import polars as pl

from tracebraid import chakra
from tracebraid.chakra import ChakraRank, NodeDeps, SimulatorOptions
from tracebraid.chakra.exporting.astra_sim import SimulatorTraces, write_simulator_files
from tracebraid.chakra.plan.world import JobPlan
from tracebraid.chakra.schema import CHAKRA_NODES


def write_communication(plan: JobPlan, folder: Path) -> None:
    """The communication of each rank, one after the other in its order, with the files of ASTRA-sim."""
    for rank in plan.ranks:
        rows = plan.communication_of(rank.rank).sort("order")
        node = np.arange(rows.height)
        nodes = rows.with_columns(
            node_id=pl.Series(node),
            name=pl.col("collective"),
            duration_micros=pl.col("transfer_ns") // 1000,
            is_cpu_op=pl.lit(value=False),
        )
        deps = NodeDeps.of_pairs(node[:-1], node[1:], node)
        frame = CHAKRA_NODES.conform(nodes, fill_missing=True)
        found = ChakraRank(rank.rank, "0.0.4", plan.attributes(), frame, deps, NodeDeps.none(len(node)))
        chakra.write(folder / f"trace.{rank.rank}.et", found)
    groups = plan.comm_groups()
    (folder / "comm_groups.json").write_text(json.dumps(groups))
    traces = SimulatorTraces(len(plan.ranks), "trace", "comm_groups.json" if groups else None)
    write_simulator_files(folder, traces, SimulatorOptions())


def astra_sim_run(folder: Path) -> subprocess.CompletedProcess[str]:
    """ASTRA-sim's run; the exit code is 0 only where all ranks finished."""
    return subprocess.run(
        [folder / "run.sh"], capture_output=True, text=True, timeout=300, env={**os.environ}
    )
