"""Libraries of C++ that are compiled on first use: built once into a cache, in whole, and loaded with ctypes."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import logging
import os
import re
import shlex
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from tracebraid import clock
from tracebraid.child_process.start import child_environment
from tracebraid.errors import CaptureError, OutputError
from tracebraid.files import user_cache, writing
from tracebraid.native.trust import as_built, close_folder, is_as_built, keep_text, kept_text, note_built

_LOG = logging.getLogger("tracebraid")
_ELSEWHERE = "Name another folder in TRACEBRAID_CACHE"
_MAX_COMPLAINT_LINES = 30
"""Lines of a compiler's output in an error."""
_PASSING = r"(?i)killed|terminated|internal compiler error|no space left|cannot allocate|out of memory"
"""Compiler messages that do not blame the source."""
_WAIT_AT_MOST_S, _SAY_AFTER_S, _POLL_S = 300.0, 1.0, 0.1
"""Waiting for another process that builds: a build of the recorder takes 40 to 80 s on two cores."""
_BUILDING = "building-"
"""Prefix of build folders."""


class Subject(Struct, frozen=True):
    """A library, as messages name it.

    Args:
        name: such as "the native recorder".
        again: what to do after a failure.
    """

    name: str
    again: str


def cache_folder(subject: Subject) -> Path:
    """The folder of libraries; `TRACEBRAID_CACHE` moves it."""
    if chosen := os.environ.get("TRACEBRAID_CACHE"):
        return Path(chosen)
    cache = user_cache()
    if cache is None:
        raise CaptureError(
            f"{subject.name} is not built: this user has no home folder; name a folder in TRACEBRAID_CACHE"
        )
    return cache / "tracebraid"


def fingerprint(flags: Iterable[str], sources: Path) -> str:
    """Digest of what a library is compiled from."""
    digest = hashlib.sha256(" ".join(flags).encode())
    for source in sorted([*sources.glob("*.cpp"), *sources.glob("*.h")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:12]


def build(path: Path, subject: Subject, compile_to: Callable[[Path], str], anew: bool = False) -> Path:
    """The library at a path; it is built if it is not there.

    Processes that ask at the same time build it once. A failure is cached too.

    Args:
        path: the library.
        subject: what it is.
        compile_to: leaves the library at a path, see `compiled`; returns why it could not, or "".
        anew: whether to build it even if it exists, or failed to build before.
    """
    if not anew and is_as_built(path):
        return path
    with writing(path.parent, _ELSEWHERE), _locked(path.parent, subject):
        failure = path.with_name("failure.txt")
        if anew:
            failure.unlink(missing_ok=True)
        elif is_as_built(path):
            return path
        elif said := kept_text(failure):
            raise CaptureError(f"{subject.name} could not be built: {said}. {subject.again}")
        problem = compile_to(path)
        if problem:
            if _is_the_source_s(problem):
                with suppress(OutputError, OSError):  # Then the next process tries again.
                    keep_text(failure, problem)
            raise CaptureError(f"{subject.name} cannot be built: {problem}")
    return path


def load(path: Path, subject: Subject, declare: Callable[[ctypes.CDLL], None]) -> ctypes.CDLL:
    """The library at a path, in this process, if it is there as it was built."""
    with as_built(path) as name:
        if name is None:
            raise CaptureError(f"{subject.name} in {path.parent} is not as it was built. {subject.again}")
        try:
            library = ctypes.CDLL(name)
            declare(library)
        except (OSError, AttributeError) as error:
            why = str(error).replace(name, path.name)
            raise CaptureError(
                f"{subject.name} in {path.parent} cannot be loaded ({why}). {subject.again}"
            ) from None
    return library


def compiled(path: Path, run: Callable[[Path], str]) -> str:
    """Build into a folder of its own, and move the library to `path`; returns why it could not be built, or "".

    Args:
        path: the library, in a folder that is locked.
        run: leaves a library of that name in a folder; returns why it could not, or "".
    """
    for left in path.parent.glob(f"{_BUILDING}*"):
        # Of a builder that was killed: whoever holds the lock is the only one.
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=path.parent) as folder:
        if problem := run(Path(folder)):
            return problem
        (Path(folder) / path.name).replace(path)
        note_built(path)
    return ""


def environment() -> dict[str, str]:
    """A compiler's environment, with the tools of this Python environment on PATH."""
    kept = child_environment()
    if not kept.get("CXX"):
        kept.pop("CXX", None)
    return {**kept, "PATH": os.pathsep.join([sysconfig.get_path("scripts"), kept.get("PATH", os.defpath)])}


def compiler() -> list[str]:
    """The command of the C++ compiler, perhaps with a launcher such as ccache before it; none if a quote is open."""
    try:
        return shlex.split(os.environ.get("CXX") or "c++")
    except ValueError:
        return []


def missing_compiler() -> str:
    """Say that there is no compiler; "" where there is one."""
    named = next(iter(compiler()), "")
    if shutil.which(named, path=environment()["PATH"]) is None:
        named = named or os.environ["CXX"]
        return f"there is no C++ compiler ({named}); install one, such as g++, or name one in CXX"
    return ""


def complaints(output: str) -> str:
    """Return a compiler's error lines, else the last exception, else the last lines."""
    lines = output.strip().splitlines()
    errors = [line for line in lines if re.search(r"\berror:", line)]
    raised = [line for line in lines if re.match(r"[\w.]*Error: ", line)][-1:]
    return "\n".join((errors or raised or lines[-_MAX_COMPLAINT_LINES:])[:_MAX_COMPLAINT_LINES])


def _is_the_source_s(problem: str) -> bool:
    """Return whether the compiler rejects the source, so that retries are useless; a killed one may be retried."""
    return "error:" in problem and not re.search(_PASSING, problem)


@contextmanager
def _locked(folder: Path, subject: Subject) -> Iterator[None]:
    close_folder(folder, subject.name)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    # The kernel releases the lock when its process ends.
    try:
        _wait_for(descriptor, folder, subject)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, folder: Path, subject: Subject) -> None:
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
                f"{subject.name} is not built: another process holds {folder / 'lock'} for {waited_s:.0f} s. "
                f"End it, or name another folder in TRACEBRAID_CACHE"
            )
        if waited_s > _SAY_AFTER_S and not is_said:
            is_said = True
            _LOG.warning("tracebraid: waiting for another process that builds %s", subject.name)
        clock.pause(_POLL_S)
