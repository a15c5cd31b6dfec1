"""The work on a rank, as a node of a Ray cluster does it."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tracebraid.engine.pickling import loaded
from tracebraid.engine.running import event_bytes, run_rank
from tracebraid.engine.workers import Event, Failed, Raised
from tracebraid.errors import EngineError, InputError
from tracebraid.model.rank_files import RankFiles

__all__ = ["Task", "task_bytes", "unseen", "work_on"]

_ADVICE = "Put the traces on a file system that all nodes share, or name them by a URL"


@dataclass(frozen=True)
class Task:
    """A rank to work on.

    Args:
        number: its index in the run.
        files: its files.
        seen: those of them that the driver sees on a file system.
    """

    number: int
    files: RankFiles
    seen: tuple[str, ...]


def task_bytes(number: int, files: RankFiles) -> bytes:
    """A rank to work on, pickled between two processes of one user."""
    seen = tuple(path for path in (files.kineto, files.et) if path is not None and Path(path).exists())
    return pickle.dumps(Task(number, files, seen))


def unseen(path: str, node: str) -> InputError:
    """The error that a node cannot see a file that the driver sees."""
    return InputError(path, f"{node} cannot see this file", _ADVICE)


def work_on(work: bytes, task: bytes, folder: str, node: str) -> tuple[bytes, bool]:
    """What comes of the work on a rank, as `event_bytes` has it, and whether it failed on a path that is not here.

    Args:
        work: the work, as `work_bytes` has it.
        task: the rank, as `task_bytes` has it.
        folder: the driver's working folder, on which relative paths depend.
        node: this node, for people.
    """
    asked = pickle.loads(task)
    assert isinstance(asked, Task), "the driver sends nothing else"
    with suppress(OSError):
        os.chdir(folder)
    event = _event(work, asked, node)
    is_unseen = isinstance(event, Failed) and not Path(event.error.path).exists()
    return event_bytes(event), is_unseen


def _event(work: bytes, task: Task, node: str) -> Event:
    for path in task.seen:
        if not Path(path).exists():
            return Failed(task.number, unseen(path, node))
    try:
        question = loaded(work)
    except Exception as error:  # noqa: BLE001 - Unpickling imports what the question names.
        problem = f"the question cannot be loaded on a node ({type(error).__name__}: {error})"
        return Raised(task.number, EngineError(f"{problem}; use the engine in-process for it"))
    return run_rank(question, task.number, task.files, None)
