"""Report what-if results: the gain by step and rank, and the parts of the paths, as text and JSON."""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec.structs import asdict
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from tracebraid.model.graph import Doubt, WhatIf, WhatIfNote
from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, percent, size
from tracebraid.reports.breakdown_bars import bar
from tracebraid.reports.critical_path import KINDS
from tracebraid.reports.error_lines import error_lines
from tracebraid.reports.fitted_table import table_of
from tracebraid.reports.machine import rows_data
from tracebraid.reports.names import cell

_SENTENCES = {
    WhatIfNote.INTERFERENCE: "Kernels that come beside communication are slower, by as much as was measured:",
    WhatIfNote.SAME_OVERLAP: "The same kernels run beside communication as before: their speed is unchanged.",
    WhatIfNote.NO_OVERLAP: (
        "Kernels newly run beside communication, which is not modelled: none does in these traces. "
        "They would be slower."
    ),
    WhatIfNote.NO_COMPARISON: (
        "Other kernels run beside communication than did, which is not modelled: the traces do not show "
        "how much slower that makes them."
    ),
    WhatIfNote.RESIDUALS_STAY: "Unexplained time stays as measured.",
    WhatIfNote.LATENCY_UNKNOWN: (
        "Some communication has no known latency: all of its time is attributed to its size."
    ),
    WhatIfNote.ALONE: (
        "Some communication is matched with no other rank's: its time holds waiting, which was changed as if it were "
        "transfer. Traces of all ranks mend that."
    ),
    WhatIfNote.RECORDING_SCALED: (
        "Without what recording was measured to cost, the step is not as long as the unrecorded steps of this run; "
        "so these costs are multiplied by"
    ),
    WhatIfNote.RECORDING_DISAGREES: (
        "Without what recording was measured to cost, the step is not as long as the unrecorded steps of this run: "
        "times without recording are doubtful."
    ),
    WhatIfNote.NO_STEPS: "No step is marked: the whole trace counts as one step.",
    WhatIfNote.NOTHING_CHANGES: (
        "The selected communication stays as it is: by the line fitted to it, nothing of it depends on that; see "
        "tracebraid analyze collective-fit."
    ),
    WhatIfNote.NO_GAIN: "No gain: as far as the traces show, no step waits for the changed work.",
}

_DOUBTS = {
    Doubt.STEPS: "steps and runs differ by themselves",
    Doubt.RESIDUALS: "unexplained time may be as in other steps",
    Doubt.MODEL: "predictions of such changes are not exact",
    Doubt.CONTENTION: "threads share cores",
    Doubt.SHAPE: "how work depends on shapes is fitted to few of them",
    Doubt.RECORDING: "what recording costs is not exactly known",
}


_BAR_WIDTH = 40
"""Width of the longer bar, in characters."""


def what_if_data(found: WhatIf) -> dict[str, Any]:
    """The answer for JSON."""
    return {
        "before_ns": found.before_ns,
        "after_ns": found.after_ns,
        "gain_ns": found.gain_ns,
        "gain": found.gain,
        "gain_low_ns": found.gain_low_ns,
        "gain_high_ns": found.gain_high_ns,
        "doubts": rows_data(found.doubts),
        "changes": rows_data(found.changes),
        "shape_basis": rows_data(found.shape_basis),
        "shape_memory": rows_data(found.shape_memory),
        "steps": rows_data(found.steps),
        "paths": rows_data(found.paths),
        "replay_error": asdict(found.replay_error),
        "interference": rows_data(found.interference),
        "notes": [note.value for note in found.notes],
        "unrecorded": None if found.unrecorded is None else asdict(found.unrecorded),
    }


def what_if_parts(found: WhatIf, top: int) -> list[Text | Table]:
    """Format an answer as texts and tables."""
    shapes = [_basis(found, top)] if found.shape_basis.height else []
    shapes += [_memory(found, top)] if found.shape_memory.height else []
    tables = [_changes(found), *shapes, _ranks(found, top), _paths(found, top)]
    notes = [Text(_sentence(note, found)) for note in found.notes]
    return [*(Text(line) for line in _head(found)), Text(""), *tables, *notes]


def _sentence(note: WhatIfNote, found: WhatIf) -> str:
    if note is WhatIfNote.RECORDING_SCALED and found.unrecorded is not None:
        return f"{_SENTENCES[note]} {found.unrecorded.factor:.2f}."
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
        f"Gain {duration(found.gain_ns)}; 80 % interval {duration(found.gain_low_ns)} to "
        f"{duration(found.gain_high_ns)}{_doubt(found)}.",
    ]
    if (bare := found.unrecorded) is not None:
        basis = "" if bare.measured_ns is None else " (measured)"
        if bare.measured_ns is not None and round(bare.before_ns) != round(bare.measured_ns):
            basis = f" (beside it, but in too few steps: {duration(bare.measured_ns)})"
        lines.append(
            f"Without recording: {duration(bare.before_ns)}{basis} -> {duration(bare.after_ns)}, "
            f"gain {duration(bare.low_ns)} to {duration(bare.high_ns)}."
        )
    if steps > 1:
        lines.append(
            "A step counts from the end of the step before to its own end, the latest of all ranks; the first from "
            "when all ranks have begun it."
        )
    return [*lines, *_bars(found), *error_lines(found.replay_error)]


def _doubt(found: WhatIf) -> str:
    """What makes the interval wide, most of all."""
    if not found.doubts.item(0, "half_width_ns"):
        return ""
    greatest = Doubt(found.doubts.item(0, "doubt"))
    return f", mostly because {_DOUBTS[greatest]}"


def _bars(found: WhatIf) -> list[str]:
    """Draw the time before and after as bars; nothing without time."""
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


def _basis(found: WhatIf, top: int) -> Table:
    """Tabulate what the times at the new shape rest on."""
    table = _table("What the new times rest on", "work", "basis", "before", "after", "low", "high")
    for row in found.shape_basis.head(top).iter_rows(named=True):
        times = [duration(row[name]) for name in ("before_ns", "after_ns", "low_ns", "high_ns")]
        table.add_row(cell(printable(row["what"])), row["basis"], *times)
    return table


def _memory(found: WhatIf, top: int) -> Table:
    """Tabulate the memory at the peak of each device."""
    table = _table("Memory at the peak", "rank", "device", "before", "after", "low", "high")
    for row in found.shape_memory.head(top).iter_rows(named=True):
        sizes = [size(row[name]) for name in ("before_bytes", "after_bytes", "low_bytes", "high_bytes")]
        table.add_row(str(row["rank"]), printable(row["device"]), *sizes)
    return table


def _ranks(found: WhatIf, top: int) -> Table:
    """Tabulate the mean step by rank; for a single rank, its steps."""
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
    title = "On the critical path" + (", mean of the steps" if steps > 1 else "")
    table = _table(title, "kind", "before", "after")
    for row in found.paths.head(top).iter_rows(named=True):
        table.add_row(
            KINDS[row["kind"]], duration(row["before_ns"] / steps), duration(row["after_ns"] / steps)
        )
    return table
