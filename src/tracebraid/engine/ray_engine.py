"""`RayEngine`: the engine that works on ranks in tasks of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field

from tracebraid.child_process.worker import working_folder
from tracebraid.engine import ray_node
from tracebraid.engine.automatic import Limits, costs_of, scheduled
from tracebraid.engine.pickling import event_of, work_bytes
from tracebraid.engine.ray_connection import connected
from tracebraid.engine.workers import Event, Failed, Lost, Raised
from tracebraid.errors import EngineError
from tracebraid.model.engine import Outcome, RankWork
from tracebraid.model.rank_files import Progress, RankFiles
from tracebraid.version import __version__

T = TypeVar("T")

_CHECK_EVERY_S = 5.0
"""Interval of checks that an idle cluster still has a working node."""
_GRACE_S = 1.0
"""Time for tasks to end and remove their unfinished files before they are killed."""


class RayEngine(Struct, frozen=True):
    """Engine that runs as many ranks at once as the cluster has cores and memory for.

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
        data = work_bytes(work)
        peaks_bytes = [cost.peak_bytes for cost in costs_of(work, ranks)]
        with connected(self.address) as ray:
            limits, node_bytes = _limits(ray)
            tasks = RayTasks(ray, data, peaks_bytes, node_bytes, __version__)
            yield from scheduled(ranks, peaks_bytes, tasks, limits, progress)


def _limits(ray: Any) -> tuple[Limits, int]:
    """Return the limits of work in flight on the cluster, and the memory of its smallest node."""
    nodes = [
        node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    ]
    if not nodes:
        raise EngineError("no node of the Ray cluster has a CPU for tasks; add one with ray start --num-cpus")
    memory_bytes = [int(node.get("memory", 0)) for node in nodes]
    cpus = sum(int(node["CPU"]) for node in nodes)
    return Limits(sum(memory_bytes), cpus), min(memory_bytes)


class RayTasks(Struct):
    """Tasks of a cluster, each with a core and the expected memory of its rank.

    Args:
        ray: the library, connected.
        work: the work on a rank, as `work_bytes` has it.
        peaks_bytes: the memory that the work on each rank takes, as estimated.
        node_bytes: the memory of the smallest node: a task that requests more would wait forever.
        version: that of Tracebraid.
    """

    ray: Any
    work: bytes
    peaks_bytes: Sequence[int]
    node_bytes: int
    version: str
    in_flight: dict[Any, int] = field(default_factory=dict)
    """The numbers of ranks by the references to what will come of them."""
    tries: dict[int, int] = field(default_factory=dict)
    _work_ref: Any = None
    _function: Any = None

    def submit(self, number: int, files: RankFiles) -> None:
        """See `Workers`. After each loss, mostly out of memory, a rank requests twice as much."""
        if self._function is None:
            # By value: a node without our code can then say so.
            self.ray.cloudpickle.register_pickle_by_value(ray_node)
            self._function = self.ray.remote(ray_node.run_task)
            self._work_ref = self.ray.put(self.work)
        tries = self.tries[number] = self.tries.get(number, 0) + 1
        task = self._function.options(
            num_cpus=1,
            memory=min(self.peaks_bytes[number] << (tries - 1), self.node_bytes),
            max_retries=0,
            name=f"tracebraid rank {files.rank}",
        )
        made = task.remote(self._work_ref, ray_node.task_bytes(number, files), self.version, working_folder())
        self.in_flight[made] = number

    def wait(self) -> Sequence[Event]:
        """See `Workers`."""
        while True:
            ready, _ = self.ray.wait(list(self.in_flight), num_returns=1, timeout=_CHECK_EVERY_S)
            if ready:
                break
            if self.ray.cluster_resources().get("CPU", 0) < 1:
                raise EngineError("the Ray cluster has no working node left; add nodes, or restart it")
        more, _ = self.ray.wait(list(self.in_flight), num_returns=len(self.in_flight), timeout=0)
        return [self._event(made, self.in_flight.pop(made)) for made in more]

    def close(self) -> None:
        """See `Workers`: running tasks are asked to stop, then killed."""
        left = list(self.in_flight)
        self.in_flight.clear()
        for force in (False, True):
            for made in left:
                with suppress(self.ray.exceptions.RayError, ValueError):
                    self.ray.cancel(made, force=force)
            if left and not force:
                _, left = self.ray.wait(left, num_returns=len(left), timeout=_GRACE_S)
        if self._function is not None:
            self._function = self._work_ref = None
            self.ray.cloudpickle.unregister_pickle_by_value(ray_node)

    def _event(self, made: Any, number: int) -> Event:
        """Convert a task's result to an event; Ray's own errors count as machine failures."""
        errors = self.ray.exceptions
        try:
            node, problem, data, is_unseen = self.ray.get(made)
        except errors.RayTaskError as error:
            return Raised(
                number, EngineError(f"a node of the Ray cluster cannot run tasks: {_first_line(error)}")
            )
        except errors.RayError as error:
            return Lost(number, _why_lost(errors, error))
        if problem:
            return Raised(number, EngineError(f"{node} {problem}"))
        event = event_of(data)
        if is_unseen and isinstance(event, Failed) and Path(event.error.path).exists():
            return Failed(number, ray_node.unseen(event.error.path, node))
        return event


def _why_lost(errors: Any, error: Exception) -> str:
    """Describe the loss of a task as a clause."""
    if isinstance(error, errors.OutOfMemoryError):
        return "its worker was killed as its node ran out of memory"
    if isinstance(error, errors.NodeDiedError):
        return "its node is gone"
    if isinstance(error, errors.WorkerCrashedError):
        return "its worker was killed"
    return f"Ray lost it ({type(error).__name__})"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1].strip()
