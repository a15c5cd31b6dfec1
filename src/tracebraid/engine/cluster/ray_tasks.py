"""The tasks of a Ray cluster, as `Workers`: one for each rank in flight."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracebraid.engine.cluster import rank_task
from tracebraid.engine.cluster.worker import task_bytes, unseen
from tracebraid.engine.running import event_of
from tracebraid.engine.workers import Event, Failed, Lost, Raised
from tracebraid.errors import EngineError
from tracebraid.model.rank_files import RankFiles

__all__ = ["RayTasks"]

_CHECK_EVERY_S = 5.0
"""So often a cluster that has nothing to report is asked whether there is still a node that can work."""
_GRACE_S = 1.0
"""How long tasks may take to end, and remove the files that they have not finished, before they are killed."""


@dataclass
class RayTasks:
    """Tasks of a cluster, each with a core and the memory that its rank is expected to take.

    Args:
        ray: the library, connected.
        work: the work on a rank, as `work_bytes` has it.
        peaks_bytes: the memory that the work on each rank takes, as estimated.
        node_bytes: the memory of the smallest node: a task that asks for more would wait for ever.
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
        """See `Workers`. After each loss, which is mostly for want of memory, a rank asks for twice as much."""
        if self._function is None:
            # By value: a node without our code can then say so.
            self.ray.cloudpickle.register_pickle_by_value(rank_task)
            self._function = self.ray.remote(rank_task.run_task)
            self._work_ref = self.ray.put(self.work)
        tries = self.tries[number] = self.tries.get(number, 0) + 1
        task = self._function.options(
            num_cpus=1,
            memory=min(self.peaks_bytes[number] << (tries - 1), self.node_bytes),
            max_retries=0,
            name=f"tracebraid rank {files.rank}",
        )
        made = task.remote(self._work_ref, task_bytes(number, files), self.version, _working_folder())
        self.in_flight[made] = number

    def wait(self) -> Sequence[Event]:
        """See `Workers`."""
        while True:
            ready, _ = self.ray.wait(list(self.in_flight), num_returns=1, timeout=_CHECK_EVERY_S)
            if ready:
                break
            if self.ray.cluster_resources().get("CPU", 0) < 1:
                raise EngineError(
                    "the Ray cluster has no node left that can work; add nodes, or start it again"
                )
        more, _ = self.ray.wait(list(self.in_flight), num_returns=len(self.in_flight), timeout=0)
        return [self._event(made, self.in_flight.pop(made)) for made in more]

    def close(self) -> None:
        """See `Workers`: what works is asked to end, and killed if it does not."""
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
            self.ray.cloudpickle.unregister_pickle_by_value(rank_task)

    def _event(self, made: Any, number: int) -> Event:
        """What came of a task; an error that is Ray's own is one of the machine, not of the work."""
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
            return Failed(number, unseen(event.error.path, node))
        return event


def _why_lost(errors: Any, error: Exception) -> str:
    """What happened to a task, as a clause."""
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


def _working_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as text, as it is sent
    except OSError:
        return ""
