"""`tracebraid metrics`."""

from __future__ import annotations

from typing import Annotated

import polars as pl
import typer

from tracebraid import api
from tracebraid.cli.analysis_question import check_peaks
from tracebraid.cli.job_options import JobOptions, OptionalTracePath, with_job_options
from tracebraid.cli.output import note, output_width, progress, say, say_findings, say_json
from tracebraid.cli.ranks import UNREADABLE, asked_ranks
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
from tracebraid.model.questions.metric import Metric, MetricOptions
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.metrics import (
    metric_list_data,
    metric_list_table,
    metrics_data,
    metrics_table,
    no_values_lines,
)

__all__ = ["metrics"]


@with_job_options
@with_table_options
def metrics(
    job_options: JobOptions,
    table_options: TableOptions,
    path: OptionalTracePath = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List the metrics: unit, formula, and what each needs.")
    ] = False,
    only: Annotated[
        str | None, typer.Option("--only", metavar="NAME,...", help="Only these metrics.")
    ] = None,
    rank: Annotated[int | None, typer.Option("--rank", help="Only this rank.")] = None,
    per_rank: Annotated[bool, typer.Option("--per-rank", help="Print the values of each rank, too.")] = False,
    annotation: Annotated[
        str, typer.Option("--annotation", help="Name of the annotation that marks a step.")
    ] = PROFILER_STEP,
    with_doubtful: Annotated[
        bool,
        typer.Option(
            "--with-doubtful",
            help="Count steps, too, whose figures are doubtful: see tracebraid analyze validity.",
        ),
    ] = False,
    peak_flops: Annotated[
        float | None,
        typer.Option(
            "--peak-flops",
            help="FLOP/s that a device can reach, such as 312e12: what MFU and HFU are shares of.",
        ),
    ] = None,
    peak_bandwidth: Annotated[
        float | None,
        typer.Option(
            "--peak-bandwidth", help="Bytes/s of bus bandwidth that the network can reach, such as 50e9."
        ),
    ] = None,
) -> None:
    """Print the scalars of dashboards and papers: step time, shares, MFU, imbalance, volume; exit code 1 if none."""
    target = table_options.target()
    check_peaks({"peak_flops": peak_flops, "peak_bandwidth": peak_bandwidth})
    chosen, findings = _chosen(only)
    if list_all:
        _list(chosen, findings, target)
        return
    if path is None:
        raise typer.BadParameter("give a PATH; --list names the metrics")
    target.refuse_existing()
    job = job_options.open(path)
    ranks = asked_ranks(job, rank)
    findings += job.findings
    options = MetricOptions(annotation, with_doubtful, peak_flops, peak_bandwidth)
    with progress("reading") as update:
        questions = api.metric_questions(chosen, annotation)
        answers = api.take_readable(job, ranks, questions, update, findings)
        taken = [api.taken_of_rank(chosen, annotation, of_rank) for of_rank in answers]
    if annotation != PROFILER_STEP and not any(of_rank.has_steps for of_rank in taken):
        raise typer.BadParameter(f"no step is marked by {annotation}")
    measured = api.measured(chosen, taken, options)
    _show(measured.frame, target, per_rank)
    say_findings([*findings, *measured.findings])
    nothing = bool(measured.frame.get_column("value").is_null().all())
    for line in no_values_lines(measured.frame) if nothing or target.form is None else ():
        note(line)
    if nothing or any(finding.code is UNREADABLE for finding in findings):
        raise typer.Exit(1)


def _chosen(only: str | None) -> tuple[tuple[Metric, ...], list[Finding]]:
    names = None if only is None else [name.strip() for name in only.split(",") if name.strip()]
    try:
        chosen, findings = api.chosen_metrics(names)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    return chosen, list(findings)


def _show(frame: pl.DataFrame, target: Target, per_rank: bool) -> None:
    """Write or print the values."""
    if target.form is Format.JSON:
        write_json(metrics_data(frame), target)
    elif target.form is not None:
        write_table(frame, target)
    elif frame.get_column("value").is_not_null().any():
        say(metrics_table(frame, per_rank), width=output_width())


def _list(chosen: tuple[Metric, ...], findings: list[Finding], target: Target) -> None:
    say_findings(findings)
    if target.out is None and target.form is Format.JSON:
        say_json(metric_list_data(chosen))
    elif target.out is None and target.form is None:
        say(metric_list_table(chosen), width=output_width())
    else:
        raise typer.BadParameter("--list goes with --json only")
