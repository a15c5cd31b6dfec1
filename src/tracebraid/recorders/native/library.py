"""The native recorder's library: built once for each version of torch, kept in a cache, loaded with ctypes.

The package `tracebraid-recorder` has it ready for released versions of torch; else it is compiled.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import platform
import re
import shutil
import signal
from importlib.util import find_spec
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
_BUILDER = "tracebraid.recorders.native.build"
_READY = "tracebraid_recorder"
"""The module of the package with libraries that are ready."""
_RELEASED = re.compile(r"(\d+\.\d+)\.\d+(?:\+(?:cpu|cu\d+|rocm[\d.]+|xpu))?")
"""Versions of torch that its project built; others may have its version and another layout."""


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
    return cache_folder(_SUBJECT) / f"recorder-{_key(torch.__version__)}" / f"{NAME}.so"


def ready_name() -> str | None:
    """The name of the file that is ready for this torch, this machine and these sources; None if none can be."""
    release = _RELEASED.fullmatch(torch.__version__)
    if release is None or not torch.distributed.is_available():
        return None
    return f"{_key(release[1])}.so"


def ready_library() -> Path | None:
    """The library of the package `tracebraid-recorder`; None where that is not installed, or has none that fits."""
    package, name = find_spec(_READY), ready_name()
    if package is None or package.origin is None or name is None:
        return None
    path = Path(package.origin).with_name(name)
    return path if path.is_file() else None


def _key(version: str) -> str:
    abi = "cxx11" if torch.compiled_with_cxx11_abi() else "precxx11"
    return f"{version}-{abi}-{platform.machine()}-{fingerprint(_flags(), SOURCES)}"


def build(anew: bool = False) -> Path:
    """The library; it is made if it is not there, see `native.building.build`."""
    return build_library(library_path(), _SUBJECT, _make, anew)


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
    if find_spec("setuptools") is None:
        return "there is no setuptools; install it with: pip install setuptools"
    return ""


def _make(path: Path) -> str:
    """Leave the library at `path`, ready or compiled; returns why it could not be, or ""."""
    ready = ready_library()
    if ready is None:
        return _missing_tool() or _compile(path)
    _LOG.warning("tracebraid: trying %s with torch %s: once, up to 10 seconds", ready.name, torch.__version__)
    problem = compiled(path, functools.partial(_try, ready))
    if not problem:
        return ""
    _LOG.warning("tracebraid: it does not fit and is compiled instead: %s", problem)
    return _missing_tool() or _compile(path)


def _try(ready: Path, folder: Path) -> str:
    shutil.copyfile(ready, folder / f"{NAME}.so")
    return _called("main_of_ready", folder, crash="it crashes PyTorch ({})")


def _compile(path: Path) -> str:
    _LOG.warning(
        "tracebraid: building the native recorder for torch %s: once, some 15 seconds", torch.__version__
    )
    crash = "built by this compiler it crashes PyTorch ({}); name another one in CXX"
    return compiled(path, lambda folder: _called("main", folder, *_flags(), crash=crash))


def _called(function: str, folder: Path, *flags: str, crash: str) -> str:
    """Call a function of the builder; returns why there is no library in the folder then, or ""."""
    words = [str(folder.absolute()), str(getpid()), *flags]
    try:
        ran = run_child(
            f"{_BUILDER}:{function}", *words, environment=environment(), timeout_s=_BUILD_AT_MOST_S
        )
    except TimeoutError:
        return f"the builder was stopped, as it had not ended after {_BUILD_AT_MOST_S:.0f} s"
    if -ran.returncode in _CRASHES:
        return f"error: {crash.format(signal.Signals(-ran.returncode).name)}"
    if ran.returncode or not (folder / f"{NAME}.so").exists():
        return f"it ended with exit code {ran.returncode}: " + complaints(ran.stdout)
    return ""
