"""`ExecutionTraceObserver`: PyTorch's surface, over either recorder."""

from __future__ import annotations

import atexit
import functools
import json
import mmap
import multiprocessing.util
import os
import tempfile
import warnings
import weakref
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from tracebraid.errors import CaptureWarning, OutputError
from tracebraid.files import errors_named_as, keep_broken, part_beside, write_whole, writing
from tracebraid.model.finding import Finding
from tracebraid.model.op_schema import SUFFIX, is_arrow
from tracebraid.recorders.backends.choose import Recorder, check_backend, choose, recorder
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.own_process import getpid
from tracebraid.recorders.postprocess import resources
from tracebraid.recorders.postprocess.edits import Edit, apply_edits, first_error, mapped, rename_events
from tracebraid.recorders.postprocess.finish_et import repair_execution_trace

_ESCAPES_NO_NAME = (2, 15)
"""Last version of torch whose recorder is known to write unescaped names."""


class ExecutionTraceObserver:
    """Records an Execution Trace; replaces `torch.profiler.ExecutionTraceObserver`.

    It is given to `torch.profiler.profile(execution_trace_observer=...)`, or started and stopped by hand. The file
    gets its name when it is whole: at `unregister_callback()`, `cleanup()`, deletion, or the end of the process.
    Errors of PyTorch's recorder are repaired then, and listed in `<stem>_report.json` beside the file.

    Args:
        backend: the recorder to drive: `native`, Tracebraid's own; `torch`, PyTorch's own; `auto`, the native one
            where it can be built. The first use of the native one builds it, see `tracebraid build-recorder`.
        overwrite: whether a file of the same name is replaced, as PyTorch does.
        finish_at_exit: whether the end of the process writes the file; else the caller must.
        follow_forks: whether a forked child of a recording process records too, to `<stem>_pid<pid>.json` beside;
            else it records nothing. Only the native recorder can.

    Raises:
        ArgumentError: there is no such backend.

    Example::

        observer = tracebraid.ExecutionTraceObserver().register_callback("torch_et_0.json.gz")
        with torch.profiler.profile(execution_trace_observer=observer):
            step()
    """

    def __init__(
        self,
        backend: str = "auto",
        overwrite: bool = True,
        finish_at_exit: bool = True,
        follow_forks: bool = False,
    ) -> None:
        check_backend(backend)
        self.backend = backend
        self.findings: tuple[Finding, ...] = ()
        self.output_file_path = ""
        self.output_file_path_observer = ""
        self.extra_resources_collection = False
        self.resources_dir = ""
        self._overwrite = overwrite
        self._finish_at_exit = finish_at_exit
        self._follow_forks = follow_forks
        self._recorder: Recorder | None = None
        self._running = False
        self._renamed: dict[str, str] = {}
        # A forked child's own observer, which nothing else references.
        self._follower: ExecutionTraceObserver | None = None

    def __del__(self) -> None:
        if getattr(self, "_recorder", None) is not None:
            self.unregister_callback()

    @classmethod
    def build_execution_trace_obs_from_env(cls) -> ExecutionTraceObserver | None:
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
        observer = cls().register_callback(path)
        observer.set_extra_resource_collection(
            os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1"
        )
        return observer

    def register_callback(self, output_file_path: str | Path) -> ExecutionTraceObserver:
        """Get ready to record into a file; nothing is recorded before `start()`.

        It is `.json` or `.json.gz`; or `.arrow.zip`, the same in columns, which only the native recorder writes, and
        which is read many times faster, but not by other tools. Where this observer is registered already, nothing
        happens. From here on `backend` says which recorder it is.

        Raises:
            CaptureError: another observer of PyTorch's recorder is registered in this process, or four native ones
                are; or the native one was asked for, and cannot be built; or PyTorch's is to write columns.
            OutputError: the file cannot be written.
        """
        if self.is_registered:
            return self
        self.backend = choose(self.backend, _warn)
        target = Path(output_file_path)
        part = part_beside(target, "recording")
        with writing(target):
            part.touch()
            part.unlink()
        opened = recorder(self.backend, part, is_arrow(target.name))
        opened.open()
        self._recorder = opened
        self.output_file_path = str(output_file_path)
        self.output_file_path_observer = str(part)
        self.findings = ()
        if self._finish_at_exit:
            atexit.register(_finish_at_exit, weakref.ref(self))
        if self._follow_forks and self.backend == "native":
            os.register_at_fork(after_in_child=functools.partial(_follow, weakref.ref(self)))
        return self

    def unregister_callback(self) -> None:
        """Stop, repair the trace and write the file under its name. In a forked child this does nothing.

        Raises:
            OutputError: the file cannot be written, or what PyTorch wrote is no valid JSON.
        """
        ended, self._recorder = self._recorder, None
        if ended is None or not ended.is_open:
            return
        self._running, was_running = False, self._running
        if was_running:
            ended.stop()
        if self.get_resources_dir():
            resources.save_generated_kernels(self.resources_dir)
        try:
            target = Path(self.output_file_path)
            with errors_named_as(ended.path, target):
                ended.close()
            self.findings = self._finish(ended.path, target)
        finally:
            with suppress(OSError):
                ended.path.unlink(missing_ok=True)
            self._collect_tensors(ended, self.get_resources_dir())

    def rename(self, old: str, new: str) -> None:
        """Give the nodes of a name another one, when the file is written as JSON."""
        self._renamed[old] = new

    def discard(self) -> None:
        """Stop, and discard the recording: no file is written."""
        ended, self._recorder = self._recorder, None
        if ended is not None and ended.is_open:
            self._running = False
            ended.discard()
            self._collect_tensors(ended, None)

    def start(self) -> None:
        """Record from now on, if registered."""
        if self._recorder is not None and self._recorder.is_open and not self._running:
            self._recorder.start()
            self._running = True
            _record_process_groups()

    def stop(self) -> None:
        """Record no longer; `start()` continues in the same file."""
        if self._running and self._recorder is not None:
            self._recorder.stop()
        self._running = False

    def cleanup(self) -> None:
        """Handle the profiler's final call: `unregister_callback()`."""
        self.unregister_callback()

    @property
    def is_registered(self) -> bool:
        """Return whether it is registered."""
        return self._recorder is not None and self._recorder.is_open

    def is_running(self) -> bool:
        """Return whether it records."""
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
        """Save what a replay needs besides, such as generated kernels. Call after `register_callback`."""
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """The folder of the extra resources; None if none are collected, or it is not there."""
        if not self.extra_resources_collection:
            return None
        if not self.resources_dir:
            self.resources_dir = resources.resources_dir(self.output_file_path, can_create) or ""
        return self.resources_dir or None

    def _collect_tensors(self, ended: Recorder, folder: str | None) -> None:
        with suppress(OSError):
            resources.collect_tensors(ended.tensors, folder)
            if ended.tensors.parent != ended.path.parent:
                # PyTorch's recorder has folders for them, which are empty now.
                ended.tensors.parent.rmdir()
                ended.tensors.parent.parent.rmdir()

    def _finish(self, part: Path, target: Path) -> tuple[Finding, ...]:
        """Write the recorder's file, repaired, under its name; and a report beside it where there are findings."""
        with writing(target):
            if not part.stat().st_size:
                raise OutputError(str(target), "PyTorch could write nothing", "Is the disk full?")
            with mapped(part) as text:
                renames = [] if is_arrow(target.name) else rename_events(text, self._renamed)
                if self.backend == "torch":
                    findings = _write_repaired(text, target, self._overwrite, renames)
                else:
                    write_whole(target, apply_edits(text, renames), self._overwrite)
                    findings = ()
        report = target.with_name(_stem(target.name) + "_report.json")
        report.unlink(missing_ok=True)
        if findings:
            rows = [
                {"code": f.code.value, "message": f.message, "where": f.where, "count": f.count}
                for f in findings
            ]
            content = json.dumps({"file": target.name, "findings": rows}, indent=2) + "\n"
            write_whole(report, [content.encode()], overwrite=True)
        return findings

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        """The folder of the extra resources of a trace; None if it is not there."""
        return resources.resources_dir(trace_path, create_dir)


def _stem(name: str) -> str:
    return name[: -len(SUFFIX)] if is_arrow(name) else name.split(".json")[0]


def _warn(message: str) -> None:
    warnings.warn(message, CaptureWarning, stacklevel=4)


def _follow(reference: weakref.ref[ExecutionTraceObserver]) -> None:
    """Record to a separate file in a forked child, if the parent records."""
    observer = reference()
    if observer is None or not observer._running:
        return
    # This observer no longer records here; children of this process follow the new one.
    observer._running = False
    name = Path(observer.output_file_path).name
    stem = _stem(name)
    own = ExecutionTraceObserver("native", follow_forks=True)
    own.register_callback(
        Path(observer.output_file_path).with_name(f"{stem}_pid{getpid()}{name[len(stem) :]}")
    )
    own.start()
    observer._follower = own
    # Children of multiprocessing exit without atexit, and drop the finalizers that were registered before the fork.
    multiprocessing.util.register_after_fork(own, _finish_with_multiprocessing)


def _finish_with_multiprocessing(observer: ExecutionTraceObserver) -> None:
    multiprocessing.util.Finalize(observer, observer.unregister_callback, exitpriority=0)


def _finish_at_exit(reference: weakref.ref[ExecutionTraceObserver]) -> None:
    observer = reference()
    if observer is not None:
        observer.unregister_callback()


def _record_process_groups() -> None:
    """Write the process groups as the node that readers search for, as PyTorch's observer does at each start."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        groups = json.dumps(distributed.distributed_c10d._world.pg_config_info, default=str)
        torch.autograd._record_function_with_args_exit(
            torch.autograd._record_function_with_args_enter("## process_group:init ##", groups)
        )


def _write_repaired(
    text: mmap.mmap, target: Path, overwrite: bool, renames: list[Edit]
) -> tuple[Finding, ...]:
    edits, found = repair_execution_trace(text, unescaped_names=_torch_version() <= _ESCAPES_NO_NAME)
    edits = sorted([*edits, *renames], key=lambda edit: edit.start)
    broken = first_error(b"".join(apply_edits(text, edits)) if edits else text)
    if broken:
        raise keep_broken(target, apply_edits(text, edits), f"PyTorch wrote no valid JSON ({broken})")
    write_whole(target, apply_edits(text, edits), overwrite)
    return tuple(replace(finding, path=str(target)) for finding in found)


def _torch_version() -> tuple[int, int]:
    major, minor, *_ = str(torch.__version__).split(".")
    return int(major), int(minor)
