"""Advice for people, and as plain data for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tracebraid.model.need_sentences import NEED_SENTENCES
from tracebraid.model.questions.advice import Advice
from tracebraid.reports.answers.answer_cells import ranges
from tracebraid.reports.machine import finding_data, rows_data
from tracebraid.reports.text import printable, shortened, some_of
from tracebraid.reports.units import duration, percent

__all__ = ["advice_data", "advice_frame", "advice_parts", "not_asked_lines"]

_INDENT = 4
"""Characters by which what belongs to an advice is set off."""

_SHAPES_SHOWN = 80
"""Characters of shapes that are shown; JSON has all."""

_NAME_SHOWN = 1_000
"""Characters of a name that are shown, as templates of kernels are long; JSON has all."""

_RANKS_WIDTH = 40
"""Characters of ranks that are listed; of more their number is."""


def advice_parts(advice: Advice, top: int) -> list[RenderableType]:
    """The first items for people, and what they save together.

    Args:
        advice: the advice.
        top: how many items to show.
    """
    items = advice.items
    if items.is_empty():
        return ["Nothing found that would save enough; --min-saving 0 shows what saves less."]
    parts: list[RenderableType] = [_item(advice, row) for row in items.head(top).iter_rows(named=True)]
    if items.height > top:
        parts.append(f"{items.height - top:,} more: --top shows more, --json and --csv all")
    share = advice.saving_per_step_ns / advice.step_ns if advice.step_ns else 0.0
    saved = f"{duration(advice.saving_per_step_ns)} of {duration(advice.step_ns)} {_of_what(advice)}"
    parts.append(
        f"All together save at most {saved} ({percent(min(share, 1.0))}); overlaps are counted once."
    )
    return parts


def not_asked_lines(advice: Advice) -> list[str]:
    """What could not be looked for, by what the traces lack for it; a line each."""
    lines = []
    needs = dict.fromkeys(need for needs in advice.not_asked.values() for need in needs)
    for need in needs:
        names = some_of([name for name, lacks in advice.not_asked.items() if need in lacks])
        lacks, capture = NEED_SENTENCES[need]
        lines.append(f"note: not looked for: {names}: {lacks}. {capture}")
    return lines


def advice_data(advice: Advice) -> dict[str, Any]:
    """The advice for JSON: items with their titles, changes and evidence, and what they save together."""
    evidence = advice.evidence.partition_by("item", as_dict=True)
    items = []
    for row in rows_data(advice.items):
        detector = advice.detectors[row["detector"]]
        found = evidence.get((row["item"],), advice.evidence.clear()).drop("item", "detector")
        items.append(
            {**row, "title": detector.title, "change": detector.change, "evidence": rows_data(found)}
        )
    return {
        "ranks": list(advice.ranks),
        "steps": advice.steps,
        "step_ns": advice.step_ns,
        "saving_per_step_ns": advice.saving_per_step_ns,
        "advice": items,
        "by_step": rows_data(advice.by_step),
        "not_looked_for": {name: [need.value for need in needs] for name, needs in advice.not_asked.items()},
        "findings": [finding_data(finding) for finding in advice.findings],
    }


def advice_frame(advice: Advice) -> pl.DataFrame:
    """The items with their titles and changes, for a table of rows."""
    names = advice.items.get_column("detector").to_list()
    return advice.items.with_columns(
        pl.Series("title", [advice.detectors[name].title for name in names], dtype=pl.String),
        pl.Series("change", [advice.detectors[name].change for name in names], dtype=pl.String),
    )


def _item(advice: Advice, row: dict[str, Any]) -> RenderableType:
    detector = advice.detectors[row["detector"]]
    each = "" if not advice.steps else " per step"
    saves = f"{duration(row['saving_per_step_ns'])}{each} ({percent(row['share'])})"
    further = row["further_per_step_ns"]
    if further < row["saving_per_step_ns"]:
        saves += f", {duration(further)} of it beyond what stands above" if further else ", all of it above"
    head = Text.assemble(
        (f"{row['item']}. ", "bold"), (printable(detector.title), "bold"), f" [{row['detector']}]"
    )
    gain = row["gain_per_step_ns"]
    replayed = [] if gain is None else [f"in a replay without it: {duration(gain)}{each} less"]
    lines = [f"saves at most {saves}", *replayed, *_where(advice, row), f"change: {detector.change}"]
    return Group(head, *(Padding(Text(printable(line)), (0, 0, 0, _INDENT)) for line in lines))


def _where(advice: Advice, row: dict[str, Any]) -> Iterable[str]:
    """Where it is: op and shapes, line, steps and ranks."""
    what = [row["op"], _cut(row["shapes"]), row["subject"]]
    if any(what):
        yield "in: " + ", ".join(shortened(text, _NAME_SHOWN) for text in what if text)
    if row["call_site"]:
        yield f"at: {shortened(row['call_site'], _NAME_SHOWN)}"
    times = f"{row['count']:,} times" if row["count"] != 1 else "once"
    steps = f" in {row['steps']:,} of {advice.steps:,} steps" if advice.steps else ""
    ranks = row["ranks"]
    which = f"{'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}"
    which = which if len(which) <= _RANKS_WIDTH else f"{len(ranks):,} ranks"
    of_ranks = f", {which}" if len(advice.ranks) > 1 else ""
    yield f"seen: {times}{steps}{of_ranks}"


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _SHAPES_SHOWN else f"{text[:_SHAPES_SHOWN]}..."


def _of_what(advice: Advice) -> str:
    return "per step" if advice.steps else "of the whole trace: no step is marked"
