"""How two runs differ, for people: the verdict, where the difference comes from, what changed, what to know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from tracebraid.model.answers import DiffChange, DiffPart, DiffSetting
from tracebraid.model.diff_sentences import caution_sentence
from tracebraid.model.finding import Finding
from tracebraid.model.questions.comparison import Comparison
from tracebraid.reports.machine import finding_data, rows_data
from tracebraid.reports.terminal import table_of
from tracebraid.reports.text import cell, printable, shortened
from tracebraid.reports.units import duration, percent

__all__ = ["diff_data", "diff_parts_for_people", "verdict_line"]

_DETAILS = 5
"""Rows of each part of the step that are shown by themselves."""
_OF_EVERY_RUN = [
    setting.value
    for setting in (DiffSetting.PATH, DiffSetting.STEPS, DiffSetting.HOST_EVENTS, DiffSetting.HOST_LATE)
]
"""Settings that differ between any two runs."""
_ALWAYS = (DiffPart.COMPUTE, DiffPart.IDLE)
"""Parts that are shown even if they are 0."""


def diff_data(found: Comparison, findings: Sequence[Finding], limit: float | None) -> dict[str, Any]:
    """A comparison as plain data for JSON.

    Args:
        found: the comparison.
        findings: what was noticed in the files.
        limit: the share from which on a regression counts; None: that was not asked.
    """
    tables = {
        name: rows_data(getattr(found, name)) for name in ("steps", "parts", "ops", "kernels", "settings")
    }
    regression = {"limit": limit, "is_slower": limit is not None and found.is_slower(limit)}
    return {
        "difference_ns": found.difference_ns,
        "significant": found.is_significant,
        "can_judge": found.can_judge,
        **({"regression": regression} if limit is not None else {}),
        **tables,
        "cautions": [
            {
                "code": caution.code.value,
                "message": caution_sentence(caution),
                "details": dict(caution.details),
            }
            for caution in found.cautions
        ],
        "findings": [finding_data(finding) for finding in findings],
    }


def diff_parts_for_people(found: Comparison, top: int) -> list[Text | Table]:
    """The texts and tables of a comparison.

    Args:
        found: the comparison.
        top: rows of each table.
    """
    tables = [
        _waterfall(found),
        _changed_ops(found, top),
        _changed_kernels(found, top),
        _slower_ops(found, top),
        _ranks(found, top),
        _settings(found),
    ]
    lines = [Text(printable(f"note: {caution_sentence(caution)}")) for caution in found.cautions]
    return [Text(verdict_line(found)), Text(""), *(table for table in tables if table is not None), *lines]


def verdict_line(found: Comparison) -> str:
    """Whether a step is longer or shorter, by how much, and whether chance explains that."""
    row = found.steps.row(0, named=True)
    share = "" if row["difference_share"] is None else f", {_signed_percent(row['difference_share'])}"
    line = f"Step time: {duration(row['a_ns'])} -> {duration(row['b_ns'])} ({_signed(row['difference_ns'])}{share})"
    steps = f"{row['steps_a']} and {row['steps_b']} steps"
    if row["low_ns"] is None:
        return f"{line}. Whether that is more than chance cannot be said of {steps}."
    shift, low, high = (_signed(row[name]) for name in ("shift_ns", "low_ns", "high_ns"))
    interval = f"a typical step {shift}, between {low} and {high}"
    verdict = "more than chance" if row["significant"] else "no more than chance explains"
    return f"{line}: {verdict}; {interval} with 99.73 % confidence, by {steps}."


def _waterfall(found: Comparison) -> Table:
    """Parts of the step, and their largest rows; all parts add up to the step."""
    step = found.steps.row(0, named=True)
    table = table_of(
        "Where the difference comes from",
        [("part", "left"), ("a", "right"), ("b", "right"), ("difference", "right"), ("chance", "left")],
    )
    for part in DiffPart:
        rows = found.parts.filter(pl.col("part") == part.value)
        total = rows.select(pl.col("a_ns", "b_ns", "difference_ns").sum()).row(0, named=True)
        if not any(total.values()) and part not in _ALWAYS:
            continue
        table.add_row(part.value, *_times(total), "")
        of_name = _by_name(rows)
        for row in of_name.head(_DETAILS).iter_rows(named=True):
            name = row["op"] or row["cause"] or "launched by no op"
            detail = row["host_activity"] or _at(row["positions"])
            table.add_row(f"  {cell(shortened(name, 64))} {detail}".rstrip(), *_times(row), _chance(row))
        rest = of_name.slice(_DETAILS)
        if not rest.is_empty():
            table.add_row(
                f"  {rest.height} others", "", "", _signed(int(rest.get_column("difference_ns").sum())), ""
            )
    table.add_row("step", *_times(step), "")
    return table


def _by_name(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a part by op, or by cause, the largest difference first; those that do not differ are left out."""
    return (
        rows.group_by("op", "cause", "host_activity", maintain_order=True)
        .agg(
            pl.col("a_ns", "b_ns", "difference_ns").sum(),
            pl.len().alias("positions"),
            pl.col("significant").any(),
            pl.col("low_ns").first(),
        )
        .filter(pl.col("difference_ns") != 0)
        .sort(-pl.col("difference_ns").abs(), maintain_order=True)
    )


def _changed_ops(found: Comparison, top: int) -> Table | None:
    """By change, op and shapes: a change of every layer is one row."""
    keys = ["change", "name", "input_dims_a", "input_dims_b", "input_types_a", "input_types_b", "irregular"]
    changed = _summed(found.changed_ops.filter("outermost"), keys, "path_a", "path_b")
    if changed.is_empty():
        return None
    heads = [
        ("change", "left"),
        ("op", "left"),
        ("path", "left"),
        ("count", "right"),
        ("difference", "right"),
    ]
    table = table_of("Ops added, removed or changed", [*heads, ("shapes", "left")])
    for row in changed.head(top).iter_rows(named=True):
        arguments = "input_types" if row["change"] == DiffChange.TYPES.value else "input_dims"
        dims = [shortened(row[f"{arguments}_{run}"] or "", 40) for run in "ab"]
        shapes = dims[0] or dims[1] if dims[0] == dims[1] or not all(dims) else " -> ".join(dims)
        path = shortened(row["path_b"] or row["path_a"] or "", 60)
        table.add_row(
            row["change"] + _irregular(row),
            f"{cell(shortened(row['name'], 48))} {_at(row['positions'])}".rstrip(),
            cell(path),
            _counts(row),
            _signed(row["difference_ns"]),
            cell(shapes),
        )
    return _with_rest(table, changed.height, top)


def _changed_kernels(found: Comparison, top: int) -> Table | None:
    """By change, op and names: a change of every layer is one row."""
    changed = _summed(found.changed_kernels, ["change", "op", "kernel_a", "kernel_b", "irregular"])
    if changed.is_empty():
        return None
    heads = [
        ("change", "left"),
        ("op", "left"),
        ("count", "right"),
        ("difference", "right"),
        ("kernel", "left"),
    ]
    table = table_of("Kernels added, removed or changed", heads)
    for row in changed.head(top).iter_rows(named=True):
        names = [shortened(row[name]) for name in ("kernel_a", "kernel_b") if row[name]]
        table.add_row(
            row["change"] + _irregular(row),
            f"{cell(shortened(row['op'] or '', 48))} {_at(row['positions'])}".strip(),
            _counts(row),
            _signed(row["difference_ns"]),
            "\n-> ".join(map(cell, dict.fromkeys(names))),
        )
    return _with_rest(table, changed.height, top)


def _summed(rows: pl.DataFrame, keys: list[str], *first: str) -> pl.DataFrame:
    return (
        rows.group_by(keys, maintain_order=True)
        .agg(
            pl.col("count_a", "count_b", "difference_ns").sum(),
            pl.col(*first).first() if first else pl.len().alias("rows"),
            pl.len().alias("positions"),
        )
        .sort(-pl.col("difference_ns").abs(), maintain_order=True)
    )


def _at(positions: int) -> str:
    return f"at {positions:,} positions" if positions > 1 else ""


def _slower_ops(found: Comparison, top: int) -> Table | None:
    """Ops in both runs whose time differs by more than chance."""
    rows = found.ops.filter(pl.col("significant"), pl.col("difference_ns") != 0)
    if rows.is_empty():
        return None
    heads = [
        ("difference", "right"),
        ("between", "right"),
        ("and", "right"),
        ("op", "left"),
        ("path", "left"),
    ]
    table = table_of("Ops whose own time differs by more than chance", [*heads, ("shapes", "left")])
    for row in rows.head(top).iter_rows(named=True):
        table.add_row(
            _signed(row["difference_ns"]),
            *(_signed(row[name]) for name in ("low_ns", "high_ns")),
            cell(shortened(row["name"], 48)),
            cell(shortened(row["path_b"], 60)),
            cell(shortened(row["input_dims_b"] or "", 48)),
        )
    return _with_rest(table, rows.height, top)


def _ranks(found: Comparison, top: int) -> Table | None:
    rows = found.steps.filter(pl.col("rank").is_not_null())
    if rows.height < 2:
        return None
    table = table_of(
        "By rank",
        [("rank", "right"), ("a", "right"), ("b", "right"), ("difference", "right"), ("chance", "left")],
    )
    for row in rows.head(top).iter_rows(named=True):
        table.add_row(str(row["rank"]), *_times(row), _chance(row))
    return _with_rest(table, rows.height, top)


def _settings(found: Comparison) -> Table | None:
    rows = found.settings.filter(pl.col("differs"), ~pl.col("setting").is_in(_OF_EVERY_RUN))
    if rows.is_empty():
        return None
    table = table_of("What else differs", [("setting", "left"), ("a", "left"), ("b", "left")])
    for row in rows.iter_rows(named=True):
        table.add_row(row["setting"], cell(row["a"]), cell(row["b"]))
    return table


def _times(row: dict[str, Any]) -> Iterable[str]:
    return duration(row["a_ns"]), duration(row["b_ns"]), _signed(row["difference_ns"])


def _chance(row: dict[str, Any]) -> str:
    """Empty where nothing can be said."""
    if row["low_ns"] is None or row["significant"] is None:
        return ""
    return "more than chance" if row["significant"] else ""


def _signed(ns: float) -> str:
    return f"+{duration(ns)}" if ns > 0 else duration(ns)


def _signed_percent(share: float) -> str:
    return f"+{percent(share)}" if share > 0 else percent(share)


def _counts(row: dict[str, Any]) -> str:
    counts = [f"{row[name]:g}" for name in ("count_a", "count_b")]
    return counts[0] if counts[0] == counts[1] else " -> ".join(counts)


def _irregular(row: dict[str, Any]) -> str:
    return ", not in every step" if row["irregular"] else ""


def _with_rest(table: Table, rows: int, top: int) -> Table:
    if rows > top:
        table.caption = f"{rows - top:,} more; --top shows more, --json all"
    return table
