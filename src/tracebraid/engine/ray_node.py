"""The work on a rank, as a node of a Ray cluster does it, and how it is sent there."""

from __future__ import annotations

import pickle
from pathlib import Path

from msgspec import Struct

from tracebraid.child_process.worker import enter
from tracebraid.engine.pickling import event_bytes, received_work, run_rank
from tracebraid.engine.workers import Event, Failed
from tracebraid.errors import InputError
from tracebraid.model.rank_files import RankFiles

_ADVICE = "Put the traces on a file system that all nodes share, or name them by a URL"


class Task(Struct, frozen=True):
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


def run_task(work: bytes, task: bytes, version: str, folder: str) -> tuple[str, str, bytes, bool]:
    """Work on a rank, as Ray runs it on a node.

    It travels by value, so that it can report that our code is missing, or is of another version. Until it has verified
    that, it imports only Python's library and Ray.
    """
    import os
    import socket
    import sys

    from ray.util import get_node_ip_address

    node = f"node {socket.gethostname()} ({get_node_ip_address()})"
    os.environ["POLARS_MAX_THREADS"] = "1"
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != os.path.realpath(folder)]
    try:
        from tracebraid.version import __version__ as own
    except ImportError as error:
        return node, f"has no Tracebraid ({error}): install version {version} there", b"", False
    if own != version:
        problem = f"has Tracebraid {own}, and this process {version}: install the same version on both"
        return node, problem, b"", False
    try:
        from tracebraid.engine.ray_node import run_work

        return node, "", *run_work(work, task, folder, node)
    except KeyboardInterrupt:
        # A task that is cancelled in an import leaves half a module, on which the worker's next task would fail.
        raise SystemExit from None


def run_work(work: bytes, task: bytes, folder: str, node: str) -> tuple[bytes, bool]:
    """Run the work on a rank; return its event as bytes, and whether it failed on a path missing here."""
    asked = pickle.loads(task)
    assert isinstance(asked, Task), "the driver sends nothing else"
    enter(folder)
    event = _event(work, asked, node)
    is_unseen = isinstance(event, Failed) and not Path(event.error.path).exists()
    return event_bytes(event), is_unseen


def _event(work: bytes, task: Task, node: str) -> Event:
    for path in task.seen:
        if not Path(path).exists():
            return Failed(task.number, unseen(path, node))
    return run_rank(received_work(work, "on a node"), task.number, task.files, None)
