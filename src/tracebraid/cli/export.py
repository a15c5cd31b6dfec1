"""`tracebraid export`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import tracebraid
from tracebraid.chakra.exporting.astra_sim import RUN_SCRIPT
from tracebraid.chakra.exporting.export import SIMULATOR_FOLDER
from tracebraid.chakra.exporting.replay import ChakraReplay, NotCompared, ReplayedStep
from tracebraid.cli.chakra_choices import ChakraChoices
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import exit_if_unreadable, note, progress, say_findings
from tracebraid.cli.parameters import Option, with_option_members
from tracebraid.errors import ArgumentError
from tracebraid.files import refuse_target
from tracebraid.model.export_format import ExportFormat, fits, formats_help
from tracebraid.model.quantities import duration, percent, size

_BEYOND_SHOWN = 5
"""Number of listed steps whose replay error exceeds the bound; `export.json` has all."""


@command(Group.EXPORT, 1, lambda options: (Extra.CHAKRA,) if options["to"] is ExportFormat.CHAKRA else ())
@with_job_options
@with_option_members("chakra", ChakraChoices)
def export(
    path: TracePath,
    job_options: JobOptions,
    chakra: ChakraChoices,
    to: Annotated[ExportFormat, Option("--to", metavar="FORMAT", help=formats_help())],
    out: Annotated[Path, Option("-o", "--output", metavar="OUT", help="The new file, or the new folder.")],
    rank: Annotated[int | None, Option("--rank", help="Only this rank.")] = None,
    step: Annotated[
        str | None, Option("--step", metavar="N", help="Only this step: its number, or its name.")
    ] = None,
    top: Annotated[
        int | None,
        Option("--top", min=1, metavar="K", help="In a graph of ops, only the K ops with the most time."),
    ] = None,
    near: Annotated[
        str | None,
        Option(
            "--near", metavar="NAME", help="In a graph of ops, only ops of this name and their neighbours."
        ),
    ] = None,
) -> None:
    """Export a run to Perfetto, tables, flame graphs, op graphs, or simulators."""
    _check_name(out, to)
    of_chakra = chakra.options(to)
    refuse_target(out)
    with progress("exporting") as update:
        job = job_options.open(path, update)
        done = tracebraid.export(job, out, to, tracebraid.ExportOptions(rank, step, top, near, of_chakra))
    say_findings(done.findings)
    what = "nodes" if to is ExportFormat.CHAKRA else "rows"
    rows = "" if done.rows is None else f"{done.rows:,} {what} in "
    files = "1 file" if done.files == 1 else f"{done.files:,} files"
    note(f"{out}: {rows}{files}, {size(done.size_bytes)}")
    if to is ExportFormat.CHAKRA:
        _say_how_to_run(out)
    if done.replay is not None:
        _say_replay(done.replay, "predicted" if chakra.change else "measured")
        if not (done.replay.is_within or chakra.allow_replay_error):
            raise SystemExit(1)
    exit_if_unreadable(done.findings)


def _say_replay(replay: ChakraReplay, times: str) -> None:
    """Print the replay error of the worst step, the steps beyond the bound, and how many have none."""
    unknown = sum(row.not_compared is NotCompared.NOT_MEASURED for row in replay.rows)
    if unknown:
        stages = "stages were not traced"
        why = stages if unknown == len(replay.rows) else "steps between them are not exported"
        takes = duration(max(row.replayed_ns or 0 for row in replay.rows if row.step is None))
        note(f"replay: {takes} in all; {unknown:,} of {len(replay.rows):,} are not compared: {why}")
    worst = replay.worst
    if worst is None:
        return
    where = f"rank {worst.rank}, {worst.step or 'all of it'}"
    if worst.replayed_ns is None or worst.measured_ns is None:
        note(f"replay: {where} does not end")
    else:
        took = f"{duration(worst.replayed_ns)} for {duration(worst.measured_ns)}"
        note(f"replay: at most {_error(worst)} off the {times} times ({where}: {took})")
    beyond = replay.beyond
    if not beyond:
        return
    named = [f"rank {row.rank} {row.step or 'all of it'}: {_error(row)}" for row in beyond[:_BEYOND_SHOWN]]
    more = [f"{len(beyond) - _BEYOND_SHOWN:,} more"] if len(beyond) > _BEYOND_SHOWN else []
    note(f"replay: {len(beyond):,} of {len(replay.rows):,} are beyond the bound: {'; '.join(named + more)}")
    note("replay: see `replay` in export.json, or allow it with --allow-replay-error")


def _error(row: ReplayedStep) -> str:
    """Format an error as time and as a share."""
    if row.error_ns is None:
        return "never ends"
    share = "" if row.error_share is None else f" ({percent(abs(row.error_share))})"
    return f"{duration(abs(row.error_ns))}{share}"


def _say_how_to_run(folder: Path) -> None:
    note(f"`tracebraid chakra run {quote(str(folder))}` runs it on networks")
    script = folder / SIMULATOR_FOLDER / RUN_SCRIPT
    if script.exists():
        note(f"`ASTRA_SIM=BINARY {quote(str(script))}` runs it in ASTRA-sim")


def _check_name(out: Path, to: ExportFormat) -> None:
    """Reject a file name of another format.

    Raises:
        ArgumentError: lists the suffixes of the format.
    """
    if fits(out.name, to):
        return
    if to.is_folder:
        each = "rank" if to is ExportFormat.CHAKRA else "table"
        raise ArgumentError(f"{to.value} is a folder with a file for each {each}; {out.name} names a file")
    ends = " or ".join(to.suffixes[:2])
    raise ArgumentError(f"{out.name} is not the name of a {to.value} file; it must end in {ends}")
