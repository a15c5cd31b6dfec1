"""`tracebraid what-if`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import tracebraid
from tracebraid.api.simulating import changes_help
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import JobOptions, TracePath, with_job_options
from tracebraid.cli.output import end, findings_data, output_width, progress, say, say_json, say_worst_gap
from tracebraid.cli.parameters import Option
from tracebraid.cli.table_output import Format, Target, write_table
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph import SweepBy
from tracebraid.model.finding import Finding
from tracebraid.reports.straggler_metrics import straggler_data, straggler_parts
from tracebraid.reports.sweep import sweep_data, sweep_parts
from tracebraid.reports.what_if import what_if_data, what_if_parts


@command(Group.COMPARE, 2)
@with_job_options
def what_if(
    path: TracePath,
    job_options: JobOptions,
    change: Annotated[
        list[str] | None,
        Option(
            "--change",
            metavar="CHANGE",
            help="The change, such as 'scale 0.5 family=gemm' or 'remove op=aten::item'. Can be repeated; changes "
            f"apply in order. There are: {changes_help()}.",
        ),
    ] = None,
    sweep: Annotated[
        bool,
        Option(
            "--sweep",
            help="Instead of a change: gain of a step if each op, kernel, module, collective, ... were faster.",
        ),
    ] = False,
    by: Annotated[
        list[SweepBy] | None,
        Option("--by", help="Only these groups of a sweep. Can be repeated."),
    ] = None,
    stragglers: Annotated[
        bool,
        Option(
            "--stragglers",
            help="Instead of a change: gain of a step if equal operations took equally long on all ranks.",
        ),
    ] = False,
    top: Annotated[
        int, Option("--top", min=1, metavar="K", help="Print the first K rows of each table.")
    ] = 10,
    json: Annotated[bool, Option("--json", help="Print all of the answer as JSON.")] = False,
    csv: Annotated[bool, Option("--csv", help="Print the times of steps, before and after, as CSV.")] = False,
) -> None:
    """Predict the effect of a change: replay the job from its dependencies with and without it."""
    if json and csv:
        raise ArgumentError("give one of --json and --csv")
    if bool(change) + sweep + stragglers != 1:
        raise ArgumentError("give one of --change, --sweep and --stragglers")
    if by and not sweep:
        raise ArgumentError("--by needs --sweep")
    width = output_width()
    with progress("answering") as update:
        job = job_options.open(path, update)
        graph = tracebraid.dependency_graph(job)
        names = graph.steps.get_column("step")
        unmarked = graph.annotation if names.null_count() == len(names) else None
        if sweep:
            swept = tracebraid.sweep(graph, by=[kind.value for kind in by or ()])
            data, table = partial(sweep_data, swept), swept
            parts = partial(sweep_parts, swept, top, width, unmarked=unmarked)
        elif stragglers:
            late = tracebraid.straggler_metrics(graph)
            data, table = partial(straggler_data, late), late
            parts = partial(straggler_parts, late, top, width, unmarked=unmarked)
        else:
            found = tracebraid.what_if(job, *change or [])
            data, table, parts = partial(what_if_data, found), found.steps, partial(what_if_parts, found, top)
    findings: Sequence[Finding] = job.findings
    if json:
        say_json({**data(), **findings_data(findings)})
    elif csv:
        write_table(table, Target(Format.CSV, None))
    else:
        findings = say_worst_gap(findings)
        say(*parts())
    end(findings)
