"""Kineto over some steps, through PyTorch's profiler."""

from __future__ import annotations

import json
import mmap
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

from tracebraid.files import keep_broken, part_beside, write_whole, writing
from tracebraid.model.finding import Finding
from tracebraid.recorders.backends.grace_period import remove_callbacks, wait_for_threads
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.observer import ExecutionTraceObserver
from tracebraid.recorders.postprocess.escape_names import Edit, apply_edits, escape_names, first_error
from tracebraid.recorders.postprocess.own_frames import merged, own_files, own_frames
from tracebraid.recorders.postprocess.rename import rename_events
from tracebraid.recorders.session.settings import Settings

__all__ = ["KinetoRecorder"]

_COMPILER = "torch._inductor.config"
"""What `prepare_trace` reads."""


class KinetoRecorder:
    """Kineto, with an observer that starts and stops at the same time.

    Constructing it sets Kineto up: it warms up from there on.

    Args:
        target: the Kineto trace to write.
        settings: what to record.
        observer: started just before Kineto, stopped just before it.
    """

    def __init__(self, target: Path, settings: Settings, observer: ExecutionTraceObserver) -> None:
        self._target = target
        self._overwrite = settings.overwrite
        self._observer = observer
        self._stacks = settings.stacks
        self._state = "prepared"
        self._profiler = torch.profiler._KinetoProfile(
            record_shapes=True,
            with_stack=settings.stacks,
            profile_memory=settings.memory,
            execution_trace_observer=observer,
            experimental_config=_experimental_config(all_threads=not settings.memory),
        )
        _prepare(self._profiler)

    def start(self) -> None:
        """Record from now on."""
        self._profiler.start_trace()
        self._state = "running"

    def stop(self) -> None:
        """Record no longer."""
        if self._state == "running":
            self._state = "over"
            # First, as in `stop_trace`: it records nothing that Kineto does not.
            self._observer.stop()
            if remove_callbacks():
                wait_for_threads()
            self._profiler.stop_trace()

    def discard(self) -> None:
        """Release Kineto without writing anything."""
        # A profiler that was only prepared ends by starting and stopping, as PyTorch's own does.
        with suppress(RuntimeError):
            if self._state == "prepared":
                self.start()
            self.stop()
        self._state = "over"

    def write(self, renamed: Mapping[str, str]) -> tuple[int, list[Finding]]:
        """Write the file, whole or not at all: returns its size in bytes, and what was escaped in it.

        Args:
            renamed: new names of events, by the old ones.

        Raises:
            OutputError: it cannot be written, or what Kineto wrote is no valid JSON.
        """
        part = part_beside(self._target, "recording").with_suffix(".json")
        with writing(self._target):
            try:
                self._profiler.export_chrome_trace(str(part))
                return _write_escaped(part, self._target, self._overwrite, self._stacks, renamed)
            finally:
                # Kineto writes a temporary file whose name starts with the given one.
                for left in part.parent.glob(part.name + "*"):
                    left.unlink(missing_ok=True)


def _prepare(profiler: Any) -> None:
    """Set a profiler up, without importing torch.compile for it.

    PyTorch's `prepare_trace` asks for `torch._inductor`, which imports it: seconds in a step of the program. Where
    another thread imports it at that moment, as the first optimizer does, Python breaks the deadlock of their locks,
    and the program's import fails. A program that has not imported it has none of the CUDA graphs that are asked for.
    """
    compiler = sys.modules.get(_COMPILER)
    if compiler is not None and not getattr(compiler.__spec__, "_initializing", False):
        profiler.prepare_trace()
        return
    prepare = type(profiler).prepare_trace
    names = {**prepare.__globals__, "torch": _WithoutCompiler()}
    FunctionType(prepare.__code__, names, prepare.__name__, prepare.__defaults__, prepare.__closure__)(
        profiler
    )


class _WithoutCompiler:
    """torch, as it is where it has no compiler."""

    def __getattr__(self, name: str) -> Any:
        if name == "_inductor":
            raise AttributeError(name)
        return getattr(torch, name)


def _write_escaped(
    part: Path, target: Path, overwrite: bool, stacks: bool, renamed: Mapping[str, str]
) -> tuple[int, list[Finding]]:
    with part.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        broken = first_error(text)
        edits, found = escape_names(text, "kineto") if broken else ([], [])
        if stacks:
            edits = merged(edits, own_frames(text, own_files()))
        if edits:
            broken = first_error(b"".join(apply_edits(text, edits)))
        edits += [*_file_name(text, str(part), target.name), *rename_events(text, renamed)]
        edits.sort(key=lambda edit: edit.start)
        if broken:
            raise keep_broken(target, apply_edits(text, edits), f"Kineto wrote no valid JSON ({broken})")
        size_bytes = write_whole(target, apply_edits(text, edits), overwrite)
    return size_bytes, [replace(finding, path=str(target)) for finding in found]


def _file_name(text: mmap.mmap, written_as: str, name: str) -> list[Edit]:
    """The edit that replaces the path that Kineto wrote to, at the end of its file, by the file's own name."""
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
