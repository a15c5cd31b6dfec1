"""The native recorder's library: built once for each version of torch, kept in a cache, loaded with ctypes."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import platform
import shutil
import signal
from pathlib import Path

from tracebraid.child_process.start import run_child
from tracebraid.native.building import (
    Subject,
    cache_folder,
    compiled,
    complaints,
    environment,
    fingerprint,
    missing_compiler,
)
from tracebraid.native.building import (
    build as build_library,
)
from tracebraid.native.building import (
    load as load_library,
)
from tracebraid.recorders.native.build import DEBUG_FLAGS, FLAGS, NAME, SOURCES
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.own_process import getpid

_LOG = logging.getLogger("tracebraid")
_SUBJECT = Subject("the native recorder", "`tracebraid build-recorder` tries again and shows more")
_BUILD_AT_MOST_S = 600.0
"""Timeout: ten times the usual duration."""
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT)
"""How a library ends the builder that tries it, and would end a program."""
_BUILDER = "tracebraid.recorders.native.build:main"


class Counts(ctypes.Structure):
    """Statistics of a recording: numbers of nodes, then sizes in bytes."""

    nodes: int
    open: int
    raised: int
    recorded_bytes: int
    spilled_bytes: int
    peak_bytes: int
    lost_bytes: int

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ["nodes", "open", "raised", "recorded_bytes", "spilled_bytes", "peak_bytes", "lost_bytes"]
    ]


def library_path() -> Path:
    """The path of the library for this torch, this machine and these sources; `TRACEBRAID_CACHE` moves the cache."""
    abi = "cxx11" if torch.compiled_with_cxx11_abi() else "precxx11"
    key = f"recorder-{torch.__version__}-{abi}-{platform.machine()}-{fingerprint(_flags(), SOURCES)}"
    return cache_folder(_SUBJECT) / key / f"{NAME}.so"


def build(anew: bool = False) -> Path:
    """The library; it is built if it is not there, see `native.building.build`."""
    return build_library(library_path(), _SUBJECT, lambda path: _missing_tool() or _compile(path), anew)


@functools.cache
def load() -> ctypes.CDLL:
    """The library, in this process."""
    return load_library(build(), _SUBJECT, declare)


def declare(library: ctypes.CDLL) -> None:
    """Declare the library's functions, as `interface.cpp` has them."""
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    library.tracebraid_error.restype = text
    library.tracebraid_open.restype = pointer
    library.tracebraid_open.argtypes = [text, ctypes.c_uint64, number, text, text]
    library.tracebraid_switch.argtypes = [pointer, number]
    library.tracebraid_close.argtypes = [pointer, text, number, ctypes.POINTER(Counts)]


def _flags() -> list[str]:
    is_debug = os.environ.get("TRACEBRAID_NATIVE_DEBUG", "0") not in ("", "0")
    return [*FLAGS, *(DEBUG_FLAGS if is_debug else [])]


def _missing_tool() -> str:
    if problem := missing_compiler():
        return problem
    if shutil.which("ninja", path=environment()["PATH"]) is None:
        return "there is no ninja; install it with: pip install ninja"
    return ""


def _compile(path: Path) -> str:
    """Build the library at `path`; returns why it could not be built, or ""."""
    _LOG.warning(
        "tracebraid: building the native recorder for torch %s: once, some 15 seconds", torch.__version__
    )
    return compiled(path, _run)


def _run(folder: Path) -> str:
    words = [str(folder.absolute()), str(getpid()), *_flags()]
    try:
        ran = run_child(_BUILDER, *words, environment=environment(), timeout_s=_BUILD_AT_MOST_S)
    except TimeoutError:
        return f"the compiler was stopped, as it had not ended after {_BUILD_AT_MOST_S:.0f} s"
    if -ran.returncode in _CRASHES:
        name = signal.Signals(-ran.returncode).name
        return f"error: built by this compiler it crashes PyTorch ({name}); name another one in CXX"
    if ran.returncode or not (folder / f"{NAME}.so").exists():
        return f"it ended with exit code {ran.returncode}: " + complaints(ran.stdout)
    return ""
