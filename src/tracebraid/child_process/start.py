"""The only module that starts Python child processes.

A child imports what its parent would, but nothing from the working folder, which may be a folder of untrusted traces.
So it starts from a script in a folder of this package, which is its working folder too, and receives the module path
without the working folder and without relative entries.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tracebraid.child_process.session import kill_session

_ENTRY = Path(__file__).resolve().parent / "entry" / "main.py"
_ROOT = str(Path(__file__).resolve().parents[2])
"""The folder that holds the package; this process may have it through an import hook or a relative entry only."""


def run_child(
    function: str,
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Call a function in a process of its own, and wait for its end."""
    with subprocess.Popen(
        _command(function, arguments),
        cwd=_ENTRY.parent,
        env=child_environment() if environment is None else environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            kill_session(process.pid)
            raise TimeoutError(f"it did not finish within {timeout_s} s") from None
        except BaseException:
            # Ctrl-C, which the session of its own keeps from it.
            kill_session(process.pid)
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, said)


def start_child(
    function: str,
    *arguments: str | Path,
    pass_fds: Sequence[int] = (),
    quiet: bool = False,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that calls a function, with a pipe to its standard input; its standard output is dropped.

    It leads a session of its own, which keeps Ctrl-C from it.
    """
    return subprocess.Popen(
        _command(function, arguments),
        cwd=_ENTRY.parent,
        env={**child_environment(), **(environment or {})},
        stdin=subprocess.PIPE,
        # Startup files of the user's Python may print.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else None,
        pass_fds=pass_fds,
        start_new_session=True,
    )


def child_environment() -> dict[str, str]:
    """The environment of a child: no capture, and in `PYTHONPATH` no relative entry and no working folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACEBRAID_")}
    entries = _outside(kept.pop("PYTHONPATH", "").split(os.pathsep))
    return {**kept, "PYTHONPATH": os.pathsep.join(entries)} if entries else kept


def module_path() -> list[str]:
    """The module path of a child: this process's, without the working folder and without relative entries."""
    entries = _outside(sys.path)
    return entries if _ROOT in entries else [*entries, _ROOT]


def _command(function: str, arguments: Sequence[str | Path]) -> list[str]:
    words = [str(word.absolute()) if isinstance(word, Path) else word for word in arguments]
    path = module_path()
    return [sys.executable, str(_ENTRY), function, str(len(path)), *path, *words]


def _outside(entries: Sequence[str]) -> list[str]:
    """The absolute entries other than the working folder and the folders of relative `PYTHONPATH` entries."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    inside = {_real(entry) for entry in ["", *given] if not Path(entry).is_absolute()}
    return [
        entry
        for entry in entries
        if isinstance(entry, str) and Path(entry).is_absolute() and _real(entry) not in inside
    ]


def _real(path: str) -> str | None:
    try:
        return os.path.realpath(path)
    except OSError:
        # The working folder was deleted.
        return None
