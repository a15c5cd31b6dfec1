"""Kineto over some steps, through PyTorch's profiler."""

from __future__ import annotations

import json
import mmap
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any

from msgspec.structs import replace

from tracebraid.files import keep_broken, part_beside, write_whole, writing
from tracebraid.model.capture_facts import METADATA
from tracebraid.model.finding import Finding
from tracebraid.recorders.backends.grace_period import remove_callbacks, wait_for_threads
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.observer import ExecutionTraceObserver
from tracebraid.recorders.postprocess.edits import (
    Edit,
    apply_edits,
    escape_names,
    first_error,
    mapped,
    merged,
    own_files,
    own_frames,
    rename_events,
)
from tracebraid.recorders.session.garbage_marks import GarbageMarks
from tracebraid.recorders.session.process_facts import ProcessFacts
from tracebraid.recorders.session.settings import Settings

_COMPILER = "torch._inductor.config"
"""Input of `prepare_trace`."""

_ALL_THREADS = "profile_all_threads"
"""Option of a session, which older versions of torch lack."""


class KinetoRecorder:
    """Kineto, with an observer that starts and stops at the same time.

    Constructing it sets Kineto up: it warms up from there on.

    Args:
        target: the Kineto trace to write.
        settings: what to record.
        observer: started just before Kineto, stopped just before it.
        facts: facts about the process for the trace.
    """

    def __init__(
        self, target: Path, settings: Settings, observer: ExecutionTraceObserver, facts: ProcessFacts
    ) -> None:
        self._facts = facts
        self._marks = GarbageMarks()
        self._target = target
        self._overwrite = settings.overwrite
        self._observer = observer
        self._stacks = settings.stacks
        self._state = "prepared"
        self._profiler = new_profiler(settings, observer, on_device=True, all_threads=not settings.memory)

    def start(self) -> None:
        """Record from now on."""
        self._facts.begin()
        self._profiler.start_trace()
        self._state = "running"
        self._marks.begin()

    def stop(self) -> None:
        """Record no longer."""
        if self._state == "running":
            self._state = "over"
            self._marks.end()
            try:
                # First, as in `stop_trace`: it records nothing that Kineto does not.
                self._observer.stop()
                self._profiler.add_metadata_json(METADATA, json.dumps(self._facts.found()))
                if remove_callbacks():
                    wait_for_threads()
            finally:
                # A process that ends with the session open dies of SIGSEGV.
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
        """Write the file atomically; return its size in bytes, and the escaped names."""
        part = part_beside(self._target, "recording").with_suffix(".json")
        with writing(self._target):
            try:
                self._profiler.export_chrome_trace(str(part))
                return _write_escaped(part, self._target, self._overwrite, self._stacks, renamed)
            finally:
                # Kineto writes a temporary file whose name starts with the given one.
                for left in part.parent.glob(part.name + "*"):
                    left.unlink(missing_ok=True)


def new_profiler(
    settings: Settings, observer: ExecutionTraceObserver, on_device: bool, all_threads: bool
) -> Any:
    """Set a profiler up, with an observer; it warms up from here on.

    Args:
        settings: what to record.
        observer: starts and stops with it.
        on_device: whether to record the devices.
        all_threads: whether to record all threads, and not only this one and autograd's.
    """
    profiler = torch.profiler._KinetoProfile(
        activities=None if on_device else [torch.profiler.ProfilerActivity.CPU],
        record_shapes=True,
        with_stack=settings.stacks,
        profile_memory=settings.memory,
        execution_trace_observer=observer,
        experimental_config=_experimental_config(all_threads),
    )
    _prepare(profiler)
    return profiler


def _prepare(profiler: Any) -> None:
    """Set a profiler up, without importing torch.compile for it, and without a warning of its own.

    PyTorch's `prepare_trace` asks for `torch._inductor`, which imports it: seconds in a step of the program. Where
    another thread imports it at that moment, as the first optimizer does, Python breaks the deadlock of their locks,
    and the program's import fails. A program that has not imported it has none of the CUDA graphs that are asked for.

    That of torch 2.11 warns of further cycles, and here is one: a program that runs under `-W error` would not be
    captured, and others would read of a profiler that they do not know of.
    """
    prepare = type(profiler).prepare_trace
    names = {**prepare.__globals__, "_warn_once": _no_warning, "warn": _no_warning}
    compiler = sys.modules.get(_COMPILER)
    if compiler is None or getattr(compiler.__spec__, "_initializing", False):
        names["torch"] = _WithoutCompiler()
    FunctionType(prepare.__code__, names, prepare.__name__, prepare.__defaults__, prepare.__closure__)(
        profiler
    )


def _no_warning(*_: object, **__: object) -> None:
    """Stands for the functions by which PyTorch's profiler warns."""


class _WithoutCompiler:
    """torch, as it is where it has no compiler."""

    def __getattr__(self, name: str) -> Any:
        if name == "_inductor":
            raise AttributeError(name)
        return getattr(torch, name)


def _write_escaped(
    part: Path, target: Path, overwrite: bool, stacks: bool, renamed: Mapping[str, str]
) -> tuple[int, list[Finding]]:
    with mapped(part) as text:
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
    """Enable synchronisation events and all threads, if this version of torch has them.

    A session of all threads records no allocations, so it is one or the other.
    """
    config = torch._C._profiler._ExperimentalConfig
    wanted = {"enable_cuda_sync_events": True, _ALL_THREADS: all_threads}
    return config(**{word: value for word, value in wanted.items() if _is_option(word)})


def records_all_threads(settings: Settings) -> bool:
    """Return whether operators of all threads are recorded with these settings, by this version of torch."""
    return not (settings.memory or settings.nsys) and _is_option(_ALL_THREADS)


def _is_option(word: str) -> bool:
    return word in (torch._C._profiler._ExperimentalConfig.__init__.__doc__ or "")
