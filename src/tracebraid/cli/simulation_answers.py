"""What `tracebraid what-if` prints of a job without a change: a sweep, straggler metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracebraid import api
from tracebraid.cli.output import output_width, say, say_json
from tracebraid.cli.ranks_of_graph import AskedGraph, findings_data
from tracebraid.cli.table_output import Format, Target, write_table
from tracebraid.reports.straggler_metrics import straggler_data, straggler_parts
from tracebraid.reports.sweep import sweep_data, sweep_parts

__all__ = ["Shown", "say_stragglers", "say_sweep"]


@dataclass(frozen=True)
class Shown:
    """How an answer is printed.

    Args:
        top: rows of each table for people.
        json: as JSON.
        csv: all rows, as CSV.
    """

    top: int
    json: bool
    csv: bool


def say_sweep(asked: AskedGraph, by: Sequence[str], annotation: str, shown: Shown) -> None:
    """Print what a step gains for each group of work."""
    found = api.sweep(asked.graph, by=by, annotation=annotation)
    if shown.json:
        say_json({**sweep_data(found), **findings_data(asked.findings)})
    elif shown.csv:
        write_table(found, Target(Format.CSV, None))
    else:
        say(*sweep_parts(found, shown.top, output_width(), unmarked=_unmarked(asked, annotation)))


def say_stragglers(asked: AskedGraph, annotation: str, shown: Shown) -> None:
    """Print what stragglers cost."""
    found = api.straggler_metrics(asked.graph, annotation=annotation)
    if shown.json:
        say_json({**straggler_data(found), **findings_data(asked.findings)})
    elif shown.csv:
        write_table(found, Target(Format.CSV, None))
    else:
        say(*straggler_parts(found, shown.top, output_width(), unmarked=_unmarked(asked, annotation)))


def _unmarked(asked: AskedGraph, annotation: str) -> str | None:
    """What should mark steps, where none is marked."""
    names = asked.graph.steps.get_column("step")
    return annotation if names.null_count() == len(names) else None
