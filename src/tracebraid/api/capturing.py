"""Captures: of a loop in this process, and of a command's processes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracebraid.api.checking import check as _check
from tracebraid.errors import ArgumentError, CaptureWarning, InputError
from tracebraid.model.check import Severity
from tracebraid.recorders.launcher.launch import launch
from tracebraid.recorders.launcher.nsys_command import export_reports
from tracebraid.recorders.session.schedule import Schedule
from tracebraid.recorders.session.settings import BACKENDS, Settings

if TYPE_CHECKING:
    from tracebraid.recorders.session.capture import Capture

__all__ = ["capture", "export_reports", "run_captured", "settings_of"]


def capture(
    out_dir: str | Path,
    *,
    stacks: bool = False,
    memory: bool = False,
    overwrite: bool = False,
    check: bool = True,
    recorder: str = "auto",
    **schedule: int,
) -> Capture:
    """Record both traces of this process, over some steady steps of a loop.

    A context manager around a training or inference loop, or a decorator of the function that holds it; `step()`
    of what it gives is called at the end of each iteration. Each rank leaves `torch_et_<rank>.json.gz`,
    `kineto_trace_<rank>.json.gz` and `manifest_<rank>.json`. At the end the files are checked, and a
    `CaptureWarning` says what is wrong.

    Args:
        out_dir: the folder for the files; it is made if it is not there.
        stacks: whether to record Python stacks.
        memory: whether to record allocations; then Kineto records only the loop's thread and those of autograd.
        overwrite: whether files of an earlier run may be replaced.
        check: whether to read the files back at the end, and check that they link.
        recorder: of the Execution Trace: `native`, built on its first use, `torch`, or `auto`.
        schedule: `skip_first`, `wait`, `warmup`, `active` and `repeat`, numbers of steps as
            `torch.profiler.schedule` has them; by default 2, 3, 2, 3 and 1: steps 7 to 9, counted from 0.

    Raises:
        ArgumentError: a schedule that would never record, a word that is none of its words, or no such recorder.
        MissingLibraryError: torch is not installed.
        CaptureError: on entering, where a capture or a profiler is active in this process, or there is no native
            recorder to be had; from `step()` outside.
        OutputError: on entering, where the folder cannot be written or holds this rank's files of another run.

    Example::

        with tracebraid.capture("traces") as cap:
            for batch in loader:
                train(batch)
                cap.step()
    """
    from tracebraid.recorders.session.capture import Capture

    options = {"stacks": stacks, "memory": memory, "overwrite": overwrite, "recorder": recorder}
    settings = settings_of(out_dir, schedule, options)
    return Capture(settings, at_end=_check_own if check else None)


def run_captured(command: Sequence[str], settings: Settings) -> int:
    """Run a command whose Python processes capture themselves, by the steps of their optimizers.

    Args:
        command: the program and its arguments, such as `["python", "train.py"]` or `["torchrun", ...]`.
        settings: what to capture, see `settings_of`.

    Returns:
        Its exit code; less than 0 where a signal ended it.

    Raises:
        CaptureError: there is no such program, or no Nsight Systems where that is asked for.
        OutputError: the folder cannot be written.
    """
    return launch(command, settings)


def settings_of(out_dir: str | Path, schedule: dict[str, int], options: dict[str, Any]) -> Settings:
    """The settings of a capture.

    Args:
        out_dir: the folder for the files.
        schedule: words of `Schedule`.
        options: `stacks`, `memory`, `overwrite`, `nsys`, `recorder`.

    Raises:
        ArgumentError: a schedule that would never record, a word that is none of its words, or no such recorder.
    """
    if options.get("recorder", "auto") not in BACKENDS:
        raise ArgumentError(f"there is no recorder {options['recorder']!r}; there is {', '.join(BACKENDS)}")
    unknown = sorted(set(schedule) - set(Schedule.__dataclass_fields__))
    if unknown:
        words = ", ".join(Schedule.__dataclass_fields__)
        raise ArgumentError(f"a schedule has no {unknown[0]!r}; it has {words}")
    return Settings(str(Path(out_dir).absolute()), Schedule(**schedule), **options)


def _check_own(capture: Capture) -> None:
    """Check what this process has written, and warn of what does not link."""
    if not any(window["files"] for window in capture.windows):
        return
    try:
        capture.checked = _check(capture.out_dir, only_rank=capture.rank)
    except InputError as error:
        warnings.warn(str(error), CaptureWarning, stacklevel=5)
        return
    for diagnosis in capture.checked.diagnoses:
        if diagnosis.severity is Severity.ERROR:
            warnings.warn(f"{diagnosis.finding}. {diagnosis.advice}", CaptureWarning, stacklevel=5)
