"""The native scanner of Kineto JSON: from the wheel, or compiled once into the cache. Without it Python reads all.

`python -m tracebraid.native.scanner` compiles it, and says why where it cannot.
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
from tracebraid.native import FLAGS, LIBRARY, SOURCE
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
_SUBJECT = Subject("the native reader", "`python -m tracebraid.native.scanner` builds it again")
_SOURCES = Path(__file__).parent
_BUILD_AT_MOST_S = 300.0
_WORTH_BUILDING_BYTES = 1 << 29
"""JSON that the Python reader takes 5 to 9 s for; the compiler takes 2 to 4 s, and the scanner then about 1 s."""


def library_path() -> Path:
    """The path in the cache of the library for this machine and these sources."""
    return cache_folder(_SUBJECT) / _key() / LIBRARY


def in_wheel() -> Path:
    """The path of the library that a wheel for this machine has (`hatch_build.py`)."""
    return _SOURCES / LIBRARY


@functools.cache
def _key() -> str:
    return f"scanner-{sys.platform}-{platform.machine()}-{fingerprint(FLAGS, _SOURCES)}"


def build(anew: bool = False) -> Path:
    """The library; it is built if it is not there, see `building.build`."""
    return build_library(library_path(), _SUBJECT, lambda path: missing_compiler() or _compile(path), anew)


def scanner_for(json_bytes: int) -> ctypes.CDLL | None:
    """The library to read so many bytes of JSON with; None where the Python reader is to read them.

    One that is not there is built only where reading takes longer than building it. One that cannot be trusted or
    loaded is reported once.
    """
    try:
        if in_wheel().exists():
            return _loaded_of_wheel()
        path = library_path()
        if json_bytes >= _WORTH_BUILDING_BYTES and not missing_compiler():
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
    _LOG.warning("tracebraid: traces are read without the native reader: %s", problem)


def _declare(library: ctypes.CDLL) -> None:
    """Declare the library's functions, as `kineto_scan.cpp` has them."""
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    library.tracebraid_kineto_new.restype = pointer
    library.tracebraid_kineto_new.argtypes = [ctypes.c_char_p]
    library.tracebraid_kineto_free.restype = None
    library.tracebraid_kineto_free.argtypes = [pointer]
    library.tracebraid_kineto_add.argtypes = [pointer, ctypes.c_char_p, size]
    library.tracebraid_kineto_take.restype = size
    library.tracebraid_kineto_take.argtypes = [pointer, number, number, ctypes.POINTER(pointer)]
    library.tracebraid_release.restype = None
    library.tracebraid_release.argtypes = [pointer]


def _compile(path: Path) -> str:
    _LOG.warning("tracebraid: building the native reader: once, some 3 seconds")
    return compiled(path, _run)


def _run(folder: Path) -> str:
    library = folder / LIBRARY
    command = [*compiler(), *FLAGS, "-o", str(library), str(_SOURCES / SOURCE)]
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
