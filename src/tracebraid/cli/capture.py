"""`tracebraid capture`."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tracebraid import api
from tracebraid.cli.output import note, say_error
from tracebraid.errors import InputError, TracebraidError
from tracebraid.reports.check import diagnosis_text, verdict

__all__ = ["capture"]


def capture(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND...", help="Such as: python train.py; torchrun ... train.py"),
    ],
    out: Annotated[Path, typer.Option("-o", "--output", help="The folder for the traces.")] = Path("traces"),
    skip_first: Annotated[int, typer.Option(help="Steps to leave out at the start.")] = 2,
    wait: Annotated[int, typer.Option(help="Untraced steps before each window.")] = 3,
    warmup: Annotated[int, typer.Option(help="Steps that warm the profiler up.")] = 2,
    active: Annotated[int, typer.Option(help="Steps to record in each window.")] = 3,
    repeat: Annotated[int, typer.Option(help="Number of windows.")] = 1,
    stacks: Annotated[bool, typer.Option("--stacks", help="Record Python stacks.")] = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="Record allocations, of the loop's thread only.")
    ] = False,
    nsys: Annotated[
        bool, typer.Option("--nsys", help="Let Nsight Systems take the times, not Kineto.")
    ] = False,
    recorder: Annotated[
        str, typer.Option(help="Who records the Execution Trace: native, torch, or auto.")
    ] = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files of an earlier run in the folder.")
    ] = False,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Check the traces at the end.")] = True,
) -> None:
    """Run a command and capture both traces of each rank, without a change in its code.

    Steps are those of the optimizer, or the calls of the outermost module where there is none. The exit code is the
    command's own.
    """
    schedule = {"skip_first": skip_first, "wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
    options = {"stacks": stacks, "memory": memory, "overwrite": overwrite, "nsys": nsys, "recorder": recorder}
    settings = api.settings_of(out, schedule, options)
    returncode = api.run_captured(command, settings)
    try:
        if nsys:
            api.export_reports(out)
        _tell(out, check and not nsys)
    except TracebraidError as error:
        say_error(str(error))
    if returncode < 0:
        with suppress(OSError):  # SIGKILL has no handler to put back
            signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
    raise typer.Exit(returncode)


def _tell(out: Path, check: bool) -> None:
    """Say on standard error what was captured; standard output is the command's."""
    if not list(out.glob("manifest_*.json")):
        what = (
            "nothing was captured: no process took an optimizer's step or called a module, or it says above what "
            "kept it from being captured"
        )
        advice = "Is torch used in it? Does it start Python with -I, -E or -S, which keep the capture out?"
        if find_spec("torch") is None:
            advice = (
                "torch is not installed beside tracebraid: pip install 'tracebraid[capture]' in the environment of "
                "the command"
            )
        raise InputError(str(out), what, advice)
    if not check:
        recorded = any(out.rglob("torch_et_*.json.gz"))
        note(
            f"tracebraid: the traces are in {out}"
            if recorded
            else "tracebraid: nothing was recorded, see above"
        )
        return
    checked = api.check(out)
    for one in checked.diagnoses:
        note(diagnosis_text(one))
    note(f"tracebraid: {verdict(checked)}")
    if checked.links:
        note(f"tracebraid: `tracebraid summary {out}` says where the time goes")
