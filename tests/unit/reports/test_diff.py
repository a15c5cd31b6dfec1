"""The report of `tracebraid diff`: what stands in it, in which order, and that it fits."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

import tracebraid
from tests.planted.programs import GEMM_NS, Program
from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers import DiffChange, DiffPart, HostActivity, IdleCause
from tracebraid.model.diff_sentences import caution_sentence
from tracebraid.model.questions.comparison import Caution, CautionCode, Comparison
from tracebraid.reports.diff import diff_parts_for_people, verdict_line
from tracebraid.reports.diff_tables import changed_ops_table, parts_table
from tracebraid.reports.fitted_table import Head, fitted_table

STEPS = [2 * GEMM_NS + 100 * number for number in range(8)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The same program with an op removed."""
    runs = []
    for name, program in (("a", replace(Program(), added=True)), ("b", Program())):
        folder = tmp_path_factory.mktemp(name)
        program.scene(STEPS).write(folder)
        runs.append(folder)
    return tracebraid.diff(runs[0], runs[1])


def with_cautions(found: Comparison, *cautions: Caution) -> Comparison:
    return replace(found, cautions=cautions)


def cost(run: str, share: str) -> Caution:
    return Caution(
        CautionCode.PROFILER_COST, {"run": run, "host_late": "11 %", "events": "7", "share": share}
    )


def cells(table: Table, column: int) -> list[str]:
    return list(map(str, table.columns[column].cells))


def printed(parts: Sequence[Text | Table], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_programs_that_differ_are_named_first_and_the_report_is_short(found: Comparison) -> None:
    differ = Caution(CautionCode.PROGRAMS_DIFFER, {"share": "1 %"})
    few = Caution(CautionCode.FEW_STEPS, {"a": 1, "b": 1})
    parts = diff_parts_for_people(with_cautions(found, few, differ), 10, 100)
    assert caution_sentence(differ) in str(parts[0])
    whole = diff_parts_for_people(with_cautions(found, few), 10, 100)
    assert str(whole[0]) == verdict_line(found)
    assert len(printed(parts, 100)) < len(printed(whole, 100))
    assert caution_sentence(few) in "".join(str(part) for part in parts if isinstance(part, Text))


def test_a_caution_about_both_runs_is_one_line_with_the_figures_of_both(found: Comparison) -> None:
    parts = diff_parts_for_people(with_cautions(found, cost("a", "5 %"), cost("b", "6 %")), 10, 100)
    lines = [str(part) for part in parts if isinstance(part, Text) and "11 %" in str(part)]
    assert len(lines) == 1
    assert "5 %" in lines[0]
    assert "6 %" in lines[0]


def test_what_a_run_does_not_have_is_no_time_of_0(found: Comparison) -> None:
    table = parts_table(found, 200)
    rows = dict(zip(cells(table, 0), zip(cells(table, 1), cells(table, 2), strict=True), strict=True))
    before, after = rows["  aten::dropout"]
    assert after == "-"
    assert before[0].isdigit()


def test_codes_are_shown_by_their_names(found: Comparison) -> None:
    row: dict[str, Any] = {
        "part": DiffPart.EXPOSED_COMMUNICATION.value,
        "cause": IdleCause.HOST_LATE.value,
        "host_activity": HostActivity.COMPUTED.value,
        "a_ns": 5,
        "b_ns": 9,
        "difference_ns": 4,
    }
    extra = pl.DataFrame([row], schema_overrides={"a_ns": pl.Int64})
    parts = pl.concat([found.parts, extra], how="diagonal_relaxed")
    names = cells(parts_table(replace(found, parts=parts), 200), 0)
    assert code_name(DiffPart.EXPOSED_COMMUNICATION) in names
    assert any(code_name(IdleCause.HOST_LATE) in name for name in names)
    assert not any(code in name for code in (row["cause"], row["part"]) for name in names)


def test_ops_without_a_difference_are_hidden_unless_there_is_nothing_else(found: Comparison) -> None:
    changed = found.changed_ops.filter("outermost")
    assert not changed.is_empty()
    equal = pl.lit(0, dtype=pl.Int64).alias("difference_ns")
    other = changed.head(1).with_columns(equal, pl.lit("aten::view").alias("name"))
    both = changed_ops_table(replace(found, ops=pl.concat([changed, other])), 10, 200)
    alone = changed_ops_table(replace(found, ops=other), 10, 200)
    assert both is not None
    assert alone is not None
    assert "aten::view" not in cells(both, 1)
    assert cells(alone, 1) == ["aten::view"]
    assert cells(alone, 0) == [code_name(DiffChange.REMOVED)]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_table_fits_and_no_name_is_folded(width: int) -> None:
    heads = [Head("op", "left", shortens=True), Head("difference"), Head("path", "left", shortens=True)]
    rows = [["op" * 100, "+5 ms", "path" * 50], ["short", "-1 ms", ""]]
    lines = printed([fitted_table("Title", heads, rows, width, kept=2)], width)
    assert max(map(len, (line.rstrip() for line in lines))) <= width
    assert sum("ms" in line for line in lines) == 2
    assert len(lines) == 3 + len(rows)


def test_real_reports_fit(found: Comparison, tmp_path: Path) -> None:
    long = replace(Program(), added=True).scene(STEPS)
    host, stream = long.thread("other"), long.stream(7)
    host.until(STEPS[0])
    with host.op("aten::" + "long" * 40, dims=[[2, 3]]):
        host.launch(stream, "kernel" * 40, 100)
    long.write(tmp_path)
    (tmp_path / "plain").mkdir()
    Program().scene(STEPS).write(tmp_path / "plain")
    compared = tracebraid.diff(tmp_path / "plain", tmp_path)
    tables = [part for part in diff_parts_for_people(compared, 10, 80) if isinstance(part, Table)]
    assert max(len(line.rstrip()) for line in printed(tables, 80)) <= 80
