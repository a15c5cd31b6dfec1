"""Why a device is idle, in a few lines."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import polars as pl
from rich.console import Console

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers import IDLE_BLAME, IDLE_CAUSES, HostActivity, IdleCause
from tracebraid.model.column import Table
from tracebraid.reports.answers.idle import idle_tables

LATE, LATENCY = IdleCause.HOST_LATE.value, IdleCause.LAUNCH_LATENCY.value
COMPUTED = HostActivity.COMPUTED.value


def frame_of(table: Table, rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    fixed = {"rank": 0, "device": "0", "step": None}
    return table.conform(pl.DataFrame([fixed | row for row in rows]), fill_missing=True)


def rendered(
    causes: Sequence[dict[str, Any]], blame: Sequence[dict[str, Any]] = (), top: int = 5
) -> list[str]:
    blamed = frame_of(IDLE_BLAME, blame) if blame else IDLE_BLAME.empty()
    texts = []
    for table in idle_tables(frame_of(IDLE_CAUSES, causes), blamed, top):
        console = Console(file=io.StringIO(), width=200)
        console.print(table)
        assert isinstance(console.file, io.StringIO)
        texts.append(console.file.getvalue())
    return texts


def test_sizes_of_gaps_are_added_up_and_the_longest_cause_comes_first() -> None:
    (text,) = rendered(
        [
            {"cause": LATENCY, "idle_ns": 300},
            {"cause": LATE, "host_activity": COMPUTED, "size": "micro", "idle_ns": 500},
            {"cause": LATE, "host_activity": COMPUTED, "size": "macro", "idle_ns": 200},
        ]
    )
    assert text.index("700 ns") < text.index("300 ns")
    assert "70.0 %" in text
    assert code_name(HostActivity.COMPUTED) in text


def test_a_line_of_python_is_named_before_an_op() -> None:
    blame = [
        {"host_activity": COMPUTED, "top_op": "aten::mm", "frame": "train.py(3): step", "idle_ns": 5},
        {"host_activity": COMPUTED, "top_op": "aten::add", "idle_ns": 4},
    ]
    (text,) = rendered([{"cause": LATE, "host_activity": COMPUTED, "idle_ns": 9}], blame)
    assert "train.py(3): step" in text
    assert "aten::" not in text


def test_steps_count_in_the_whole_trace_alone_and_each_device_has_its_table() -> None:
    causes = [
        {"cause": LATENCY, "idle_ns": 300},
        {"cause": LATENCY, "idle_ns": 200, "step": "ProfilerStep#1"},
        {"cause": LATENCY, "idle_ns": 100, "device": "1"},
    ]
    first, second = rendered(causes)
    assert ("300 ns" in first, "200 ns" in first) == (True, False)
    assert "100 ns" in second


def test_what_is_not_shown_is_counted() -> None:
    causes = [{"cause": cause.value, "idle_ns": 10 - i} for i, cause in enumerate(list(IdleCause)[1:])]
    (text,) = rendered(causes, top=2)
    assert f"{len(causes) - 2} more" in text


def test_no_idle_time_makes_no_table() -> None:
    assert idle_tables(IDLE_CAUSES.empty(), IDLE_BLAME.empty(), 5) == []
