"""`RayEngine`: the engine that works on ranks in tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tracebraid.engine.cluster.connection import connected
from tracebraid.engine.cluster.ray_tasks import RayTasks
from tracebraid.engine.pickling import work_bytes
from tracebraid.engine.schedule import Limits, scheduled
from tracebraid.engine.share import costs_of, scaled
from tracebraid.errors import EngineError
from tracebraid.model.engine import Outcome, RankWork
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.version import __version__

__all__ = ["RayEngine"]

T = TypeVar("T")


@dataclass(frozen=True)
class RayEngine:
    """Works on as many ranks at once as the cluster has cores, and memory for.

    Args:
        address: of the cluster, as `ray.init` takes it; None: see `connected`.
    """

    address: str | None = None

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """See `Engine`. A cluster that is started for it ends with the run."""
        if not ranks:
            return
        data = work_bytes(scaled(work, 1))
        peaks_bytes = [cost.peak_bytes for cost in costs_of(work, ranks)]
        with connected(self.address) as ray:
            limits, node_bytes = _limits(ray)
            tasks = RayTasks(ray, data, peaks_bytes, node_bytes, __version__)
            yield from scheduled(ranks, peaks_bytes, tasks, limits, progress)


def _limits(ray: Any) -> tuple[Limits, int]:
    """What may be in flight on the cluster, and the memory of its smallest node.

    Raises:
        EngineError: no node can work.
    """
    nodes = [
        node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    ]
    if not nodes:
        raise EngineError("no node of the Ray cluster has a CPU for tasks; add one with ray start --num-cpus")
    memory_bytes = [int(node.get("memory", 0)) for node in nodes]
    cpus = sum(int(node["CPU"]) for node in nodes)
    return Limits(sum(memory_bytes), cpus), min(memory_bytes)
