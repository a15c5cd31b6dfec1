"""The native library: from the wheel, or compiled once into the cache. Without it Python reads and computes.

`python -m tracebraid.native.library` compiles it, and says why where it cannot.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import platform
import subprocess
import sys
from pathlib import Path

from tracebraid.errors import CaptureError, OutputError
from tracebraid.native import FLAGS, LIBRARY, SOURCES
from tracebraid.native.building import (
    Subject,
    cache_folder,
    compiled,
    compiler,
    complaints,
    environment,
    fingerprint,
    missing_compiler,
)
from tracebraid.native.building import build as build_library
from tracebraid.native.building import load as load_library

_LOG = logging.getLogger("tracebraid")
_SUBJECT = Subject("the native library", "`python -m tracebraid.native.library` builds it again")
_FOLDER = Path(__file__).parent
_BUILD_AT_MOST_S = 300.0


def library_path() -> Path:
    """The path in the cache of the library for this machine and these sources."""
    return cache_folder(_SUBJECT) / _key() / LIBRARY


def in_wheel() -> Path:
    """The path of the library that a wheel for this machine has (`hatch_build.py`)."""
    return _FOLDER / LIBRARY


@functools.cache
def _key() -> str:
    return f"native-{sys.platform}-{platform.machine()}-{fingerprint(FLAGS, _FOLDER)}"


def build(anew: bool = False) -> Path:
    """The library; it is built if it is not there, see `building.build`."""
    return build_library(library_path(), _SUBJECT, lambda path: missing_compiler() or _compile(path), anew)


def native_library(is_worth_building: bool) -> ctypes.CDLL | None:
    """The library; None where Python is to do without it.

    One that is not there is built only where that is worth its time. Why one that is wanted cannot be built, trusted or
    loaded is reported once.
    """
    try:
        if in_wheel().exists():
            return _loaded_of_wheel()
        path = library_path()
        if is_worth_building:
            build()
        return _loaded(path) if path.exists() else None
    except (CaptureError, OutputError, OSError) as error:
        _report(str(error))
        return None


@functools.cache
def _loaded(path: Path) -> ctypes.CDLL:
    return load_library(path, _SUBJECT, _declare)


@functools.cache
def _loaded_of_wheel() -> ctypes.CDLL:
    """Whoever can write this file can write the modules beside it: nothing about it is verified."""
    library = ctypes.CDLL(str(in_wheel()))
    _declare(library)
    return library


@functools.cache
def _report(problem: str) -> None:
    _LOG.warning(
        "tracebraid: without the native library Python reads and computes, many times slower: %s", problem
    )


def _declare(library: ctypes.CDLL) -> None:
    """Declare the functions of `scan.cpp`; loops are all of one kind, see `loops.py`."""
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    library.tracebraid_scan_events.restype = pointer
    library.tracebraid_scan_events.argtypes = [ctypes.c_char_p]
    library.tracebraid_scan_nodes.restype = pointer
    library.tracebraid_scan_nodes.argtypes = []
    library.tracebraid_scan_free.restype = None
    library.tracebraid_scan_free.argtypes = [pointer]
    library.tracebraid_scan_add.argtypes = [pointer, ctypes.c_char_p, size]
    library.tracebraid_scan_take.restype = size
    library.tracebraid_scan_take.argtypes = [pointer, number, number, ctypes.POINTER(pointer)]
    library.tracebraid_release.restype = None
    library.tracebraid_release.argtypes = [pointer]


def _compile(path: Path) -> str:
    _LOG.warning("tracebraid: building the native library: once, some 10 seconds")
    return compiled(path, _run)


def _run(folder: Path) -> str:
    library = folder / LIBRARY
    command = [*compiler(), *FLAGS, "-o", str(library), *(str(_FOLDER / source) for source in SOURCES)]
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_BUILD_AT_MOST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the compiler was stopped, as it had not ended after {_BUILD_AT_MOST_S:.0f} s"
    if ran.returncode or not library.exists():
        return f"it ended with exit code {ran.returncode}: " + complaints(ran.stdout)
    return ""


def main() -> int:
    """Build the library anew; exit code 1 where it cannot be built."""
    try:
        build(anew=True)
    except (CaptureError, OutputError) as error:
        _LOG.error("tracebraid: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
