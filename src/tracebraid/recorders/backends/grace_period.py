"""The end of a recording by PyTorch: other threads leave its callbacks first.

PyTorch ends a session of all threads, and its recorder of Execution Traces, without a wait: it reads and frees what
threads record into while one of them may be inside a callback, and the process dies of SIGSEGV, or of SIGABRT in
`malloc`. That was mended in June 2026, after the versions up to 2.13 (PyTorch's pull requests 187141, 187483 and
188172). So callbacks are removed first, and PyTorch ends the recording once no thread can be inside one.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import sleep

from msgspec import Struct

from tracebraid.recorders.needs_torch import torch

# Of torch::profiler::impl::ProfilerStateBase, by which PyTorch's own `disableProfiler` removes the callbacks, too late.
# From Python only `_toggle_collection_dynamic` does so, which also writes a warning to standard error. The versions
# that wait have no `get(bool)`.
_GET = "_ZN5torch8profiler4impl17ProfilerStateBase3getEb"
_REMOVE = "_ZN5torch8profiler4impl17ProfilerStateBase14removeCallbackEv"

_CALLBACK_NS = 1_000_000
"""Nanoseconds of a thread's own time after which it has left a callback: one takes some 10 µs."""

_POLL_S = 0.001
_LIMIT_S = 1.0
"""Seconds that the program's threads are waited for. Chosen: six threads on two busy cores took up to 0.3 s."""


def remove_callbacks() -> bool:
    """Remove the callbacks of the session of all threads: whether there is one, of a version that does not wait."""
    library = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
    with suppress(OSError, AttributeError):
        # Not loaded again. The functions need no lock of Python's, which this releases.
        functions = ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        get, remove = functions[_GET], functions[_REMOVE]
        get.argtypes, get.restype = [ctypes.c_bool], ctypes.c_void_p
        remove.argtypes, remove.restype = [ctypes.c_void_p], None
        session = get(True)
        if session is not None:
            remove(session)
            return True
    return False


def wait_for_threads() -> None:
    """Return when each other thread has run, or all that have not sleep, for long enough to be outside a callback.

    One that waits for a lock inside a callback sleeps as well, but then the lock's holder does not.
    """
    first = last = _other_threads()
    inside = set(first)
    # Polls are counted: the program may have replaced the clock, as to make time stand still.
    for _ in range(round(_LIMIT_S / _POLL_S)):
        if not inside:
            return
        sleep(_POLL_S)
        now = _other_threads()
        inside = {tid for tid in inside & set(now) if now[tid].run_ns - first[tid].run_ns < _CALLBACK_NS}
        if all(now[tid].sleeps and now[tid] == last.get(tid) for tid in inside):
            return
        last = now


def wait_while(holds: Callable[[], bool]) -> None:
    """Return when something no longer holds that other threads do, or after a second."""
    for _ in range(round(_LIMIT_S / _POLL_S)):
        if not holds():
            return
        sleep(_POLL_S)


class _Thread(Struct, frozen=True):
    """CPU time of a thread so far, and whether it sleeps."""

    run_ns: int
    sleeps: bool


def _other_threads() -> dict[str, _Thread]:
    """The other threads of this process, by their number; none if the system does not say."""
    own = str(threading.get_native_id())
    found = {}
    with suppress(OSError):
        for folder in Path("/proc/self/task").iterdir():
            if folder.name != own:
                with suppress(OSError, IndexError, ValueError):  # It has ended.
                    found[folder.name] = _thread(folder)
    return found


def _thread(folder: Path) -> _Thread:
    # The name of a thread may have any character.
    state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return _Thread(int((folder / "schedstat").read_text().split()[0]), state == "S")
