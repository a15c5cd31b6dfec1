"""`tracebraid metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import polars as pl

import tracebraid
from tracebraid.api.measuring import chosen_metrics
from tracebraid.cli.analyze import check_peaks
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import JobOptions, OptionalTracePath, with_job_options
from tracebraid.cli.output import (
    exit_if_unreadable,
    note,
    output_width,
    progress,
    say,
    say_findings,
    say_json,
    say_worst_gap,
)
from tracebraid.cli.parameters import Option
from tracebraid.cli.table_output import (
    Format,
    TableOptions,
    Target,
    with_table_options,
    write_json,
    write_table,
)
from tracebraid.errors import ArgumentError
from tracebraid.model.finding import Finding
from tracebraid.model.questions import Metric
from tracebraid.reports.metrics import (
    metric_list_data,
    metric_list_table,
    metrics_data,
    metrics_table,
    no_values_lines,
)


@command(Group.LOOK, 4)
@with_job_options
@with_table_options
def metrics(
    job_options: JobOptions,
    table_options: TableOptions,
    path: OptionalTracePath = None,
    list_all: Annotated[
        bool, Option("--list", help="List the metrics: unit, formula, and what each needs.")
    ] = False,
    only: Annotated[str | None, Option("--only", metavar="NAME,...", help="Only these metrics.")] = None,
    rank: Annotated[int | None, Option("--rank", help="Only this rank.")] = None,
    per_rank: Annotated[bool, Option("--per-rank", help="Print the values of each rank as well.")] = False,
    with_doubtful: Annotated[
        bool,
        Option(
            "--with-doubtful",
            help="Include doubtful steps: see tracebraid analyze validity.",
        ),
    ] = False,
    peak_flops: Annotated[
        float | None,
        Option(
            "--peak-flops",
            help="Peak FLOP/s of a device, such as 312e12, for MFU and HFU.",
        ),
    ] = None,
    peak_bandwidth: Annotated[
        float | None,
        Option("--peak-bandwidth", help="Peak bus bandwidth of the network in bytes/s, such as 50e9."),
    ] = None,
) -> None:
    """Print metrics for dashboards and papers: step time, shares, MFU, imbalance. Exit code 1 if there are none."""
    target = table_options.target()
    check_peaks({"peak_flops": peak_flops, "peak_bandwidth": peak_bandwidth})
    names = None if only is None else [name.strip() for name in only.split(",") if name.strip()]
    chosen, unusable = chosen_metrics(names)
    if list_all:
        _list(chosen, unusable, target)
        return
    if path is None:
        raise ArgumentError("give a PATH; --list names the metrics")
    target.refuse_existing()
    with progress("answering") as update:
        job = job_options.open(path, update)
        job.add_findings(unusable)
        frame = tracebraid.metrics(
            job.only(rank),
            only=chosen,
            with_doubtful=with_doubtful,
            peak_flops=peak_flops,
            peak_bandwidth=peak_bandwidth,
        )
    findings = job.findings if target.form is not None else say_worst_gap(job.findings)
    _show(frame, target, per_rank)
    say_findings(findings)
    nothing = bool(frame.get_column("value").is_null().all())
    for line in no_values_lines(frame) if nothing or target.form is None else ():
        note(line)
    if nothing:
        raise SystemExit(1)
    exit_if_unreadable(job.findings)


def _show(frame: pl.DataFrame, target: Target, per_rank: bool) -> None:
    """Write or print the values."""
    if target.form is Format.JSON:
        write_json(metrics_data(frame), target)
    elif target.form is not None:
        write_table(frame, target)
    elif frame.get_column("value").is_not_null().any():
        say(metrics_table(frame, per_rank), width=output_width())


def _list(chosen: Sequence[Metric], findings: Sequence[Finding], target: Target) -> None:
    say_findings(findings)
    if target.out is None and target.form is Format.JSON:
        say_json(metric_list_data(chosen))
    elif target.out is None and target.form is None:
        width = output_width()
        say(metric_list_table(chosen, width), width=width)
    else:
        raise ArgumentError("--list goes with --json only")
