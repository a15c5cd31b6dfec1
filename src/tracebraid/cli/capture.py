"""`tracebraid capture`."""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import tracebraid
from tracebraid.api.checking import recorded_by_rank, run_captured, settings_of
from tracebraid.cli.commands import Group, command
from tracebraid.cli.output import note, say_error
from tracebraid.cli.parameters import Argument, Option
from tracebraid.errors import InputError, TracebraidError
from tracebraid.model.capture_outcome import CaptureOutcome
from tracebraid.recorders.launcher.nsys_command import export_reports
from tracebraid.reports.capture import nothing_text, recorded_texts
from tracebraid.reports.check import diagnosis_text, verdict


@command(Group.RECORD, 1, allow_interspersed_args=False)
def capture(
    command: Annotated[
        list[str],
        Argument(metavar="-- COMMAND...", help="Such as: python train.py; torchrun ... train.py"),
    ],
    out: Annotated[Path, Option("-o", "--output", help="The folder for the traces.")] = Path("traces"),
    skip_first: Annotated[int, Option(help="Steps to skip at the start.")] = 2,
    wait: Annotated[int, Option(help="Untraced steps before each window.")] = 3,
    warmup: Annotated[int, Option(help="Steps to warm up the profiler.")] = 2,
    active: Annotated[int, Option(help="Steps to record in each window.")] = 3,
    repeat: Annotated[int, Option(help="Number of windows.")] = 1,
    stacks: Annotated[bool, Option("--stacks", help="Record Python stacks.")] = False,
    memory: Annotated[bool, Option("--memory", help="Record allocations of the loop's thread.")] = False,
    nsys: Annotated[
        bool, Option("--nsys", help="Measure times with Nsight Systems instead of Kineto.")
    ] = False,
    recorder: Annotated[
        str, Option(help="Recorder of the Execution Trace: native, torch, or auto.")
    ] = "auto",
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace files of an earlier run in the folder.")
    ] = False,
    new: Annotated[bool, Option("--new", help="Write to a new subfolder: run_1, run_2, ...")] = False,
    steps_by: Annotated[
        str, Option(metavar="auto|optimizer|module", help="Event that ends a step of the program.")
    ] = "auto",
    calibrate: Annotated[
        bool, Option("--calibrate/--no-calibrate", help="Measure the cost of recording after a window.")
    ] = True,
    require: Annotated[bool, Option("--require", help="Exit with 1 if nothing was captured.")] = False,
    check: Annotated[bool, Option("--check/--no-check", help="Check the traces at the end.")] = True,
) -> None:
    """Run a command and record both traces of every rank, without code changes.

    Steps are optimizer steps, or calls of the outermost module if there is no optimizer. The exit code is the
    command's; with --require it is 1 if the command succeeded but nothing was captured.
    """
    schedule = {"skip_first": skip_first, "wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
    options = {"stacks": stacks, "memory": memory, "overwrite": overwrite, "nsys": nsys, "recorder": recorder}
    settings = settings_of(
        out, schedule, {**options, "new": new, "steps_by": steps_by, "calibrate": calibrate}
    )
    outcome = run_captured(command, settings)
    returncode = outcome.returncode
    try:
        if nsys:
            export_reports(Path(outcome.out_dir))
        _report(outcome, check and not nsys)
    except TracebraidError as error:
        say_error(str(error))
    if returncode < 0:
        with suppress(OSError):  # SIGKILL has no handler to put back
            signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
    raise SystemExit(returncode or int(require and outcome.nothing is not None))


def _report(outcome: CaptureOutcome, check: bool) -> None:
    """Report the capture on standard error; standard output belongs to the command."""
    out = outcome.out_dir
    if outcome.nothing is not None:
        raise InputError(out, *nothing_text(outcome))
    checked = tracebraid.check(out) if check else None
    recorded = recorded_by_rank(out)
    if recorded:
        for text in recorded_texts(recorded, checked):
            note(f"tracebraid: {text}")
    problems = Counter(process.problem for process in outcome.notes if process.problem)
    for problem, count in sorted(problems.items()):
        what = "a process was" if count == 1 else f"{count} processes were"
        note(f"tracebraid: {what} not captured: {problem}")
    if checked is None:
        for reason in sorted({reason for rank in recorded for reason in rank.lost}):
            note(f"tracebraid: a window is lost: {reason}")
        note(f"tracebraid: the traces are in {out}")
        return
    for diagnosis in checked.diagnoses:
        note(*diagnosis_text(diagnosis).split("\n"))
    note(f"tracebraid: {verdict(checked)}")
    if checked.links:
        note(f"tracebraid: `tracebraid summary {out}` says where the time goes")
