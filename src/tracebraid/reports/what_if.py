"""What changes would bring, for people: the gain, by step and rank, what the paths are made of; and for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from tracebraid.model.graph.what_if import WhatIf, WhatIfNote
from tracebraid.reports.bars import bar
from tracebraid.reports.error_lines import error_lines
from tracebraid.reports.machine import rows_data
from tracebraid.reports.terminal import table_of
from tracebraid.reports.text import cell, printable
from tracebraid.reports.units import duration, percent

__all__ = ["what_if_data", "what_if_parts"]

_SENTENCES = {
    WhatIfNote.INTERFERENCE: "Kernels that come beside communication are slower, by as much as was measured:",
    WhatIfNote.SAME_OVERLAP: "The same kernels run beside communication as did: they are as fast as they were.",
    WhatIfNote.NO_OVERLAP: (
        "Kernels newly run beside communication, which is not modelled: none does in these traces. "
        "They would be slower."
    ),
    WhatIfNote.NO_COMPARISON: (
        "Other kernels run beside communication than did, which is not modelled: the traces do not show "
        "how much slower that makes them."
    ),
    WhatIfNote.RESIDUALS_STAY: "What nothing explains stays as it was measured.",
    WhatIfNote.LATENCY_UNKNOWN: (
        "Of some communication no latency is known: all of its time is taken to be that of its size."
    ),
    WhatIfNote.ALONE: (
        "Some communication is matched with no other rank's: its time holds waiting, which was changed as if it were "
        "transfer. Traces of all ranks mend that."
    ),
    WhatIfNote.NO_STEPS: "No step is marked: the whole trace counts as a single one.",
    WhatIfNote.NO_GAIN: "Nothing is gained: what was changed is not on the critical path.",
}


_BAR_WIDTH = 40
"""Characters of the longer bar."""


def what_if_data(found: WhatIf) -> dict[str, Any]:
    """The answer for JSON."""
    return {
        "before_ns": found.before_ns,
        "after_ns": found.after_ns,
        "gain_ns": found.gain_ns,
        "gain": found.gain,
        "gain_low_ns": found.gain_low_ns,
        "gain_high_ns": found.gain_high_ns,
        "changes": rows_data(found.changes),
        "steps": rows_data(found.steps),
        "paths": rows_data(found.paths),
        "replay_error": asdict(found.replay_error),
        "interference": rows_data(found.interference),
        "notes": [note.value for note in found.notes],
    }


def what_if_parts(found: WhatIf, top: int) -> list[Text | Table]:
    """The texts and tables of an answer.

    Args:
        found: the answer.
        top: rows of each table.
    """
    tables = [_changes(found), _ranks(found, top), _paths(found, top)]
    notes = [Text(_sentence(note, found)) for note in found.notes]
    return [*(Text(line) for line in _head(found)), Text(""), *tables, *notes]


def _sentence(note: WhatIfNote, found: WhatIf) -> str:
    if note is not WhatIfNote.INTERFERENCE:
        return _SENTENCES[note]
    rows = found.interference.select(pl.col("family").cast(pl.String), "slowdown").rows()
    slower = ", ".join(f"{printable(family)} {slowdown:.2f} times" for family, slowdown in rows)
    return f"{_SENTENCES[note]} {slower}."


def _head(found: WhatIf) -> list[str]:
    steps = found.steps.get_column("step").n_unique()
    what = f"a step (mean of {steps:,})" if steps > 1 else "the step"
    verb = "faster" if found.gain_ns >= 0 else "slower"
    lines = [
        f"{duration(found.before_ns)} -> {duration(found.after_ns)}: {what} is {percent(abs(found.gain))} {verb}.",
        f"Gain {duration(found.gain_ns)}; over steps and models of what is unexplained "
        f"{duration(found.gain_low_ns)} to {duration(found.gain_high_ns)}.",
    ]
    if steps > 1:
        lines.append("A step counts from the end of the step before to its own end, the latest of all ranks.")
    return [*lines, *_bars(found), *error_lines(found.replay_error)]


def _bars(found: WhatIf) -> list[str]:
    """The time before and after as bars; nothing where there is no time."""
    most = max(found.before_ns, found.after_ns)
    if most <= 0:
        return []
    times = {"before": found.before_ns, "after": found.after_ns}
    return [
        f"  {name.ljust(6)}  {bar(ns / most, _BAR_WIDTH).ljust(_BAR_WIDTH)}  {duration(ns)}"
        for name, ns in times.items()
    ]


def _table(title: str, *columns: str) -> Table:
    table = table_of(
        title, [(column, "right" if number else "left") for number, column in enumerate(columns)]
    )
    table.min_width = cell_len(title)
    return table


def _changes(found: WhatIf) -> Table:
    table = _table("Changes", "change", "activities", "own time", "after it")
    for row in found.changes.iter_rows(named=True):
        table.add_row(
            cell(printable(row["change"])),
            f"{row['activities']:,}",
            duration(row["before_ns"]),
            duration(row["after_ns"]),
        )
    return table


def _ranks(found: WhatIf, top: int) -> Table:
    """By rank the mean of its steps; of a single rank its steps."""
    if len(found.ranks) > 1:
        rows = found.steps.drop_nulls("rank").group_by("rank").agg(pl.col("before_ns", "after_ns").mean())
        rows = rows.with_columns(gain_ns=pl.col("before_ns") - pl.col("after_ns"))
        rows = rows.sort(pl.col("gain_ns").abs(), "rank", descending=[True, False])
        title, key = "By rank, mean of its steps", "rank"
    else:
        rows, key = found.steps.filter(pl.col("rank").is_null()), "step"
        title = "By step"
    table = _table(title, key, "before", "after", "gain")
    for row in rows.head(top).iter_rows(named=True):
        name = "all" if row[key] is None else str(row[key])
        times = [duration(row[column]) for column in ("before_ns", "after_ns", "gain_ns")]
        table.add_row(cell(printable(name)), *times)
    return table


def _paths(found: WhatIf, top: int) -> Table:
    steps = max(found.steps.get_column("step").n_unique(), 1)
    title = "On the critical path"
    if steps > 1:
        title += ", per step from its own start"
    table = _table(title, "kind", "before", "after")
    for row in found.paths.head(top).iter_rows(named=True):
        table.add_row(row["kind"], duration(row["before_ns"] / steps), duration(row["after_ns"] / steps))
    return table
