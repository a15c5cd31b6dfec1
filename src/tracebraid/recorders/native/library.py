"""The native recorder's library: built once for each version of torch, kept in a cache, loaded with ctypes."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import logging
import os
import platform
import re
import shlex
import shutil
import signal
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tracebraid import clock
from tracebraid.child_process.start import child_environment, run_child
from tracebraid.errors import CaptureError, OutputError
from tracebraid.files import user_cache, writing
from tracebraid.recorders.native.build import DEBUG_FLAGS, FLAGS, NAME, SOURCES
from tracebraid.recorders.native.trust import (
    as_built,
    close_folder,
    is_as_built,
    keep_text,
    kept_text,
    note_built,
)
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.own_process import getpid

_LOG = logging.getLogger("tracebraid")
_AGAIN = "`tracebraid build-recorder` tries again and shows more"
_ELSEWHERE = "Name another folder in TRACEBRAID_CACHE"
_MAX_COMPLAINT_LINES = 30
"""Lines of a compiler's output in an error."""
_PASSING = r"(?i)killed|terminated|internal compiler error|no space left|cannot allocate|out of memory"
"""Compiler messages that do not blame the source."""
_WAIT_AT_MOST_S, _SAY_AFTER_S, _POLL_S = 300.0, 1.0, 0.1
"""Waiting for another process that builds: a build takes 40 to 80 s on two cores."""
_BUILD_AT_MOST_S = 600.0
"""Timeout: ten times the usual duration."""
_BUILDING = "building-"
"""Prefix of build folders."""
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
    key = f"recorder-{torch.__version__}-{abi}-{platform.machine()}-{_fingerprint()}"
    return _cache() / key / f"{NAME}.so"


def _cache() -> Path:
    if chosen := os.environ.get("TRACEBRAID_CACHE"):
        return Path(chosen)
    cache = user_cache()
    if cache is None:
        raise CaptureError(
            "the native recorder is not built: this user has no home folder; name a folder in TRACEBRAID_CACHE"
        )
    return cache / "tracebraid"


def build(anew: bool = False) -> Path:
    """The library; it is built if it is not there.

    Processes that ask at the same time build it once. A failure is cached too.
    """
    path = library_path()
    if not anew and is_as_built(path):
        return path
    with writing(path.parent, _ELSEWHERE), _locked(path.parent):
        failure = path.with_name("failure.txt")
        if anew:
            failure.unlink(missing_ok=True)
        elif is_as_built(path):
            return path
        elif said := kept_text(failure):
            raise CaptureError(f"the native recorder could not be built: {said}. {_AGAIN}")
        problem = _missing_tool() or _compile(path)
        if problem:
            if _is_the_source_s(problem):
                with suppress(OutputError, OSError):  # Then the next process tries again.
                    keep_text(failure, problem)
            raise CaptureError(f"the native recorder cannot be built: {problem}")
    return path


@functools.cache
def load() -> ctypes.CDLL:
    """The library, in this process."""
    path = build()
    with as_built(path) as name:
        if name is None:
            raise CaptureError(f"the native recorder in {path.parent} was replaced just now. {_AGAIN}")
        try:
            library = ctypes.CDLL(name)
            declare(library)
        except (OSError, AttributeError) as error:
            why = str(error).replace(name, path.name)
            raise CaptureError(
                f"the native recorder in {path.parent} cannot be loaded ({why}). {_AGAIN}"
            ) from None
    return library


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


def _fingerprint() -> str:
    digest = hashlib.sha256(" ".join(_flags()).encode())
    for source in sorted([*SOURCES.glob("*.cpp"), *SOURCES.glob("*.h")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:12]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    close_folder(folder)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    # The kernel releases the lock when its process ends.
    try:
        _wait_for(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, folder: Path) -> None:
    """Take a lock; say that it is waited for."""
    began_s, is_said = clock.now_s(), False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            waited_s = clock.now_s() - began_s
        if waited_s > _WAIT_AT_MOST_S:
            raise CaptureError(
                f"the native recorder is not built: another process holds {folder / 'lock'} for {waited_s:.0f} s. "
                f"End it, or name another folder in TRACEBRAID_CACHE"
            )
        if waited_s > _SAY_AFTER_S and not is_said:
            is_said = True
            _LOG.warning("tracebraid: waiting for another process that builds the native recorder")
        clock.pause(_POLL_S)


def _environment() -> dict[str, str]:
    """The builder's environment, with the tools of this Python environment on PATH."""
    kept = child_environment()
    if not kept.get("CXX"):
        kept.pop("CXX", None)
    return {**kept, "PATH": os.pathsep.join([sysconfig.get_path("scripts"), kept.get("PATH", os.defpath)])}


def _missing_tool() -> str:
    path = _environment()["PATH"]
    named = os.environ.get("CXX") or "c++"
    try:
        # As the builder takes it: a launcher such as ccache may come first.
        compiler = next(iter(shlex.split(named)), "")
    except ValueError:  # A quote is not closed.
        compiler = ""
    if shutil.which(compiler, path=path) is None:
        return f"there is no C++ compiler ({compiler or named}); install one, such as g++, or name one in CXX"
    if shutil.which("ninja", path=path) is None:
        return "there is no ninja; install it with: pip install ninja"
    return ""


def _compile(path: Path) -> str:
    """Build into a folder of its own, and move the library to `path`; returns why it could not be built, or ""."""
    _LOG.warning(
        "tracebraid: building the native recorder for torch %s: once, some 15 seconds", torch.__version__
    )
    for left in path.parent.glob(f"{_BUILDING}*"):
        # Of a builder that was killed: whoever holds the lock is the only one.
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=path.parent) as folder:
        try:
            words = [str(Path(folder).absolute()), str(getpid()), *_flags()]
            ran = run_child(_BUILDER, *words, environment=_environment(), timeout_s=_BUILD_AT_MOST_S)
        except TimeoutError:
            return f"the compiler was stopped, as it had not ended after {_BUILD_AT_MOST_S:.0f} s"
        built = Path(folder) / path.name
        if -ran.returncode in _CRASHES:
            name = signal.Signals(-ran.returncode).name
            return f"error: built by this compiler it crashes PyTorch ({name}); name another one in CXX"
        if ran.returncode or not built.exists():
            return f"it ended with exit code {ran.returncode}: " + _complaints(ran.stdout)
        built.replace(path)
        note_built(path)
    return ""


def _is_the_source_s(problem: str) -> bool:
    """Return whether the compiler rejects the source, so that retries are useless; a killed one may be retried."""
    return "error:" in problem and not re.search(_PASSING, problem)


def _complaints(output: str) -> str:
    """Return a compiler's error lines, else the last exception, else the last lines."""
    lines = output.strip().splitlines()
    errors = [line for line in lines if re.search(r"\berror:", line)]
    raised = [line for line in lines if re.match(r"[\w.]*Error: ", line)][-1:]
    return "\n".join((errors or raised or lines[-_MAX_COMPLAINT_LINES:])[:_MAX_COMPLAINT_LINES])
