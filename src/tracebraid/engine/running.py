"""The work on one rank where a worker does it: what comes of it, as an event that can be sent to another process."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from tracebraid.engine.pickling import dumped, loaded
from tracebraid.engine.workers import Event, Failed, Finished, Lost, Raised
from tracebraid.errors import ArgumentError, EngineError, InputError
from tracebraid.model.engine import RankWork
from tracebraid.model.rank_files import Progress, RankFiles

__all__ = ["RemoteTraceback", "event_bytes", "event_of", "run_rank"]

_OUT_OF_MEMORY = "its worker ran out of memory"


class RemoteTraceback(Exception):  # noqa: N818 - It is shown as the cause of an error, and never raised.
    """The traceback of an error in another process: pickling leaves an error's own behind."""

    def __str__(self) -> str:
        """The traceback as Python prints it."""
        return f"\n\n{self.args[0]}"


def run_rank(
    work: RankWork[object], number: int, files: RankFiles, progress: Progress | None
) -> Finished | Failed | Raised | Lost:
    """Do the work on a rank, and say what came of it.

    Args:
        work: what is to be done.
        number: the rank's index in the run.
        files: the rank's files.
        progress: is called with the share of this rank that is done.
    """
    try:
        return Finished(number, work(files, progress))
    except InputError as error:
        return Failed(number, error)
    except MemoryError:
        return Lost(number, _OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - A question can raise anything; the run raises it.
        return Raised(number, error)


def event_bytes(event: Event) -> bytes:
    """The event as bytes; what cannot be pickled becomes the event that says so."""
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

    An answer that cannot be pickled, or that needs a class that only this process has, is refused.
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
    stand_in = EngineError(f"the question failed in a worker: {type(error).__name__}: {error}\n\n{text}")
    return dumped((Raised(event.number, stand_in), None))


def _survives(dump: Callable[[], bytes]) -> bool:
    try:
        return isinstance(loaded(dump()), BaseException)
    except Exception:  # noqa: BLE001 - An error's own class says how it is pickled.
        return False
