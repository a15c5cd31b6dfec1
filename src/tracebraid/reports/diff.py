"""Report a comparison of two runs: the verdict, the sources of the difference, the changes, the cautions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.job import DiffChange, DiffPart, DiffSetting
from tracebraid.model.answers.time import HostActivity, IdleCause
from tracebraid.model.finding import Finding
from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, percent
from tracebraid.model.questions import (
    CAPTURES_ALPHA,
    LEAST_CAPTURES,
    Caution,
    CautionCode,
    Comparison,
    GateOutcome,
)
from tracebraid.reports.fitted_table import Head, captioned, fitted_table
from tracebraid.reports.machine import finding_data, rows_data
from tracebraid.reports.names import shortened

_DETAILS = 5
"""Maximum rows of each part of the step."""
_OF_EVERY_RUN = [
    setting.value
    for setting in (DiffSetting.PATH, DiffSetting.STEPS, DiffSetting.HOST_EVENTS, DiffSetting.HOST_LATE)
]
"""Settings that differ between any two runs."""
_NO_OP = "launched by no op"
_STEP = "a step (mean)"
_ABSENT = "-"
_ALWAYS = (DiffPart.COMPUTE, DiffPart.IDLE)
"""Parts that are always shown, even if 0."""
_SHAPES_SHOWN = 40
"""Maximum characters of differing shapes of each run."""

_OP = Head("op", "left", shortens=True)
_PATH = Head("path", "left", shortens=True)
_SHAPES = Head("shapes", "left", shortens=True)
_CHANGE = Head("change", "left")
_COUNT = Head("count")
_DIFFERENCE = Head("difference")
_CHANCE = Head("more than chance", "left")


def parts_table(found: Comparison, width: int, details: bool = True) -> Table:
    """Tabulate the parts of the step and their largest rows; all parts add up to the step."""
    step = found.steps.row(0, named=True)
    rows = []
    for part in DiffPart:
        of_part = found.parts.filter(pl.col("part") == part.value)
        total = of_part.select(pl.col("a_ns", "b_ns", "difference_ns").sum()).row(0, named=True)
        if not any(total.values()) and part not in _ALWAYS:
            continue
        rows.append([code_name(part), *_times(total), ""])
        rows += _rows_of_part(of_part) if details else []
    rows.append([_STEP, *_times(step), _chance(step)])
    heads = [Head("part", "left", shortens=True), Head("a"), Head("b"), _DIFFERENCE, _CHANCE]
    return fitted_table("Where the difference comes from", heads, rows, width, kept=4)


def _rows_of_part(of_part: pl.DataFrame) -> list[list[str]]:
    by_name = _by_name(of_part)
    rows = []
    for row in by_name.head(_DETAILS).iter_rows(named=True):
        times = [duration(row[name]) if row[name] else _ABSENT for name in ("a_ns", "b_ns")]
        rows.append([f"  {_name_of_part(row)}", *times, signed(row["difference_ns"]), _chance(row)])
    rest = by_name.slice(_DETAILS)
    if not rest.is_empty():
        difference = signed(int(rest.get_column("difference_ns").sum()))
        rows.append([f"  {rest.height:,} others", "", "", difference, ""])
    return rows


def _name_of_part(row: dict[str, Any]) -> str:
    """Return the op and its number of calls; for idle time, the cause and the host activity."""
    if row["cause"] is None:
        return f"{row['op'] or _NO_OP}{_at(row['positions'])}"
    activity = row["host_activity"]
    host = "" if activity is None else f": {code_name(HostActivity(activity))}"
    return f"{code_name(IdleCause(row['cause']))}{host}"


def _by_name(rows: pl.DataFrame) -> pl.DataFrame:
    """Aggregate the rows of a part by op or cause, largest difference first, without equal ones."""
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


def changed_ops_table(found: Comparison, top: int, width: int) -> Table | None:
    """Tabulate changed ops by change, op and shapes, so that a change of every layer is one row."""
    keys = ["change", "name", "input_dims_a", "input_dims_b", "input_types_a", "input_types_b", "irregular"]
    summed = _summed(found.changed_ops.filter("outermost"), keys, "path_a", "path_b")
    if summed.is_empty():
        return None
    changed = _differing(summed)
    rows = [
        [
            _change(row),
            f"{row['name']}{_at(row['positions'])}",
            signed(row["difference_ns"]),
            _counts(row),
            _shapes(row),
            row["path_b"] or row["path_a"] or "",
        ]
        for row in changed.head(top).iter_rows(named=True)
    ]
    heads = [_CHANGE, _OP, _DIFFERENCE, _COUNT, _SHAPES, _PATH]
    table = fitted_table("Ops added, removed or changed", heads, rows, width, kept=4)
    return _with_rest(table, changed.height, top, summed.height - changed.height)


def changed_kernels_table(found: Comparison, top: int, width: int) -> Table | None:
    """Tabulate changed kernels by change, op and names; a replaced kernel takes a second line."""
    summed = _summed(found.changed_kernels, ["change", "op", "kernel_a", "kernel_b", "irregular"])
    if summed.is_empty():
        return None
    changed = _differing(summed)
    rows = []
    for row in changed.head(top).iter_rows(named=True):
        names = list(dict.fromkeys(row[name] for name in ("kernel_a", "kernel_b") if row[name]))
        op = f"{row['op'] or _NO_OP}{_at(row['positions'])}"
        rows.append([_change(row), *(names or [""])[:1], signed(row["difference_ns"]), _counts(row), op])
        rows += [["", f"-> {name}", "", "", ""] for name in names[1:]]
    heads = [_CHANGE, Head("kernel", "left", shortens=True), _DIFFERENCE, _COUNT, _OP]
    table = fitted_table("Kernels added, removed or changed", heads, rows, width, kept=4)
    return _with_rest(table, changed.height, top, summed.height - changed.height)


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


def _differing(rows: pl.DataFrame) -> pl.DataFrame:
    """Select rows whose time differs; all rows if none does."""
    differing = rows.filter(pl.col("difference_ns") != 0)
    return rows if differing.is_empty() else differing


def slower_ops_table(found: Comparison, top: int, width: int) -> Table | None:
    """Tabulate ops in both runs whose time differs by more than chance."""
    differing = found.ops.filter(pl.col("significant"), pl.col("difference_ns") != 0)
    if differing.is_empty():
        return None
    rows = [
        [
            *(signed(row[name]) for name in ("difference_ns", "low_ns", "high_ns")),
            row["name"],
            row["input_dims_b"] or "",
            row["path_b"],
        ]
        for row in differing.head(top).iter_rows(named=True)
    ]
    heads = [_DIFFERENCE, Head("between"), Head("and"), _OP, _SHAPES, _PATH]
    title = "Ops whose own time differs by more than chance"
    return _with_rest(fitted_table(title, heads, rows, width, kept=4), differing.height, top)


def ranks_table(found: Comparison, top: int, width: int) -> Table | None:
    """Tabulate the step of each rank, if there are several."""
    ranks = found.steps.filter(pl.col("rank").is_not_null())
    if ranks.height < 2:
        return None
    rows = [[str(row["rank"]), *_times(row), _chance(row)] for row in ranks.head(top).iter_rows(named=True)]
    heads = [Head("rank"), Head("a"), Head("b"), _DIFFERENCE, _CHANCE]
    return _with_rest(fitted_table("By rank", heads, rows, width, kept=4), ranks.height, top)


def captures_table(found: Comparison, top: int, width: int) -> Table | None:
    """Tabulate the captures, if a run has several: how much those of one run differ is the noise of the comparison."""
    if not found.is_of_captures:
        return None
    rows = [
        [
            f"{row['run']} {row['capture']}",
            _ABSENT if row["median_ns"] is None else duration(row["median_ns"]),
            f"{row['steps']:,}",
            f"{row['left_out']:,}",
            row["path"] or "",
        ]
        for row in found.captures.head(top).iter_rows(named=True)
    ]
    heads = [
        Head("capture", "left"),
        Head("typical step"),
        Head("steps"),
        Head("left out"),
        Head("path", "left", shortens=True),
    ]
    return _with_rest(fitted_table("By capture", heads, rows, width, kept=3), found.captures.height, top)


def settings_table(found: Comparison, width: int) -> Table | None:
    """Tabulate the settings that differ between the runs."""
    differing = found.settings.filter(pl.col("differs"), ~pl.col("setting").is_in(_OF_EVERY_RUN))
    if differing.is_empty():
        return None
    rows = [
        [code_name(DiffSetting(row["setting"])), *(_value(row["setting"], row[run]) for run in "ab")]
        for row in differing.iter_rows(named=True)
    ]
    heads = [Head("setting", "left"), Head("a", "left", shortens=True), Head("b", "left", shortens=True)]
    return fitted_table("What else differs", heads, rows, width, kept=3)


def _value(setting: str, text: str | None) -> str:
    if text is None:
        return _ABSENT
    is_time = setting == DiffSetting.OVERHEAD.value and text.isdecimal()
    return duration(int(text)) if is_time else text


def _times(row: dict[str, Any]) -> list[str]:
    return [duration(row["a_ns"]), duration(row["b_ns"]), signed(row["difference_ns"])]


def _chance(row: dict[str, Any]) -> str:
    """Format the significance; empty if unknown."""
    return "yes" if row["low_ns"] is not None and row["significant"] else ""


def _change(row: dict[str, Any]) -> str:
    return code_name(DiffChange(row["change"])) + (", in some steps" if row["irregular"] else "")


def _shapes(row: dict[str, Any]) -> str:
    """Format shapes, or types if those differ, of both runs if unequal."""
    arguments = "input_types" if row["change"] == DiffChange.TYPES.value else "input_dims"
    of_run = [row[f"{arguments}_{run}"] or "" for run in "ab"]
    if of_run[0] == of_run[1] or not all(of_run):
        return of_run[0] or of_run[1]
    return " -> ".join(shortened(text, _SHAPES_SHOWN) for text in of_run)


def _at(positions: int) -> str:
    return f" at {positions:,} positions" if positions > 1 else ""


def signed(ns: float) -> str:
    """Format a difference with its sign."""
    return f"+{duration(ns)}" if ns > 0 else duration(ns)


def _counts(row: dict[str, Any]) -> str:
    counts = [f"{row[name]:g}" for name in ("count_a", "count_b")]
    return counts[0] if counts[0] == counts[1] else " -> ".join(counts)


def _with_rest(table: Table, rows: int, top: int, hidden: int = 0) -> Table:
    """Append a line about omitted rows: beyond the limit, or without a time difference."""
    more = []
    if rows > top:
        more.append(f"{rows - top:,} more; --top shows more, --json all")
    if hidden:
        more.append(f"{hidden:,} more of equal times; --json has them")
    for line in more:
        captioned(table, line)
    return table


_OF_A_RUN = (CautionCode.PROFILER_COST, CautionCode.PROFILER_OVERHEAD)
"""Cautions about a single run, whose sentences fit both runs."""
_ONE_CAPTURE = "With one capture of each, how much captures of one program differ is unknown."
_NOT_LISTED = "Ops and kernels of different programs are not compared; --json has them."


def diff_data(found: Comparison, findings: Sequence[Finding], limit: float | None) -> dict[str, Any]:
    """Return a comparison as plain data for JSON."""
    tables = {
        name: rows_data(getattr(found, name))
        for name in ("steps", "parts", "ops", "kernels", "settings", "captures", "left_out")
    }
    regression = {}
    if limit is not None:
        gate = {
            "limit": limit,
            "outcome": found.gate(limit).value,
            "is_slower": found.is_slower(limit),
            "captures_needed": found.captures_needed(limit),
        }
        regression = {"regression": gate}
    return {
        "verdict": found.verdict.value,
        "difference_ns": found.difference_ns,
        "significant": found.is_significant,
        "can_judge": found.can_judge,
        **regression,
        **tables,
        "cautions": [
            {
                "code": caution.code.value,
                "message": caution.sentence,
                "details": dict(caution.details),
            }
            for caution in found.cautions
        ],
        "findings": [finding_data(finding) for finding in findings],
    }


def diff_parts_for_people(found: Comparison, top: int, width: int) -> list[Text | Table]:
    """Format a comparison; for runs of different programs, briefly and with that caution first."""
    lines = [Text(printable(f"note: {caution.sentence}")) for caution in _merged(found.cautions)]
    verdict = Text(verdict_line(found))
    if any(caution.code is CautionCode.PROGRAMS_DIFFER for caution in found.cautions):
        tables = [
            parts_table(found, width, details=False),
            captures_table(found, top, width),
            settings_table(found, width),
        ]
        return [lines[0], verdict, Text(""), *_known(tables), Text(_NOT_LISTED), *lines[1:]]
    tables = [
        parts_table(found, width),
        changed_ops_table(found, top, width),
        changed_kernels_table(found, top, width),
        slower_ops_table(found, top, width),
        ranks_table(found, top, width),
        captures_table(found, top, width),
        settings_table(found, width),
    ]
    return [verdict, Text(""), *_known(tables), *lines]


def _known(tables: Iterable[Table | None]) -> list[Table]:
    return [table for table in tables if table is not None]


def _merged(cautions: Iterable[Caution]) -> list[Caution]:
    """Return the cautions, different programs first; cautions about both runs are merged."""
    found: dict[object, Caution] = {}
    for number, caution in enumerate(cautions):
        key = caution.code if caution.code in _OF_A_RUN else number
        first = found.get(key)
        if first is not None:
            both = {name: f"{first.details[name]} and {value}" for name, value in caution.details.items()}
            caution = Caution(caution.code, both)
        found[key] = caution
    return sorted(found.values(), key=lambda caution: caution.code is not CautionCode.PROGRAMS_DIFFER)


def verdict_line(found: Comparison) -> str:
    """State whether steps became longer or shorter, by how much, and whether chance explains it."""
    row = found.steps.row(0, named=True)
    share = "" if row["difference_share"] is None else f", {_signed_percent(row['difference_share'])}"
    line = f"Step time: {duration(row['a_ns'])} -> {duration(row['b_ns'])} ({signed(row['difference_ns'])}{share})"
    steps = f"{row['steps_a']} and {row['steps_b']} steps"
    if found.is_of_captures:
        sample = f"{row['captures_a']} and {row['captures_b']} captures of {steps}"
        above, confidence, unknown = "more than captures of one program differ", "98 %", ""
    else:
        sample, above, confidence = steps, "more than chance among steps", "99.73 %"
        unknown = f" {_ONE_CAPTURE}"
    if row["low_ns"] is None:
        return f"{line}. Significance cannot be judged from {sample}.{unknown}"
    shift, low, high = (signed(row[name]) for name in ("shift_ns", "low_ns", "high_ns"))
    interval = f"a typical step {shift}, between {low} and {high}"
    verdict = above if row["significant"] else "not significant"
    return f"{line}: {verdict}; {interval} with {confidence} confidence, by {sample}.{unknown}"


def gate_line(found: Comparison, limit: float) -> str:
    """State the outcome of a gate; where it cannot judge, why, and what to record."""
    outcome, share = found.gate(limit), f"{limit * 100:g} %"
    row = found.steps.row(0, named=True)
    if outcome is GateOutcome.PASSED:
        return f"no slowdown by more than {share} is found: {_resolution(row)}"
    if outcome is GateOutcome.REGRESSION:
        return f"a step is slower by more than {share}"
    cannot = f"cannot judge whether a step is slower by more than {share}"
    a, b = (found.captures.filter(pl.col("run") == run).height for run in "ab")
    if min(a, b) < LEAST_CAPTURES:
        return (
            f"{cannot}: of {a} and {b} captures it is unknown how much captures of one program differ; record "
            f"{LEAST_CAPTURES} or more of each, as in tracebraid diff A1 A2 A3 -- B1 B2 B3"
        )
    if found.captures.get_column("doubtful").any():
        return f"{cannot}: all steps of a capture are warm-up or doubtful; record it again, with more steps"
    if not found.can_judge or not row["median_a_ns"]:
        return f"{cannot}: a capture has no steps that count; record {LEAST_CAPTURES} or more with steps of each run"
    needed = found.captures_needed(limit)
    more = "" if needed is None else f"{needed:,} of each, or "
    return f"{cannot}: {_resolution(row)}; record {more}on a quieter machine"


def _resolution(row: dict[str, Any]) -> str:
    half = (row["high_ns"] - row["low_ns"]) / 2 / row["median_a_ns"]
    return (
        f"{row['captures_a']} and {row['captures_b']} captures, which vary by {percent(row['spread_share'])} within a "
        f"run, prove differences from {percent(half)} on at a level of {CAPTURES_ALPHA * 50:g} %"
    )


def _signed_percent(share: float) -> str:
    return f"+{percent(share)}" if share > 0 else percent(share)
