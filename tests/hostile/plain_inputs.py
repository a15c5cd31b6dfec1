"""A small job of two ranks as all that commands read: its traces, linked traces, and simulators' nodes."""

from __future__ import annotations

from pathlib import Path

import tracebraid
from tests.builders import et_text, write
from tests.planted import PlannedJob
from tests.planted.nodes import nodes_of


def write_job(folder: Path) -> Path:
    """Write the pairs of two ranks: a few ops and a collective in each of two steps."""
    folder.mkdir()
    job = PlannedJob(2)
    for number in (1, 2):
        with job.step(number):
            job.compute(10_000)
            job.collective("allreduce")
    for scene in job.finished():
        scene.write(folder)
        nodes = et_text(nodes_of(scene)).replace('"pid": 1,', f'"pid": {scene.pid},', 1)
        write(folder / f"torch_et_{scene.rank}.json", nodes)
    return folder


def plain_inputs(root: Path) -> dict[str, Path]:
    """The inputs that forms of commands name."""
    folder = write_job(root / "job")
    job = tracebraid.open(folder)
    plus = root / "et_plus_0.json"
    tracebraid.write_et_plus(job[0], plus)
    tracebraid.export(job, root / "nodes", "chakra")
    pair = {"et": folder / "torch_et_0.json", "kineto": folder / "kineto_trace_0.json"}
    return {"job": folder, **pair, "plus": plus, "nodes": root / "nodes" / "job.0.et"}
