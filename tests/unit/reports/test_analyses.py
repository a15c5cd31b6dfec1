"""Answers as tables for people."""

from __future__ import annotations

import io
from typing import Any

import polars as pl
from rich.console import Console

from tracebraid.analysis.catalog import ANALYSES
from tracebraid.model.analysis import Answer, Need
from tracebraid.model.answers import KERNELS
from tracebraid.reports.analyses import analyses_data, answer_table, lacks_lines

KERNELS_ANALYSIS = next(analysis for analysis in ANALYSES if analysis.name == "kernels")


def rendered(answer: Answer, top: int = 20) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(answer_table(answer, top))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def answer_of(*rows: dict[str, Any]) -> Answer:
    fixed = {"rank": 0, "kind": "compute", "doubtful": False}
    frame = pl.DataFrame([fixed | row for row in rows])
    return Answer(KERNELS_ANALYSIS, KERNELS.conform(frame, fill_missing=True), {0: ()})


def test_times_shares_and_names_are_shown_in_their_units() -> None:
    text = rendered(answer_of({"name": "[red]gemm[/]", "total_ns": 1_500, "share": 0.5}))
    for shown in ("[red]gemm[/]", "1.500 µs", "50.0 %", "total"):
        assert shown in text


def test_columns_that_say_nothing_are_left_out() -> None:
    text = rendered(answer_of({"name": "gemm", "total_ns": 1}))
    assert [word for word in ("rank", "step", "doubtful", "mean") if word in text] == []
    doubtful = rendered(answer_of({"name": "a", "step": "s", "doubtful": True}, {"name": "b", "rank": 1}))
    assert [word for word in ("rank", "step", "doubtful") if word not in doubtful] == []


def test_no_more_rows_than_asked_for_and_the_rest_is_counted() -> None:
    text = rendered(answer_of(*[{"name": f"kernel{i}"} for i in range(30)]), top=3)
    assert "kernel2" in text
    assert "kernel3" not in text
    assert "27 more" in text


def test_what_is_lacking_is_named_with_the_ranks_that_lack_it() -> None:
    answer = Answer(KERNELS_ANALYSIS, KERNELS.empty(), {0: (), 4: (Need.DEVICE_WORK,)})
    (line,) = lacks_lines(answer)
    assert Need.DEVICE_WORK.value in line
    assert "rank 4" in line
    assert lacks_lines(Answer(KERNELS_ANALYSIS, KERNELS.empty(), {0: ()})) == []


def test_data_has_an_object_for_each_analysis() -> None:
    data = analyses_data(ANALYSES)
    assert [entry["name"] for entry in data] == [analysis.name for analysis in ANALYSES]
    kernels = next(entry for entry in data if entry["name"] == "kernels")
    assert kernels["needs"] == ["device work"]
    assert [column["name"] for column in kernels["columns"]] == [column.name for column in KERNELS.columns]
