"""Kineto over some steps, through PyTorch's profiler."""

from __future__ import annotations

import json
import mmap
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracebraid.errors import CaptureError
from tracebraid.files import keep_broken, part_beside, write_whole, writing
from tracebraid.model.finding import Finding
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.observer import ExecutionTraceObserver
from tracebraid.recorders.postprocess.escape_names import Edit, first_error, mend_names, pieces_with
from tracebraid.recorders.postprocess.own_frames import merged, own_files, own_frames
from tracebraid.recorders.session.settings import Settings

__all__ = ["KinetoRecorder", "profiler_is_active"]


def profiler_is_active() -> bool:
    """Whether one of PyTorch's profilers records in this process.

    PyTorch tells so of this thread only, and not of a profiler that records all threads; the second question is
    what its Python side keeps for itself.
    """
    return bool(torch.autograd._profiler_enabled() or torch.autograd.profiler._is_profiler_enabled)


class KinetoRecorder:
    """Kineto, and with it an observer that starts and stops at the same moments.

    Constructing it sets Kineto up: it warms up from there on.

    Args:
        target: the Kineto trace to write.
        settings: what to record.
        observer: started just before Kineto, stopped just before it.

    Raises:
        CaptureError: another profiler is active in this process.
    """

    def __init__(self, target: Path, settings: Settings, observer: ExecutionTraceObserver) -> None:
        if profiler_is_active():
            raise CaptureError(
                "another profiler is active in this process, and Kineto has one session per process. "
                "Leave one of the two out"
            )
        self._target = target
        self._overwrite = settings.overwrite
        self._stacks = settings.stacks
        self._state = "prepared"
        self._others = _Others()
        self._observer = observer
        self._profiler = torch.profiler._KinetoProfile(
            record_shapes=True,
            with_stack=settings.stacks,
            profile_memory=settings.memory,
            execution_trace_observer=observer,
            experimental_config=_experimental_config(all_threads=not settings.memory),
        )
        self._profiler.prepare_trace()

    def start(self) -> None:
        """Record from now on."""
        self._profiler.start_trace()
        self._state = "running"
        self._others.watch()

    def stop(self) -> None:
        """Record no longer.

        Raises:
            CaptureError: another profiler was started inside the window, which ends Kineto's session. To stop or
                export it then would crash the process.
        """
        if self._state != "running":
            return
        self._state = "over"
        if self._others.leave():
            self._observer.stop()
            raise CaptureError("another profiler was started inside the window, and ended Kineto's session")
        self._profiler.stop_trace()

    def discard(self) -> None:
        """Let Kineto go without writing anything."""
        # A profiler that was only prepared ends by starting and stopping, as PyTorch's own does. Where another
        # profiler has come in between, that fails, and there is nothing left to end.
        with suppress(RuntimeError, CaptureError):
            if self._state == "prepared":
                self.start()
            self.stop()
        self._state = "over"

    def write(self) -> tuple[int, list[Finding]]:
        """Write the file, whole or not at all: its size in bytes, and what was mended in it.

        Raises:
            OutputError: it cannot be written, or what Kineto wrote is no valid JSON.
        """
        part = part_beside(self._target, "recording").with_suffix(".json")
        with writing(self._target):
            try:
                self._profiler.export_chrome_trace(str(part))
                return _write_mended(part, self._target, self._overwrite, self._stacks)
            finally:
                # Kineto writes beside the name that it is given first.
                for left in part.parent.glob(part.name + "*"):
                    left.unlink(missing_ok=True)


class _Others:
    """Whether another of PyTorch's profilers was started meanwhile, by what its Python side does at each start."""

    def __init__(self) -> None:
        self._module = torch.autograd.profiler
        self._original: Any = None
        self._started = False

    def watch(self) -> None:
        self._original = self._module._run_on_profiler_start

        def started() -> None:
            self._started = True
            self._original()

        self._module._run_on_profiler_start = started

    def leave(self) -> bool:
        self._module._run_on_profiler_start = self._original
        return self._started


def _write_mended(part: Path, target: Path, overwrite: bool, stacks: bool) -> tuple[int, list[Finding]]:
    with part.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        broken = first_error(text)
        edits, found = mend_names(text, "kineto") if broken else ([], [])
        if stacks:
            edits = merged(edits, own_frames(text, own_files()))
        if edits:
            broken = first_error(b"".join(pieces_with(text, edits)))
        edits += _renamed(text, str(part), target.name)
        if broken:
            raise keep_broken(target, pieces_with(text, edits), f"Kineto wrote no valid JSON ({broken})")
        size_bytes = write_whole(target, pieces_with(text, edits), overwrite)
    return size_bytes, [Finding(f.code, f.message, str(target), f.where, f.count) for f in found]


def _renamed(text: mmap.mmap, written_as: str, name: str) -> list[Edit]:
    """Kineto notes the path it wrote to at the end of its file: the edit that puts the file's own name there."""
    noted = json.dumps(written_as).encode()
    at = text.rfind(noted)
    return [Edit(at, at + len(noted), json.dumps(name).encode())] if at >= 0 else []


def _experimental_config(all_threads: bool) -> object:
    """Synchronisation events and all threads, where this version of torch has them.

    A session of all threads records no allocations, so it is one or the other.
    """
    config = torch._C._profiler._ExperimentalConfig
    wanted = {"enable_cuda_sync_events": True, "profile_all_threads": all_threads}
    known = config.__init__.__doc__ or ""
    return config(**{word: value for word, value in wanted.items() if word in known})
