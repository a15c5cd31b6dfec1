"""Choose the recorder of Execution Traces: the native one, or PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tracebraid.errors import ArgumentError, CaptureError, OutputError
from tracebraid.model.op_schema import SUFFIX
from tracebraid.recorders.backends.pytorch import TorchRecorder
from tracebraid.recorders.native.library import load
from tracebraid.recorders.native.recorder import NativeRecorder
from tracebraid.recorders.postprocess.resources import saved_ops
from tracebraid.recorders.session.settings import BACKENDS

_MAX_REASON = 400
"""Characters of why it is PyTorch's recorder: a compiler's command has thousands."""


class Recorder(Protocol):
    """Common interface of both recorders, called in this order; `discard` at any time instead of `close`."""

    path: Path
    tensors: Path
    """What the paths of saved tensors begin with."""

    def open(self) -> None:
        """Get ready."""

    def start(self) -> None:
        """Record from now on."""

    def stop(self) -> None:
        """Record no longer; `start` continues in the same file."""

    def close(self) -> None:
        """Finish the file."""

    def discard(self) -> None:
        """Leave no file."""

    @property
    def is_open(self) -> bool:
        """Return whether it is open in this process."""


def check_backend(backend: str) -> None:
    """Reject an unknown backend."""
    if backend not in BACKENDS:
        raise ArgumentError(f"there is no backend {backend!r}; there is {', '.join(BACKENDS)}")


def choose(backend: str, warn: Callable[[str], None]) -> str:
    """Return `native` or `torch`: for `auto`, native if it can be built, which may take 15 seconds once."""
    if backend == "torch":
        return backend
    try:
        load()
    except (CaptureError, OutputError) as error:
        if backend == "native":
            raise
        warn(f"using PyTorch's recorder instead of the native one, which costs a tenth: {_in_a_line(error)}")
        return "torch"
    return "native"


def _in_a_line(error: Exception) -> str:
    whole = str(error)
    first = whole.splitlines()[0]
    if first == whole and len(whole) <= _MAX_REASON:
        return whole
    return f"{first[:_MAX_REASON]} ... (`tracebraid build-recorder` shows all)"


def recorder(backend: str, path: Path, in_columns: bool = False) -> Recorder:
    """A recorder that writes to a path."""
    if backend == "native":
        return NativeRecorder(path, in_columns=in_columns, saved_ops=saved_ops())
    if in_columns:
        raise CaptureError(
            f"PyTorch's recorder writes .json or .json.gz, and no {SUFFIX}; the native one does"
        )
    return TorchRecorder(path)
