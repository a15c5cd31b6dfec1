"""Report section: changes to make first, and the saving of each."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answers.job import ADVICE
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.quantities import duration, percent
from tracebraid.model.questions import Advice
from tracebraid.model.report import (
    Chart,
    ChartKind,
    DataTable,
    Facts,
    Missing,
    Note,
    Part,
    RunResults,
    Section,
)
from tracebraid.reports.advice import advice_frame

_MOST_BARS = 12
"""Maximum items of the chart; the table has all."""

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
    *(
        "item",
        "title",
        "saving_per_step_ns",
        "saving_low_per_step_ns",
        "saving_high_per_step_ns",
        "share",
        "basis",
        "change",
    ),
    *("op", "subject", "call_site", "ranks", "count", "steps"),
)
_FORMULA = (
    "What an item saves per step: by how much the step becomes shorter when the dependency graph of the run is "
    "replayed without what its occurrences name, less what the profiler took for the host events in it. Where no "
    "replay knows what follows from the change, the time of the step that the occurrences cover."
)


def changes(results: RunResults) -> Section | None:
    """Build the section; None without advice."""
    advice = results.advice
    if advice is None:
        return None
    missing = [
        Missing.of(f"advice on {', '.join(names)}", need)
        for need, names in advice.unavailable_by_need.items()
    ]
    if advice.items.is_empty():
        nothing = (
            "What could be saved is not known."
            if advice.is_unanswerable
            else "No change was found that saves enough."
        )
        parts: list[Part] = [Note(nothing), *missing]
    else:
        table = DataTable("advice-table", "What to change, and where", advice_frame(advice), _TABLE, _COLUMNS)
        parts = [_facts(advice), _chart(advice), table, *missing]
    lead = "Every item, the largest saving first, with where it is and what to change."
    return Section("changes", "What to change, in full", parts, lead)


def _facts(advice: Advice) -> Facts:
    """Return the total saving of all items."""
    share = min(advice.saving_per_step_ns / advice.own_step_ns, 1.0) if advice.own_step_ns else 0.0
    whole = "a step" if advice.steps else "the whole trace (no step is marked)"
    own = (
        [("without the profiler, about", duration(advice.own_step_ns))]
        if advice.own_step_ns < advice.step_ns
        else []
    )
    total = f"{duration(advice.saving_per_step_ns)} ({percent(share)}); overlaps are counted once"
    return Facts(
        [
            (f"length of {whole}", duration(advice.step_ns)),
            *own,
            ("all items together save", total),
        ]
    )


def _chart(advice: Advice) -> Chart:
    frame = advice_frame(advice)
    shown = frame.head(_MOST_BARS)
    labels = [
        f"{item}. {title}" + (f": {op or subject}" if op or subject else "")
        for item, title, op, subject in shown.select("item", "title", "op", "subject").iter_rows()
    ]
    bars = shown.select(
        pl.Series("label", labels, dtype=pl.String),
        pl.col("saving_low_per_step_ns").alias("low"),
        (pl.col("saving_high_per_step_ns") - pl.col("saving_low_per_step_ns")).alias("interval"),
    )
    series = [
        {"column": "low", "name": "saved at least", "colour": "series-1"},
        {"column": "interval", "name": "up to", "colour": "series-2"},
    ]
    first = shown.row(0, named=True)
    saved = duration(first["saving_per_step_ns"])
    summary = f"{frame.height} items; the first, {first['title']}, saves {saved}."
    title = "Time saved, per step" if advice.steps else "Time saved"
    options = {"unit": "ns", "title": "time saved", "series": series}
    return Chart("changes-saving", ChartKind.STACKED_BARS, title, summary, {"bars": bars}, options, _FORMULA)
