"""`ExecutionTraceObserver`: PyTorch's, made safe to use."""

from __future__ import annotations

import atexit
import json
import mmap
import os
import tempfile
import weakref
from pathlib import Path

from tracebraid.capture import resources
from tracebraid.capture.mend_et import mend_execution_trace
from tracebraid.capture.mend_text import first_error, pieces_with
from tracebraid.capture.needs_torch import torch
from tracebraid.capture.torch_recorder import TorchRecorder
from tracebraid.errors import ArgumentError, OutputError
from tracebraid.model.finding import Finding
from tracebraid.output import keep_broken, part_beside, write_whole, writing

__all__ = ["ExecutionTraceObserver"]

BACKENDS = ("torch",)

_ESCAPES_NO_NAME = (2, 13)
"""The last version of torch whose recorder was seen to write names without escaping them."""


class ExecutionTraceObserver:
    """Records an Execution Trace; takes the place of `torch.profiler.ExecutionTraceObserver`.

    It is given to `torch.profiler.profile(execution_trace_observer=...)`, or started and stopped by hand. The file
    gets its name when it is whole: at `unregister_callback()`, `cleanup()`, deletion, or the end of the process.
    What PyTorch's recorder got wrong is mended then, and `<stem>_report.json` beside the file says what was.

    Args:
        backend: the recorder to drive: `torch`, PyTorch's own.
        overwrite: whether a file of the same name is replaced, as PyTorch does.
        finish_at_exit: whether the end of the process writes the file; else whoever made this must.

    Raises:
        ArgumentError: there is no such backend.

    Example::

        observer = tracebraid.ExecutionTraceObserver().register_callback("torch_et_0.json.gz")
        with torch.profiler.profile(execution_trace_observer=observer):
            step()
    """

    def __init__(self, backend: str = "torch", overwrite: bool = True, finish_at_exit: bool = True) -> None:
        if backend not in BACKENDS:
            raise ArgumentError(f"there is no backend {backend!r}; there is {', '.join(BACKENDS)}")
        self.backend = backend
        self.findings: tuple[Finding, ...] = ()
        self.output_file_path = ""
        self.output_file_path_observer = ""
        self.extra_resources_collection = False
        self.resources_dir = ""
        self._overwrite = overwrite
        self._finish_at_exit = finish_at_exit
        self._recorder: TorchRecorder | None = None
        self._running = False

    def __del__(self) -> None:
        if getattr(self, "_recorder", None) is not None:
            self.unregister_callback()

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """An observer that writes to a temporary file, if ENABLE_PYTORCH_EXECUTION_TRACE is 1; else None.

        ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS=1 collects extra resources too.

        Raises:
            OutputError: the temporary file cannot be written.
        """
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        with writing(Path(tempfile.gettempdir())):
            handle, path = tempfile.mkstemp(suffix=".et.json")
            os.close(handle)
        observer = ExecutionTraceObserver().register_callback(path)
        observer.set_extra_resource_collection(
            os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1"
        )
        return observer

    def register_callback(self, output_file_path: str | Path) -> ExecutionTraceObserver:
        """Get ready to record into a file, `.json` or `.json.gz`; nothing is recorded before `start()`.

        Where this observer is registered already, nothing happens.

        Raises:
            CaptureError: another observer is registered in this process.
            OutputError: the file cannot be written.
        """
        if self.is_registered:
            return self
        target = Path(output_file_path)
        part = part_beside(target, "recording")
        with writing(part):
            part.touch()
            part.unlink()
        recorder = TorchRecorder(part)
        recorder.open()
        self._recorder = recorder
        self.output_file_path = str(output_file_path)
        self.output_file_path_observer = str(part)
        self.findings = ()
        if self._finish_at_exit:
            atexit.register(_finish_at_exit, weakref.ref(self))
        return self

    def unregister_callback(self) -> None:
        """Stop, mend and write the file under its name. In a forked child this does nothing.

        Raises:
            OutputError: the file cannot be written, or what PyTorch wrote is no valid JSON.
        """
        recorder, self._recorder = self._recorder, None
        if recorder is None or not recorder.is_open:
            return
        self._running, was_running = False, self._running
        if was_running:
            recorder.stop()
        if self.get_resources_dir():
            resources.save_generated_kernels(self.resources_dir)
        recorder.close()
        self.findings = _finish(recorder.path, Path(self.output_file_path), self._overwrite)

    def discard(self) -> None:
        """Stop, and throw away what was recorded: no file is written."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None and recorder.is_open:
            self._running = False
            recorder.stop()
            recorder.close()
            recorder.path.unlink(missing_ok=True)

    def start(self) -> None:
        """Record from now on, if registered."""
        if self._recorder is not None and self._recorder.is_open and not self._running:
            self._recorder.start()
            self._running = True
            _record_process_groups()

    def stop(self) -> None:
        """Record no longer; `start()` goes on in the same file."""
        if self._running and self._recorder is not None:
            self._recorder.stop()
        self._running = False

    def cleanup(self) -> None:
        """What the profiler calls at its end: `unregister_callback()`."""
        self.unregister_callback()

    @property
    def is_registered(self) -> bool:
        """Whether it is registered."""
        return self._recorder is not None and self._recorder.is_open

    def is_running(self) -> bool:
        """Whether it records."""
        return self._execution_trace_running

    @property
    def _execution_trace_running(self) -> bool:
        return self._running and self.is_registered

    @property
    def _registered(self) -> bool:
        return self.is_registered

    def get_output_file_path(self) -> str | None:
        """The file's path, or None before the first `register_callback`."""
        return self.output_file_path or None

    def set_extra_resource_collection(self, val: bool) -> None:
        """Whether to save what a replay needs besides: generated kernels. To be called after `register_callback`."""
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """The folder of the extra resources; None where none are collected, or it is not there."""
        if not self.extra_resources_collection:
            return None
        if not self.resources_dir:
            self.resources_dir = resources.resources_dir(self.output_file_path, can_create) or ""
        return self.resources_dir or None

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """The folder of the extra resources of a trace; None where it is not there."""
        return resources.resources_dir(trace_path, create_dir)


def _finish_at_exit(reference: weakref.ref[ExecutionTraceObserver]) -> None:
    observer = reference()
    if observer is not None:
        observer.unregister_callback()


def _record_process_groups() -> None:
    """Write the process groups as the node that readers look for, as PyTorch's observer does at each start."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        groups = json.dumps(distributed.distributed_c10d._world.pg_config_info, default=str)
        torch.autograd._record_function_with_args_exit(
            torch.autograd._record_function_with_args_enter("## process_group:init ##", groups)
        )


def _finish(part: Path, target: Path, overwrite: bool) -> tuple[Finding, ...]:
    """Mend the recorder's file, write it under its name, and a report beside it where there is something to say."""
    with writing(target):
        try:
            with part.open("rb") as file:
                if not part.stat().st_size:
                    raise OutputError(str(target), "PyTorch could write nothing", "Is the disk full?")
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                    findings = _mended(text, target, overwrite)
        finally:
            part.unlink(missing_ok=True)
    report = target.with_name(target.name.split(".json")[0] + "_report.json")
    report.unlink(missing_ok=True)
    if findings:
        rows = [{"code": f.code, "message": f.message, "where": f.where, "count": f.count} for f in findings]
        told = json.dumps({"file": target.name, "findings": rows}, indent=2) + "\n"
        write_whole(report, [told.encode()], overwrite=True)
    return findings


def _mended(text: mmap.mmap, target: Path, overwrite: bool) -> tuple[Finding, ...]:
    edits, found = mend_execution_trace(text, names_never_escaped=_torch_version() <= _ESCAPES_NO_NAME)
    broken = first_error(b"".join(pieces_with(text, edits)) if edits else text)
    if broken:
        raise keep_broken(target, pieces_with(text, edits), f"PyTorch wrote no valid JSON ({broken})")
    write_whole(target, pieces_with(text, edits), overwrite)
    return tuple(Finding(one.code, one.message, str(target), one.where, one.count) for one in found)


def _torch_version() -> tuple[int, int]:
    major, minor, *_ = str(torch.__version__).split(".")
    return int(major), int(minor)
