"""Sound jobs, of which each answer is known: planted ones, captures, and the demo."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import tracebraid
from benchmarks.measure import ROOT
from tests.planted.equal_steps import steps
from tests.planted.jobs import PlannedJob

Json: TypeAlias = dict[str, Any]
Ranks: TypeAlias = dict[int, Json]
"""The Kineto traces of a job by rank, as JSON."""

_CAPTURES = ROOT / "tests" / "captures"
_MS = 1_000_000


def _read(folder: Path) -> Ranks:
    found = {}
    for path in sorted(folder.glob("kineto_trace_*.json*")):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        found[int(path.name.split("_")[2].split(".")[0])] = json.loads(data)
    return found


def _planted(job: PlannedJob) -> Ranks:
    return {rank: json.loads(scene.text()) for rank, scene in enumerate(job.finished())}


def _data_parallel() -> Ranks:
    """Three ranks with gradients that are reduced behind a backward pass, of which rank 1 computes longer."""
    job = PlannedJob(3)
    for number in range(4):
        with job.step(number):
            for part in range(4):
                job.compute(_MS // 4)
                job.compute(_MS // 4, ranks=[1])
                job.collective(nelems=2**18 * (1 + part), transfer=300_000)
    return _planted(job)


def _pipeline() -> Ranks:
    """Two stages that exchange four microbatches, forward and backward."""
    job = PlannedJob(2)
    for number in range(3):
        with job.step(number):
            for first in (0, 1):
                for _ in range(4):
                    job.compute(_MS // 2, ranks=[first])
                    job.send(first, 1 - first)
                    job.compute(_MS // 2, ranks=[1 - first])
    return _planted(job)


def _one_device() -> Ranks:
    """A rank of equal steps on one device."""
    header = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}}
    device = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0}
    return {0: {**header, "deviceProperties": [device], "traceEvents": steps(5)}}


JOBS: dict[str, Callable[[], Ranks]] = {
    "one device": _one_device,
    "data parallel": _data_parallel,
    "pipeline": _pipeline,
    "captured on a GPU": lambda: _read(_CAPTURES / "gpu" / "small_layers_eager"),
    "captured with gloo": lambda: _read(_CAPTURES / "ddp4"),
    "demo": lambda: _read(tracebraid.demo_path()),
}
"""By name."""
