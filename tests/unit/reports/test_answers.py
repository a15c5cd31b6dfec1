"""Answers as tables for people."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from tracebraid.analysis.catalog import job_analyses, rank_analyses
from tracebraid.analysis.kernels.kernels import KERNELS
from tracebraid.analysis.time.idle.idle_parts import IDLE_BLAME, IDLE_CAUSES
from tracebraid.model.analysis import Analysis, Answer, Need
from tracebraid.model.answer_sentences import CODE_SENTENCES, CODES_OF_COLUMNS, code_name
from tracebraid.model.answers.time import HostActivity, IdleCause
from tracebraid.model.collectives import UNKNOWN_GROUP
from tracebraid.model.column import Table as Schema
from tracebraid.reports.answers import (
    CONTEXT,
    analyses_data,
    answer_parts,
    cell_text,
    heading,
    idle_tables,
    lacks_lines,
    no_rows_line,
)

EVERY: tuple[Analysis, ...] = (*rank_analyses(), *job_analyses())
BY_NAME = {analysis.name: analysis for analysis in EVERY}
KERNEL_ANALYSIS = BY_NAME["kernels"]
LONG = "void at::native::elementwise_kernel<" + "x" * 200 + ">(int, char*)"


def answer_of(*rows: Mapping[str, Any], name: str = "kernels") -> Answer:
    table = BY_NAME[name].table
    fixed = {"rank": 0} | ({"doubtful": False} if any(c.name == "doubtful" for c in table.columns) else {})
    return Answer(
        BY_NAME[name],
        table.conform(pl.DataFrame([fixed | dict(row) for row in rows], strict=False), fill_missing=True),
        {0: ()},
    )


def rendered(answer: Answer, top: int = 20, width: int = 160, starts: Mapping[int, int] | None = None) -> str:
    console = Console(file=io.StringIO(), width=width)
    for part in answer_parts(replace(answer, starts=starts or {}), top, width):
        console.print(part, soft_wrap=isinstance(part, str))
        if isinstance(part, Table):
            console.print()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def full(analysis: Analysis) -> Answer:
    """Two rows with a long text or a large number in each column."""
    values: dict[type[pl.DataType], Any] = {
        pl.String: LONG,
        pl.Int64: 123_456_789_012,
        pl.Float64: 0.123456,
        pl.Boolean: True,
        pl.List: list(range(0, 200, 2)),
    }
    schema = analysis.table.polars_schema()
    rows = [{name: values[type(dtype)] for name, dtype in schema.items()} for _ in range(2)]
    if "rank" in schema:
        rows = [row | {"rank": rank} for rank, row in enumerate(rows)]
    if "depth" in schema:
        rows = [row | {"depth": 1} for row in rows]
    return Answer(analysis, pl.DataFrame(rows, schema=schema), {0: ()})


@pytest.mark.parametrize("analysis", EVERY, ids=lambda analysis: analysis.name)
def test_each_analysis_says_which_of_its_columns_people_see(analysis: Analysis) -> None:
    shown = [name.rstrip("!") for name in analysis.shown_columns]
    columns = {column.name for column in analysis.table.columns}
    assert set(shown) <= columns - set(CONTEXT)
    assert len(set(shown)) == len(shown)
    assert {name for names in analysis.picked_by for name in names.split()} <= columns


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("analysis", EVERY, ids=lambda analysis: analysis.name)
def test_a_table_fits_the_terminal_with_a_line_for_each_row(analysis: Analysis, width: int) -> None:
    text = rendered(full(analysis), width=width)
    table = text.split("\n\n")[0].splitlines()
    assert max(map(len, table)) <= width
    rule = next(i for i, line in enumerate(table) if line.startswith("──"))
    assert len([line for line in table[rule + 1 :] if line.strip()]) == 2


@pytest.mark.parametrize("width", [80, 120])
def test_columns_that_do_not_fit_are_named(width: int) -> None:
    text = rendered(full(BY_NAME["launches"]), width=width)
    assert "host_p95_ns" in text
    assert "host_mean_ns" not in rendered(full(BY_NAME["launches"]), width=200).split("--csv")[-1]


def test_times_shares_and_names_are_shown_in_their_units() -> None:
    text = rendered(answer_of({"name": "[red]gemm[/]", "total_ns": 1_500, "share": 0.5}))
    for shown in ("[red]gemm[/]", "1.500 µs", "50.0 %", "total"):
        assert shown in text


def test_long_names_lose_their_middle() -> None:
    text = rendered(answer_of({"name": LONG, "total_ns": 1}), width=80)
    assert "elementwise_kernel<x" in text
    assert "x>" in text
    assert LONG not in text


def test_columns_that_say_nothing_are_left_out() -> None:
    text = rendered(answer_of({"name": "gemm", "total_ns": 1}))
    assert [word for word in ("rank", "step", "doubtful", "mean") if word in text] == []
    doubtful = rendered(answer_of({"name": "a", "step": "s", "doubtful": True}, {"name": "b", "rank": 1}))
    assert [word for word in ("rank", "step", "doubtful") if word not in doubtful] == []


def test_columns_of_zeros_are_named_below_the_table() -> None:
    row = {"span_ns": 5, "compute_ns": 5, "communication_ns": 0, "overlap_ns": 0, "idle_ns": 0}
    table, *below = rendered(answer_of(row, name="breakdown")).split("\n\n", 1)
    assert "overlap" not in table
    assert "communication_ns, overlap_ns" in below[0]


def test_zero_is_shown_where_it_is_the_answer() -> None:
    rows = [
        {"step": step, "start_bytes": 5, "end_bytes": 5, "growth_bytes": growth}
        for step, growth in [("a", None), ("b", 0)]
    ]
    table = rendered(answer_of(*rows, name="memory_growth")).split("\n\n")[0]
    assert "growth" in table


def test_of_rows_in_the_order_of_time_those_that_last_longest_are_shown() -> None:
    rows = [{"gap": i, "dur_ns": length, "start_ns": i} for i, length in enumerate([1, 90_000, 2, 80_000])]
    text = rendered(answer_of(*rows, name="idle_gaps"), top=2)
    assert text.index("90.00 µs") < text.index("80.00 µs")
    assert "2 more" in text
    assert "1 ns" not in text


def test_null_is_a_dash_and_zero_is_no_null() -> None:
    rows = [{"name": "a", "total_ns": 0, "mean_ns": None}, {"name": "b", "total_ns": 3, "mean_ns": 3.0}]
    line = next(line for line in rendered(answer_of(*rows)).splitlines() if line.startswith("a "))
    assert line.split() == ["a", "0", "-"]


def test_rows_are_counted_for_each_rank() -> None:
    rows = [{"name": f"kernel{i}", "rank": rank, "total_ns": 1} for rank in (0, 3) for i in range(30)]
    text = rendered(answer_of(*rows), top=3)
    assert text.count("kernel2") == 2
    assert "kernel3" not in text
    assert "54 more" in text
    assert "27 more" in rendered(answer_of(*rows[:30]), top=3)


def test_devices_are_named_where_a_rank_has_several() -> None:
    rows = [{"rank": rank, "device": str(device), "span_ns": 1} for rank, device in [(0, 0), (1, 1)]]
    assert "device" not in rendered(answer_of(*rows, name="breakdown"))
    assert "device" in rendered(answer_of(*rows, {"rank": 1, "device": "2", "span_ns": 1}, name="breakdown"))


@pytest.mark.parametrize("analysis", EVERY, ids=lambda analysis: analysis.name)
def test_no_two_columns_have_the_same_heading(analysis: Analysis) -> None:
    headings = [heading(name.rstrip("!")) for name in analysis.shown_columns]
    assert len(set(headings)) == len(headings)


def test_moments_are_shown_from_the_start_of_their_trace() -> None:
    rows = [{"step": "a", "rank": 0, "start_ns": 5_000_000}, {"step": "b", "rank": 1, "start_ns": 9_001_000}]
    text = rendered(answer_of(*rows, name="steps"), starts={0: 4_000_000, 1: 9_000_000})
    assert "+1.000 ms" in text
    assert "+0.001 ms" in text


def test_modules_are_a_tree_of_those_with_the_most_time() -> None:
    rows = [
        {"path": path, "depth": depth, "device_forward_total_ns": ns, "host_forward_total_ns": 1}
        for path, depth, ns in [
            ("A", 0, 90),
            ("A/B", 1, 10),
            ("A/C", 1, 80),
            ("A/C/D", 2, 70),
            (None, None, 5),
        ]
    ]
    lines = rendered(answer_of(*rows, name="modules"), top=3).splitlines()
    names = [line.split("  9")[0].split("  8")[0].split("  7")[0].rstrip() for line in lines[3:6]]
    assert names == ["A", "  C", "    D"]
    whole = rendered(answer_of(*rows, name="modules"))
    assert whole.index(" B") < whole.index(" C")
    assert "no module" in whole


def test_without_device_time_modules_are_those_with_the_most_host_time() -> None:
    rows = [
        {"path": path, "depth": 0, "device_forward_total_ns": 0, "host_forward_total_ns": ns}
        for path, ns in [("A", 1), ("B", 3), ("C", 2)]
    ]
    text = rendered(answer_of(*rows, name="modules"), top=1)
    assert "B" in text.splitlines()[3]


def test_a_step_without_a_name_is_all_or_none() -> None:
    breakdown = rendered(
        answer_of({"step": None, "span_ns": 2}, {"step": "s", "span_ns": 1}, name="breakdown")
    )
    assert "all" in breakdown
    kernels = rendered(answer_of({"step": None, "name": "k"}, {"step": "s", "name": "k"}))
    assert "none" in kernels


def test_a_step_or_a_host_that_all_rows_share_is_in_the_title() -> None:
    row = {"step": "Iteration#4", "device": "cpu", "cause": IdleCause.HOST_LATE.value, "idle_ns": 1}
    title, heads = rendered(answer_of(row, name="idle_causes")).splitlines()[:2]
    assert "Iteration#4" in title
    assert "CPU" in title
    assert "device" not in heads
    assert "CPU" not in rendered(answer_of(row | {"device": "0"}, name="idle_causes")).splitlines()[0]


def test_codes_are_named_and_explained_once() -> None:
    rows = [{"cause": IdleCause.HOST_LATE.value, "idle_ns": i + 1} for i in range(2)]
    text = rendered(answer_of(*rows, name="idle_causes"))
    assert text.count(CODE_SENTENCES[IdleCause.HOST_LATE]) == 1
    assert text.count(code_name(IdleCause.HOST_LATE)) == 3
    assert IdleCause.HOST_LATE.value not in text
    assert CODE_SENTENCES[IdleCause.BLOCKED] not in text


def test_a_code_that_is_not_known_is_shown_as_it_is() -> None:
    assert "of-a-later-version" in rendered(answer_of({"cause": "of-a-later-version"}, name="idle_causes"))


@pytest.mark.parametrize("column", CODES_OF_COLUMNS)
def test_codes_of_a_column_do_not_share_values_with_different_names(column: str) -> None:
    assert any(column in (c.name for c in analysis.table.columns) for analysis in EVERY)
    names: dict[str, set[str]] = {}
    for kind in CODES_OF_COLUMNS[column]:
        for code in kind:
            names.setdefault(code.value, set()).add(code_name(code))
    assert {value: shown for value, shown in names.items() if len(shown) > 1} == {}


def test_what_is_lacking_is_named_with_the_ranks_that_lack_it() -> None:
    answer = Answer(KERNEL_ANALYSIS, KERNEL_ANALYSIS.table.empty(), {0: (), 4: (Need.DEVICE_WORK,)})
    (line,) = lacks_lines(answer)
    assert Need.DEVICE_WORK.value in line
    assert "rank 4" in line
    assert lacks_lines(Answer(KERNEL_ANALYSIS, KERNEL_ANALYSIS.table.empty(), {0: ()})) == []


def test_what_would_help_is_not_asked_for_where_nothing_can_be_answered() -> None:
    analysis = BY_NAME["overlap"]
    lacks = {0: (*analysis.needs, *analysis.uses)}
    assert len(lacks_lines(Answer(analysis, analysis.table.empty(), lacks))) == len(analysis.needs)


@pytest.mark.parametrize("analysis", EVERY, ids=lambda analysis: analysis.name)
def test_an_empty_answer_says_what_that_means(analysis: Analysis) -> None:
    line = no_rows_line(Answer(analysis, analysis.table.empty(), {0: ()}))
    assert line.startswith(analysis.name)
    assert analysis.when_empty in line
    assert "[" not in line


def test_who_launches_too_little_at_a_time_comes_before_how_many_launches() -> None:
    shown = BY_NAME["launch_bound"].shown_columns
    assert max(shown.index("op"), shown.index("annotation")) < shown.index("launches")


@pytest.mark.parametrize(
    ("ranks", "shown"), [([], "none"), ([3], "3"), ([0, 1, 2, 3, 7], "0-3, 7"), ([1, 3, 5], "1, 3, 5")]
)
def test_of_ranks_that_follow_each_other_the_first_and_the_last_are_shown(
    ranks: list[int], shown: str
) -> None:
    assert cell_text("ranks", pl.Series(ranks, dtype=pl.Int64), 0) == shown


def _job_answer(name: str, *rows: dict[str, Any]) -> Answer:
    table = BY_NAME[name].table
    frame = table.conform(pl.DataFrame(list(rows), strict=False), fill_missing=True)
    return Answer(BY_NAME[name], frame, dict.fromkeys(range(3), ()))


def test_rows_over_a_job_are_counted_over_all_ranks() -> None:
    rows = [{"rank": rank, "waited_for": 9, "waiting_ns": 1000 * (rank + 1)} for rank in range(30)]
    lines = rendered(_job_answer("rank_waits", *rows), top=2).splitlines()
    shown = [line.split()[0] for line in lines if line.split()[1:2] == ["9"]]
    assert shown == ["28", "29"], "those that wait most, in the answer's order"
    assert any(line.startswith("28 ") for line in lines if "--top" in line)


def test_rows_of_alternating_ranks_are_no_sections() -> None:
    def gaps(ranks: list[int]) -> int:
        rows = [{"rank": rank, "waiting_ns": 1, "waited_for": 5} for rank in ranks]
        lines = rendered(_job_answer("rank_waits", *rows)).rstrip().splitlines()
        return sum(not line.strip() for line in lines)

    assert gaps([0, 1, 0, 1]) == gaps([0, 1, 2]) == 0
    assert gaps([0, 0, 1]) == 1


def test_rank_0_is_shown_though_it_is_0_in_all_rows() -> None:
    text = rendered(_job_answer("collectives", *[{"type": "barrier", "last_rank": 0, "missing": []}] * 2))
    header = " ".join(text.split("\n")[1:3])
    assert "last" in header
    assert "missing" not in header


def test_a_group_of_which_nothing_is_known_is_not_shown() -> None:
    rows = [{"type": "barrier", "group": group, "count": 1} for group in (UNKNOWN_GROUP, "tp")]
    assert "group" in rendered(_job_answer("collective_fit", *rows)).splitlines()[1]
    assert "group" not in rendered(_job_answer("collective_fit", rows[0])).splitlines()[1]


def test_a_rank_that_does_not_communicate_lacks_no_collectives() -> None:
    frame = BY_NAME["matched_groups"].table.empty()
    lacks = {0: (), 1: (Need.COMMUNICATION, Need.COLLECTIVES)}
    lines = lacks_lines(Answer(BY_NAME["matched_groups"], frame, lacks))
    assert len(lines) == 1
    lines = lacks_lines(Answer(BY_NAME["matched_groups"], frame, {0: (Need.COLLECTIVES,), 1: ()}))
    assert len(lines) == 1


def test_a_single_straggler_has_its_rank_and_too_few_steps_say_how_many_it_takes() -> None:
    row = {"rank": 1, "systematic": False, "p_value": 0.25, "blocks": 3, "worst_count": 3, "caused_ns": 10**6}
    row["blocks_needed"] = 8
    text = rendered(answer_of(row, name="stragglers"))
    assert "rank" in text
    assert "record 8 steps" in text
    for enough in ({"systematic": True}, {"blocks": 8}):
        assert "record" not in rendered(answer_of(row | enough, name="stragglers"))


# --- Why a device is idle, in a few lines ------------------------------------------------------------


LATE, LATENCY = IdleCause.HOST_LATE.value, IdleCause.LAUNCH_LATENCY.value
COMPUTED = HostActivity.COMPUTED.value


def frame_of(table: Schema, rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    fixed = {"rank": 0, "device": "0", "step": None}
    return table.conform(pl.DataFrame([fixed | row for row in rows]), fill_missing=True)


def rendered_idle(
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
    (text,) = rendered_idle(
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
    (text,) = rendered_idle([{"cause": LATE, "host_activity": COMPUTED, "idle_ns": 9}], blame)
    assert "train.py(3): step" in text
    assert "aten::" not in text


def test_steps_count_in_the_whole_trace_alone_and_each_device_has_its_table() -> None:
    causes = [
        {"cause": LATENCY, "idle_ns": 300},
        {"cause": LATENCY, "idle_ns": 200, "step": "ProfilerStep#1"},
        {"cause": LATENCY, "idle_ns": 100, "device": "1"},
    ]
    first, second = rendered_idle(causes)
    assert ("300 ns" in first, "200 ns" in first) == (True, False)
    assert "100 ns" in second


def test_what_is_not_shown_is_counted() -> None:
    causes = [{"cause": cause.value, "idle_ns": 10 - i} for i, cause in enumerate(list(IdleCause)[1:])]
    (text,) = rendered_idle(causes, top=2)
    assert f"{len(causes) - 2} more" in text


def test_no_idle_time_makes_no_table() -> None:
    assert idle_tables(IDLE_CAUSES.empty(), IDLE_BLAME.empty(), 5) == []


# --- The list of analyses, for programs --------------------------------------------------------------


def test_data_has_an_object_for_each_analysis() -> None:
    data = analyses_data(rank_analyses())
    assert [entry["name"] for entry in data] == [analysis.name for analysis in rank_analyses()]
    kernels = next(entry for entry in data if entry["name"] == "kernels")
    assert kernels["needs"] == ["device work"]
    assert [column["name"] for column in kernels["columns"]] == [column.name for column in KERNELS.columns]
