"""What goes to workers and comes back, as bytes: cloudpickle's, of which none are ever read from a file.

Workers import nothing of the user's script, and nothing of the working folder.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from tracebraid.child_process.start import module_path
from tracebraid.errors import ArgumentError
from tracebraid.model.engine import RankWork

__all__ = ["can_be_sent", "dumped", "loaded", "work_bytes"]


def dumped(value: object) -> bytes:
    """A value as bytes. What it holds may raise anything."""
    data: bytes = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return data


def loaded(data: bytes) -> Any:
    """The value of bytes that `dumped` or `work_bytes` made in another process of this run."""
    return cloudpickle.loads(data)


def can_be_sent(work: RankWork[object]) -> bool:
    """Whether the work can be pickled."""
    try:
        work_bytes(work)
    except ArgumentError:
        return False
    return True


def work_bytes(work: RankWork[object]) -> bytes:
    """The work, pickled by cloudpickle.

    What the user's script and the modules beside it define travels by value: a worker does not import from the
    working folder.

    Raises:
        ArgumentError: it holds something that cannot be sent to another process.
    """
    try:
        with _by_value(_modules_out_of_reach()):
            return dumped(work)
    except Exception as error:
        problem = f"the question cannot be sent to a worker process ({type(error).__name__}: {error})"
        raise ArgumentError(f"{problem}; use the engine in-process for it") from error


def _modules_out_of_reach() -> list[ModuleType]:
    """The modules that this process imported from where a worker does not: beside the user's script."""
    reachable = set(module_path())
    unreachable = {str(Path(entry).resolve()) for entry in sys.path if entry not in reachable}
    resolved = cache(os.path.realpath)
    return [module for module in list(sys.modules.values()) if _root(module, resolved) in unreachable]


def _root(module: ModuleType, resolved: Callable[[str], str]) -> str | None:
    """The folder that the module's package was found in.

    Args:
        module: a module.
        resolved: gives a folder without links; most modules share theirs.
    """
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or module.__name__ == "__main__":
        return None
    path = Path(file)
    folders = [Path(resolved(str(path.parent)))]
    folders += folders[0].parents
    levels = module.__name__.count(".") + (path.stem == "__init__")
    return str(folders[levels]) if levels < len(folders) else None


@contextmanager
def _by_value(modules: list[ModuleType]) -> Iterator[None]:
    registered = [
        module for module in modules if module.__name__ not in cloudpickle.list_registry_pickle_by_value()
    ]
    for module in registered:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)
