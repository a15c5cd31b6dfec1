"""`tracebraid chakra stats`."""

from __future__ import annotations

from typing import Annotated

import polars as pl

from tracebraid import chakra
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.job_options import path_or_url
from tracebraid.cli.output import output_width, progress, say, say_findings, say_json
from tracebraid.cli.parameters import Argument, Option
from tracebraid.reports.fitted_table import Head, fitted_table
from tracebraid.reports.machine import finding_data, rows_data

_TITLES = {"ranks": "ranks", "nodes": "nodes by type and kind", "communication": "communication"}
_RANKS_SHOWN = 16
"""With more ranks, the first and the total are shown; --json has all."""


@command(Group.CHAKRA, 3, Extra.CHAKRA)
def stats(
    paths: Annotated[
        list[str],
        Argument(metavar="DIR|FILE...", help="A folder of PREFIX.RANK.et, or the files.", parser=path_or_url),
    ],
    json: Annotated[bool, Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Statistics of .et files: nodes, durations, bytes by collective and group, dependencies, chains."""
    with progress("reading") as update:
        counted = chakra.stats(paths, progress=update)
    frames = {name: getattr(counted, name) for name in _TITLES}
    if json:
        tables = {name: rows_data(frame) for name, frame in frames.items()}
        say_json({**tables, "findings": [finding_data(finding) for finding in counted.findings]})
        say_findings(counted.findings)
        return
    width = output_width()
    for name, frame in frames.items():
        shown = frame.filter(
            pl.col("rank").is_null()
            if name != "ranks"
            else pl.col("rank").is_null() | (pl.int_range(pl.len()) < _RANKS_SHOWN)
        )
        heads = [
            Head(column.replace("_", " "), "left" if dtype in (pl.String, pl.Categorical) else "right")
            for column, dtype in shown.schema.items()
        ]
        rows = [
            [_cell(column, value) for column, value in row.items()] for row in shown.iter_rows(named=True)
        ]
        say(fitted_table(_TITLES[name], heads, rows, width, 3))
    say_findings(counted.findings)


def _cell(column: str, value: object) -> str:
    if column == "rank":
        return "all" if value is None else str(value)
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
