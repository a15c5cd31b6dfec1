"""The report of a comparison: the verdict, where the difference comes from, what changed, what to know."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from msgspec import Struct

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.job import (
    DIFF_CAPTURES,
    DIFF_KERNELS,
    DIFF_LEFT_OUT,
    DIFF_OPS,
    DIFF_PARTS,
    DIFF_SETTINGS,
    DIFF_STEPS,
    DiffChange,
    DiffPart,
    DiffSetting,
)
from tracebraid.model.column import Table
from tracebraid.model.finding import Finding
from tracebraid.model.quantities import duration, percent
from tracebraid.model.questions import CautionCode, Comparison, GateOutcome, Verdict
from tracebraid.model.report import (
    Chart,
    ChartKind,
    DataTable,
    Facts,
    Level,
    Note,
    Part,
    Report,
    Section,
    most_rows,
)
from tracebraid.reports.diff import gate_line, verdict_line
from tracebraid.reports.findings import alike, line_of_alike

_MOST_RANKS = 24
"""Maximum bars of a chart; the table has more."""
_TABLE_ROWS = 1_000
_COLUMNS = ("part", "a_ns", "b_ns", "difference_ns")
_TOTALS = Table(
    "diff_part_totals",
    "One row per part of the step.",
    tuple(column for column in DIFF_PARTS.columns if column.name in _COLUMNS),
)
_ADD_UP = (
    "Means over the steps and ranks that count. The differences of all parts add up to that of the step."
)


def parts_chart(found: Comparison) -> Chart | None:
    """Chart the difference of each part of the step; None without parts."""
    totals = {
        part: found.parts.filter(pl.col("part") == part.value).select(
            pl.col("a_ns", "b_ns", "difference_ns").sum()
        )
        for part in DiffPart
    }
    rows = [
        {"part": code_name(part), **total.row(0, named=True)}
        for part, total in totals.items()
        if any(total.row(0))
    ]
    if not rows:
        return None
    frame = pl.DataFrame(rows, schema=_TOTALS.polars_schema())
    bars = frame.select(pl.col("part").alias("label"), pl.col("difference_ns").alias("value"))
    most = max(rows, key=lambda row: abs(row["difference_ns"]))
    summary = (
        f"Of {duration(found.difference_ns)} the most is {most['part']}: {duration(most['difference_ns'])}."
    )
    table = DataTable("rows-part-totals", "Parts of a step", frame, _TOTALS, formula=_ADD_UP)
    options = {"unit": "ns", "title": "b - a, of a step", "colour": "series-1"}
    title = "Difference of a step by its parts"
    return Chart("origin-parts", ChartKind.BARS, title, summary, {"bars": bars}, options, _ADD_UP, table)


def ranks_chart(found: Comparison) -> Chart:
    """Chart the difference of each rank's step; of many ranks, the largest."""
    ranks = found.steps.filter(pl.col("rank").is_not_null())
    order = pl.col("difference_ns").abs().rank("ordinal", descending=True)
    shown = ranks.filter(order <= _MOST_RANKS).sort("rank")
    bars = shown.select(
        pl.format("rank {}", "rank").alias("label"),
        pl.col("difference_ns").alias("value"),
        pl.col("low_ns").alias("low"),
        pl.col("high_ns").alias("high"),
    )
    if bars.get_column("low").null_count() == bars.height:
        bars = bars.drop("low", "high")
    differences = shown.get_column("difference_ns").to_list()
    least, most = duration(min(differences)), duration(max(differences))
    few = shown.height == ranks.height
    which = "each rank" if few else f"{shown.height} of {ranks.height:,} ranks, which differ most,"
    summary = f"The mean step of {which} differs by {least} to {most}."
    table = DataTable(
        "rows-steps",
        "Steps by rank",
        found.steps.head(_TABLE_ROWS),
        DIFF_STEPS,
        left_out=max(0, found.steps.height - _TABLE_ROWS),
    )
    options = {
        "unit": "ns",
        "title": "b - a, of a step",
        "colour": "series-1",
        "range": f"interval of a typical step's difference, {'98' if found.is_of_captures else '99.73'} %",
    }
    title = "Difference of a step by rank"
    return Chart("verdict-ranks", ChartKind.BARS, title, summary, {"bars": bars}, options, "", table)


_ROWS = 2_000
"""Maximum rows of a table, largest differences first: about 100 KB of the page."""
_VERDICTS = {Verdict.SLOWER: Level.WARNING, Verdict.NOT_JUDGED: Level.WARNING}
_CHANCE = (
    "Differences of a typical step by Hodges and Lehmann with intervals of 99.73 %; p by Mann and Whitney, corrected "
    "by Holm for the number of comparisons. A difference is significant where p is at most 0.27 %. With several "
    "captures, differences of the means of their medians with intervals of 98 %, p by Welch, and 2 %."
)
_OPS = (
    "change name module_b input_dims_a input_dims_b input_types_a input_types_b count_a count_b device_a_ns "
    "device_b_ns host_a_ns host_b_ns difference_ns path_b path_a"
)
_KERNELS = "change op kernel_a kernel_b count_a count_b a_ns b_ns difference_ns significant module path"
_PARTS = "part op cause host_activity a_ns b_ns difference_ns significant low_ns high_ns module path"
_SLOWER = "difference_ns low_ns high_ns name input_dims_b module_b path_b p"


class _Rows(Struct, frozen=True, eq=False):
    """Specification of a table: id, title, and the columns to show if they have values; empty: all."""

    id: str
    title: str
    frame: pl.DataFrame
    schema: Table
    columns: str = ""
    formula: str = _CHANCE


def comparison_report(
    found: Comparison,
    title: str = "Comparison of two runs",
    *,
    limit: float | None = None,
    findings: Sequence[Finding] = (),
) -> Report:
    """Build the report of a comparison.

    Args:
        found: the comparison.
        title: the title.
        limit: share by which a slower step fails a gate, such as 0.05; None: no gate.
        findings: findings in the files, in addition to those of the comparison.
    """
    sections = (
        _verdict(found, limit),
        _origin(found),
        _changes(found),
        _settings(found),
        _cautions(found, [*findings, *found.findings]),
    )
    return Report(title, tuple(section for section in sections if section is not None))


def _verdict(found: Comparison, limit: float | None) -> Section:
    parts: list[Part] = [_runs(found)]
    level = _VERDICTS.get(found.verdict, Level.NOTE)
    parts.append(Note(verdict_line(found), level, found.verdict.value))
    if limit is not None:
        outcome = found.gate(limit)
        level = Level.NOTE if outcome is GateOutcome.PASSED else Level.ERROR
        parts.append(Note(f"Gate: {gate_line(found, limit)}.", level, outcome.value))
    parts += [
        Note(caution.sentence, Level.WARNING, caution.code.value)
        for caution in found.cautions
        if caution.code is CautionCode.PROGRAMS_DIFFER
    ]
    if found.steps.height > 2:
        parts.append(ranks_chart(found))
    else:
        parts.append(_table(_Rows("steps", "Steps", found.steps, DIFF_STEPS)))
    if found.is_of_captures:
        parts.append(_table(_Rows("captures", "Captures", found.captures, DIFF_CAPTURES, formula="")))
    return Section("verdict", "Step time", parts)


def _runs(found: Comparison) -> Facts:
    row = found.steps.row(0, named=True)
    settings = {name: (a, b) for name, a, b in found.settings.select("setting", "a", "b").iter_rows()}
    a, b = settings.get(DiffSetting.PATH.value, (None, None))
    share = row["difference_share"]
    rows = [
        ("a, the baseline", f"{a or 'unknown'}: {row['steps_a']:,} steps, {duration(row['a_ns'])} each"),
        ("b, the compared run", f"{b or 'unknown'}: {row['steps_b']:,} steps, {duration(row['b_ns'])} each"),
        (
            "difference",
            f"{duration(row['difference_ns'])} a step" + ("" if share is None else f", {percent(share)}"),
        ),
    ]
    return Facts(rows)


def _origin(found: Comparison) -> Section:
    chart = parts_chart(found)
    parts: list[Part] = [] if chart is None else [chart]
    differing = found.parts.filter(pl.col("difference_ns") != 0)
    names = {code.value: code_name(code) for code in DiffPart}
    rows = differing.with_columns(pl.col("part").replace(names))
    if not rows.is_empty():
        parts.append(_table(_Rows("parts", "By op, and by cause of idle time", rows, DIFF_PARTS, _PARTS)))
    if not parts:
        parts = [Note("No part of the step differs.")]
    lead = "Parts of a step, mean over steps and ranks; all differences add up to that of the step."
    return Section("origin", "Where the difference comes from", parts, lead)


def _changes(found: Comparison) -> Section:
    names = {code.value: code_name(code) for code in DiffChange}
    in_words = pl.col("change").replace(names)
    ops = found.changed_ops.filter("outermost").with_columns(in_words)
    kernels = found.changed_kernels.with_columns(in_words)
    slower = found.ops.filter(pl.col("significant"), pl.col("difference_ns") != 0)
    tables = (
        _Rows("changed-ops", "Ops added, removed or changed", ops, DIFF_OPS, _OPS),
        _Rows("changed-kernels", "Kernels added, removed or changed", kernels, DIFF_KERNELS, _KERNELS),
        _Rows("slower-ops", "Ops whose own time differs by more than chance", slower, DIFF_OPS, _SLOWER),
    )
    parts: list[Part] = [_table(rows) for rows in tables if not rows.frame.is_empty()]
    if not parts:
        differs = "none is known to differ by more than chance"
        parts = [Note(f"Ops and kernels are the same, and {differs}.")]
    return Section("changes", "What changed", parts, "Ops are matched by call site.")


def _settings(found: Comparison) -> Section | None:
    known = found.settings.filter(pl.any_horizontal(pl.col("a", "b").is_not_null()))
    if known.is_empty():
        return None
    names = {code.value: code_name(code) for code in DiffSetting}
    frame = known.sort("differs", descending=True, maintain_order=True).with_columns(
        pl.col("setting").replace(names)
    )
    table = _table(_Rows("settings", "Settings", frame, DIFF_SETTINGS, "setting a b differs", ""))
    return Section("settings", "Settings of the runs", [table])


def _cautions(found: Comparison, findings: Sequence[Finding]) -> Section | None:
    parts: list[Part] = [
        Note(caution.sentence, Level.WARNING, caution.code.value)
        for caution in found.cautions
        if caution.code is not CautionCode.PROGRAMS_DIFFER
    ]
    parts += [
        Note(line_of_alike(same), Level.WARNING, same[0].code.value)
        for same in alike(dict.fromkeys(findings))
    ]
    if not found.left_out.is_empty():
        steps = _Rows("left-out", "Steps that are not counted", found.left_out, DIFF_LEFT_OUT, formula="")
        parts.append(_table(steps))
    if not parts:
        return None
    return Section("cautions", "Cautions", parts)


def _table(rows: _Rows) -> DataTable:
    """Tabulate the rows that differ most, with informative columns."""
    frame = rows.frame
    by = ("difference",) if "difference_ns" in frame.columns else ()
    sized = frame.with_columns(pl.col("difference_ns").abs().alias("difference")) if by else frame
    kept = most_rows(sized, _ROWS, by).select(frame.columns)
    wanted = rows.columns.split() or frame.columns
    shown = [name for name in wanted if kept.get_column(name).null_count() < kept.height]
    return DataTable(
        f"rows-{rows.id}",
        rows.title,
        kept,
        rows.schema,
        tuple(shown or wanted[:1]),
        rows.formula,
        frame.height - kept.height,
    )
