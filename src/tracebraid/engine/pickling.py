"""The work on a rank and its events, pickled to and from workers with cloudpickle; no pickle is read from a file.

Workers import nothing of the user's script, and nothing of the working folder.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from tracebraid.child_process.start import module_path
from tracebraid.engine.workers import Event, Failed, Finished, Lost, Raised
from tracebraid.errors import ArgumentError, EngineError, InputError
from tracebraid.model.engine import RankWork
from tracebraid.model.rank_files import Progress, RankFiles


def dumped(value: object) -> bytes:
    """Pickle a value; its content may raise anything."""
    data: bytes = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return data


def loaded(data: bytes) -> Any:
    """The value of bytes that `dumped` or `work_bytes` made in another process of this run."""
    return cloudpickle.loads(data)


def can_be_sent(work: RankWork[object]) -> bool:
    """Return whether the work can be pickled."""
    try:
        work_bytes(work)
    except ArgumentError:
        return False
    return True


def work_bytes(work: RankWork[object]) -> bytes:
    """The work, pickled by cloudpickle.

    Definitions of the user's script and modules beside it are pickled by value: a worker does not import from the
    working folder.
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
    """The folder that the module's package was found in."""
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


def received_work(data: bytes, where: str) -> RankWork[object]:
    """The work that `work_bytes` pickled; where it cannot be loaded, work that raises this as an error."""
    try:
        work: RankWork[object] = loaded(data)
    except Exception as error:  # noqa: BLE001 - Unpickling imports what the question names.
        problem = f"the question cannot be loaded {where} ({type(error).__name__}: {error})"

        def work(files: RankFiles, progress: Progress | None) -> object:
            raise EngineError(f"{problem}; use the engine in-process for it")

    return work


_OUT_OF_MEMORY = "its worker ran out of memory"


class RemoteTraceback(Exception):  # noqa: N818 - It is shown as the cause of an error, and never raised.
    """The traceback of an error in another process: pickling leaves an error's own behind."""

    def __str__(self) -> str:
        """The traceback as Python prints it."""
        return f"\n\n{self.args[0]}"


def run_rank(
    work: RankWork[object], number: int, files: RankFiles, progress: Progress | None
) -> Finished | Failed | Raised | Lost:
    """Run the work on a rank; return its event."""
    try:
        return Finished(number, work(files, progress))
    except InputError as error:
        return Failed(number, error)
    except MemoryError:
        return Lost(number, _OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - A question can raise anything; the run raises it.
        return Raised(number, error)


def event_bytes(event: Event) -> bytes:
    """Pickle the event; an unpicklable one becomes an event that reports it."""
    return _with_traceback(event) if isinstance(event, Raised) else _or_refused(event)


def event_of(data: bytes) -> Event:
    """The event of these bytes; an error has the traceback of where it was raised as its cause."""
    event, text = loaded(data)
    if text is not None:
        event.error.__cause__ = RemoteTraceback(text)
    found: Event = event
    return found


def _or_refused(event: Event) -> bytes:
    """The event as bytes.

    An answer that cannot be pickled, or needs a class of only this process, is rejected.
    """
    try:
        return dumped((event, None))
    except MemoryError:
        return dumped((Lost(event.number, _OUT_OF_MEMORY), None))
    except Exception as error:  # noqa: BLE001 - Pickling runs code of what it pickles.
        problem = f"the answer cannot be sent back from a worker ({type(error).__name__}: {error})"
        refusal = ArgumentError(f"{problem}; return tables, numbers and text, or use the engine in-process")
        return dumped((Raised(event.number, refusal), None))


def _with_traceback(event: Raised) -> bytes:
    """The error and its traceback as bytes; an error that does not survive pickling becomes an `EngineError`."""
    error = event.error
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if _survives(lambda: dumped(error)):
        return dumped((event, text))
    substitute = EngineError(f"the question failed in a worker: {type(error).__name__}: {error}\n\n{text}")
    return dumped((Raised(event.number, substitute), None))


def _survives(dump: Callable[[], bytes]) -> bool:
    try:
        return isinstance(loaded(dump()), BaseException)
    except Exception:  # noqa: BLE001 - An error's own class says how it is pickled.
        return False
