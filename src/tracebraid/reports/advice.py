"""Advice for people, and as plain data for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
from msgspec.structs import asdict
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tracebraid.model.analysis import Need
from tracebraid.model.answers.job import SavingBasis
from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, percent, ranges
from tracebraid.model.questions import Advice
from tracebraid.reports.machine import finding_data, rows_data
from tracebraid.reports.names import shortened, some_of
from tracebraid.reports.verdict import NAME_SHOWN, OF_PROGRAM, verdict

_INDENT = 4
"""Indentation of the lines below an item, in characters."""

_SHAPES_SHOWN = 80
"""Maximum characters of shapes; JSON has all."""


_RANKS_WIDTH = 40
"""Maximum characters of a list of ranks; longer lists become a count."""

_BASIS = {
    SavingBasis.REPLAY: "by a replay of the dependency graph without it",
    SavingBasis.ACCOUNTING: "by the step time that it covers",
}


def advice_parts(advice: Advice, top: int) -> list[RenderableType]:
    """Format the first items, and their total saving."""
    items = advice.items
    head = list(map(Text, verdict(advice)))
    if items.is_empty():
        found = "" if head else "No change was found that saves enough; "
        return [*head, f"{found}--min-saving 0 shows smaller savings."]
    parts: list[RenderableType] = [*head, *([""] if head else [])]
    parts += [_item(advice, row) for row in items.head(top).iter_rows(named=True)]
    if items.height > top:
        parts.append(f"{items.height - top:,} more: --top shows more, --json and --csv all")
    share = advice.saving_per_step_ns / advice.own_step_ns if advice.own_step_ns else 0.0
    saved = f"{duration(advice.saving_per_step_ns)} of {duration(advice.own_step_ns)} {_of_what(advice)}"
    parts.append(f"All that was found saves {saved} ({percent(min(share, 1.0))}); overlaps are counted once.")
    return parts


def missing_detector_lines(advice: Advice) -> list[str]:
    """List detectors that did not run: a line for those that do not apply, and one for each missing need."""
    lines = []
    by_need = advice.unavailable_by_need
    absent = [need for need in by_need if need in OF_PROGRAM]
    if Need.COMMUNICATION in absent:
        by_need[Need.COMMUNICATION] += by_need.pop(Need.COLLECTIVES, [])
    if absent:
        count = sum(len(by_need[need]) for need in absent)
        why = " and ".join(OF_PROGRAM[need] for need in absent)
        causes = f"{count:,} of {len(advice.detectors):,} causes"
        lines.append(f"note: not looked for: {causes}; the traces have {why} (--json names them)")
    for need, names in by_need.items():
        if need not in OF_PROGRAM:
            lines.append(f"note: not looked for: {some_of(names)}: {need.missing}. {need.capture}")
    return lines


def advice_data(advice: Advice) -> dict[str, Any]:
    """Return the advice for JSON: items with titles, changes and evidence, and their total saving."""
    evidence = advice.evidence.partition_by("item", as_dict=True)
    sites = advice.sites.partition_by("item", as_dict=True)
    items = []
    for row in rows_data(advice.items):
        detector = advice.detectors[row["detector"]]
        found = evidence.get((row["item"],), advice.evidence.clear()).drop("item", "detector")
        items.append(
            {
                **row,
                "title": detector.title,
                "change": advice.change_of(row["detector"]),
                "where": rows_data(sites.get((row["item"],), advice.sites.clear()).drop("item", "detector")),
                "evidence": rows_data(found),
            }
        )
    return {
        **verdict_data(advice),
        "saving_per_step_ns": advice.saving_per_step_ns,
        "advice": items,
        "by_step": rows_data(advice.by_step),
        "not_looked_for": {
            name: [need.value for need in needs] for name, needs in advice.unavailable.items()
        },
        "findings": [finding_data(finding) for finding in advice.findings],
    }


def verdict_data(advice: Advice) -> dict[str, Any]:
    """The verdict for JSON, with the figures that its sentences state beside those of items."""
    return {
        "ranks": list(advice.ranks),
        "steps": advice.steps,
        "step_ns": advice.step_ns,
        "own_step_ns": advice.own_step_ns,
        "verdict": verdict(advice),
        "accounting": rows_data(advice.accounting),
        "memory_growth": [asdict(growth) for growth in advice.growth],
        "unlaunched_share": advice.unlaunched,
        "limit": None if advice.limit is None else asdict(advice.limit),
        "transfers": None if advice.transfers is None else asdict(advice.transfers),
    }


def advice_frame(advice: Advice) -> pl.DataFrame:
    """Return the items with their titles and changes as a table."""
    names = advice.items.get_column("detector").to_list()
    return advice.items.with_columns(
        pl.Series("title", [advice.detectors[name].title for name in names], dtype=pl.String),
        pl.Series("change", [advice.change_of(name) for name in names], dtype=pl.String),
    )


def _item(advice: Advice, row: dict[str, Any]) -> RenderableType:
    detector = advice.detectors[row["detector"]]
    each = "" if not advice.steps else " per step"
    saves = f"about {duration(row['saving_per_step_ns'])}{each} ({percent(row['share'])})"
    saves += f", {duration(row['saving_low_per_step_ns'])} to {duration(row['saving_high_per_step_ns'])}"
    head = Text.assemble(
        (f"{row['item']}. ", "bold"), (printable(detector.title), "bold"), f" [{row['detector']}]"
    )
    part = [] if row["under"] is None else [f"part of {row['under']}: both cover the same time"]
    lines = [
        f"saves {saves}; {basis_text(row)}",
        *part,
        *(f"{label}: {text}" for label, text in where_rows(advice, row)),
        f"change: {advice.change_of(row['detector'])}",
    ]
    return Group(head, *(Padding(Text(printable(line)), (0, 0, 0, _INDENT)) for line in lines))


def basis_text(row: dict[str, Any]) -> str:
    """Return the basis of an item's saving."""
    return _BASIS[SavingBasis(row["basis"])]


def where_rows(
    advice: Advice, row: dict[str, Any], listed_by: str = " (--json lists all)"
) -> Iterable[tuple[str, str]]:
    """Return the location of an item as pairs of label and text: op and shapes, line, other places, steps and ranks.

    Args:
        advice: of which the item is one.
        row: the item.
        listed_by: follows the number of other places: what lists them.
    """
    what = [row["op"], _cut(row["shapes"]), row["subject"]]
    if any(what):
        yield "in", ", ".join(shortened(text, NAME_SHOWN) for text in what if text)
    if row["call_site"]:
        yield "at", shortened(row["call_site"], NAME_SHOWN)
    if row["sites"] > 1:
        more = row["sites"] - 1
        yield "also", f"{more:,} other place{'' if more == 1 else 's'}{listed_by}"
    times = f"{row['count']:,} times" if row["count"] != 1 else "once"
    steps = _in_steps(row["steps"], advice.steps)
    ranks = row["ranks"]
    which = f"{'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}"
    which = which if len(which) <= _RANKS_WIDTH else f"{len(ranks):,} ranks"
    of_ranks = f", {which}" if len(advice.ranks) > 1 else ""
    yield "seen", f"{times}{steps}{of_ranks}"


def _in_steps(steps: int, of: int) -> str:
    if not of:
        return ""
    if steps < of:
        return f" in {steps:,} of {of:,} steps"
    return {1: " in the step", 2: " in both steps"}.get(of, f" in all {of:,} steps")


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _SHAPES_SHOWN else f"{text[:_SHAPES_SHOWN]}..."


def _of_what(advice: Advice) -> str:
    return "per step" if advice.steps else "of the whole trace: no step is marked"
