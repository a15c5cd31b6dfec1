"""What to change first: what each change saves, at most by bound, or as a replay measures it."""

from __future__ import annotations

from typing import Any

import polars as pl

from tracebraid.model.answers import ADVICE
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.questions.advice import Advice
from tracebraid.model.report.parts import Chart, ChartKind, DataTable, Facts, Note, Part, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.advice import advice_frame, not_asked_lines
from tracebraid.reports.units import duration, percent

__all__ = ["changes"]

_MOST_BARS = 12
"""Items of the chart; the table has all."""

_TABLE = Table(
    ADVICE.name,
    ADVICE.doc,
    (
        *ADVICE.columns,
        Column("title", Kind.TEXT, "what was found"),
        Column("change", Kind.TEXT, "what to change"),
    ),
)
_COLUMNS = (
    *("item", "title", "saving_per_step_ns", "share", "further_per_step_ns", "gain_per_step_ns", "change"),
    *("op", "subject", "call_site", "ranks", "count", "steps"),
)
_FORMULA = (
    "What an item saves at most: of each step the time that its occurrences cover and that the step could be shorter "
    "by, on the rank with the most, over the number of steps. Items overlap: 'beyond what stands above' counts what "
    "no item before saves. A gain in a replay is what the step becomes shorter by when the dependency graph of the "
    "run is replayed without that time (tracebraid advise)."
)


def changes(results: RunResults) -> Section | None:
    """The section; None where no advice was asked."""
    advice = results.advice
    if advice is None:
        return None
    notes = [Note(line.removeprefix("note: ")) for line in not_asked_lines(advice)]
    if advice.items.is_empty():
        parts: list[Part] = [Note("Nothing was found that saves enough."), *notes]
    else:
        table = DataTable("advice-table", "What to change, and where", advice_frame(advice), _TABLE, _COLUMNS)
        parts = [_facts(advice), _chart(advice), table, *notes]
    lead = "Items by the time that they save; each with its evidence and the change that mends it."
    return Section("changes", "What to change first", parts, lead)


def _facts(advice: Advice) -> Facts:
    """What all items save together, and the first of them."""
    first = advice_frame(advice).row(0, named=True)
    share = min(advice.saving_per_step_ns / advice.step_ns, 1.0) if advice.step_ns else 0.0
    whole = "a step" if advice.steps else "the whole trace, for no step is marked"
    total = f"at most {duration(advice.saving_per_step_ns)} ({percent(share)}); overlaps are counted once"
    return Facts(
        [
            (f"length of {whole}, on its slowest rank", duration(advice.step_ns)),
            ("all items together save", total),
            ("the first", f"{first['title']}: at most {_saved(first)}"),
        ]
    )


def _saved(row: dict[str, Any]) -> str:
    """What an item saves: at most, and in a replay."""
    saved = f"{duration(row['saving_per_step_ns'])} ({percent(row['share'])})"
    gain = row["gain_per_step_ns"]
    return saved if gain is None else f"{saved}; {duration(gain)} in a replay without it"


def _chart(advice: Advice) -> Chart:
    frame = advice_frame(advice)
    shown = frame.head(_MOST_BARS)
    gain = pl.col("gain_per_step_ns").clip(0).fill_null(0)
    labels = [
        f"{item}. {title}" + (f": {op or subject}" if op or subject else "")
        for item, title, op, subject in shown.select("item", "title", "op", "subject").iter_rows()
    ]
    bars = shown.select(
        pl.Series("label", labels, dtype=pl.String),
        pl.min_horizontal(gain, "saving_per_step_ns").alias("replayed"),
        (pl.col("saving_per_step_ns") - gain).clip(0).alias("bound"),
    )
    replayed = frame.get_column("gain_per_step_ns").is_not_null().any()
    series = [{"column": "replayed", "name": "gained in a replay", "colour": "series-1"}] if replayed else []
    rest = "beyond that at most" if replayed else "at most"
    series.append({"column": "bound", "name": rest, "colour": "series-2" if replayed else "series-1"})
    first = shown.row(0, named=True)
    saved = duration(first["saving_per_step_ns"])
    summary = f"{frame.height} items; the first, {first['title']}, saves at most {saved}."
    title = "Time at stake, per step" if advice.steps else "Time at stake"
    options = {"unit": "ns", "title": "time at stake", "series": series}
    return Chart("changes-saving", ChartKind.STACKED_BARS, title, summary, {"bars": bars}, options, _FORMULA)
