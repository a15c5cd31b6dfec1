"""Captures: of a loop in this process, and of a command's processes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracebraid.api.checking import check as _check
from tracebraid.ctrl_c import raised_outside_polars
from tracebraid.errors import ArgumentError, CaptureWarning, InputError
from tracebraid.importers.discovery.capture_folder import manifests_of
from tracebraid.model.capture_outcome import CaptureOutcome, Recorded
from tracebraid.model.check import Severity
from tracebraid.model.finding_code import FindingCode
from tracebraid.recorders.launcher.launch import launch
from tracebraid.recorders.launcher.nsys_command import export_reports
from tracebraid.recorders.session.schedule import Schedule
from tracebraid.recorders.session.settings import BACKENDS, STEPS_BY, Settings

if TYPE_CHECKING:
    from tracebraid.recorders.session.capture import Capture

__all__ = ["capture", "export_reports", "recorded_by_rank", "run_captured", "settings_of"]

_DEFAULT = Schedule()


def capture(
    out_dir: str | Path,
    *,
    skip_first: int = _DEFAULT.skip_first,
    wait: int = _DEFAULT.wait,
    warmup: int = _DEFAULT.warmup,
    active: int = _DEFAULT.active,
    repeat: int = _DEFAULT.repeat,
    stacks: bool = False,
    memory: bool = False,
    overwrite: bool = False,
    new: bool = False,
    check: bool = True,
    recorder: str = "auto",
) -> Capture:
    """Record both traces of this process, over some steady steps of a loop.

    A context manager around a training or inference loop, or a decorator of the function that holds it; `step()`
    of what it gives is called at the end of each iteration; a decorated `train` has it as `train.capture`. Each rank
    leaves `torch_et_<rank>.json.gz`,
    `kineto_trace_<rank>.json.gz` and `manifest_<rank>.json`. At the end the files are checked, and a
    `CaptureWarning` says what is wrong.

    Args:
        out_dir: the folder for the files; it is made if it is not there.
        skip_first: steps to leave out at the start.
        wait: untraced steps before each window.
        warmup: steps that warm the profiler up, before each window.
        active: steps to record in each window. By default these are steps 7 to 9, counted from 0.
        repeat: number of windows.
        stacks: whether to record Python stacks.
        memory: whether to record allocations; then Kineto records only the loop's thread and those of autograd.
        overwrite: whether files of an earlier run may be replaced.
        new: whether this run gets a folder of its own in `out_dir`: `run_1`, `run_2` and so on, see `Capture.out_dir`.
        check: whether to read the files back at the end, and check that they link.
        recorder: of the Execution Trace: `native`, built on its first use, `torch`, or `auto`.

    Raises:
        ArgumentError: a schedule that would never record, or no such recorder.
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

    schedule = {"skip_first": skip_first, "wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
    options = {"stacks": stacks, "memory": memory, "overwrite": overwrite, "new": new, "recorder": recorder}
    settings = settings_of(out_dir, schedule, options)
    return Capture(settings, at_end=_check_own if check else None)


def run_captured(command: Sequence[str], settings: Settings) -> CaptureOutcome:
    """Run a command whose Python processes capture themselves, by the steps of their optimizers.

    Args:
        command: the program and its arguments, such as `["python", "train.py"]` or `["torchrun", ...]`.
        settings: what to capture, see `settings_of`.

    Returns:
        How it ended, and why nothing was recorded, if that is so.

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
        options: `stacks`, `memory`, `overwrite`, `new`, `nsys`, `recorder`, `steps_by`.

    Raises:
        ArgumentError: a schedule that would never record, a word that is none of its words, or no such recorder or
            word for steps.
    """
    if options.get("recorder", "auto") not in BACKENDS:
        raise ArgumentError(f"there is no recorder {options['recorder']!r}; there is {', '.join(BACKENDS)}")
    if options.get("steps_by", "auto") not in STEPS_BY:
        raise ArgumentError(f"steps end by {', '.join(STEPS_BY)}, not by {options['steps_by']!r}")
    unknown = sorted(set(schedule) - set(Schedule.__dataclass_fields__))
    if unknown:
        words = ", ".join(Schedule.__dataclass_fields__)
        raise ArgumentError(f"a schedule has no {unknown[0]!r}; it has {words}")
    return Settings(str(Path(out_dir).absolute()), Schedule(**schedule), **options)


def recorded_by_rank(out_dir: str | Path) -> tuple[Recorded, ...]:
    """What each rank of a capture recorded, as its manifest has it; ranks that recorded nothing are left out.

    Args:
        out_dir: the folder of the capture.
    """
    found = []
    for _, content in manifests_of(str(out_dir))[0]:
        windows = [window for window in content.get("windows", []) if window.get("files")]
        if windows:
            found.append(
                Recorded(
                    rank=content.get("rank", 0),
                    steps=tuple(step for window in windows for step in window.get("steps", ())),
                    steps_seen=content.get("steps_seen", 0),
                    counted_by=content.get("steps_counted_by", ""),
                    loop=content.get("loop") or "",
                    loops=tuple(content.get("loops") or ()),
                    traced_to_untraced=content.get("overhead", {}).get("traced_to_untraced"),
                    lost=tuple(
                        str(window["failure"]) for window in content["windows"] if window.get("failure")
                    ),
                )
            )
    return tuple(sorted(found, key=lambda recorded: recorded.rank))


def _check_own(capture: Capture) -> None:
    """Check what this process has written, and warn of what does not link."""
    if not any(window["files"] for window in capture.windows):
        return
    try:
        with raised_outside_polars():
            capture.checked = _check(capture.out_dir, only_rank=capture.rank)
    except InputError as error:
        warnings.warn(str(error), CaptureWarning, stacklevel=5)
        return
    for diagnosis in capture.checked.diagnoses:
        # A window that is lost was reported when that happened.
        if diagnosis.severity is Severity.ERROR and diagnosis.finding.code is not FindingCode.WINDOW_LOST:
            warnings.warn(f"{diagnosis.finding}. {diagnosis.advice}", CaptureWarning, stacklevel=5)
