"""Which row of HTA's DataFrame gets which node, whatever HTA did to the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.compat.made import et_node, files, op, trace_of, without_files
from tracebraid.compat.hta import Trace, correlate_execution_trace, load_execution_trace
from tracebraid.errors import ArgumentError

EVENTS = [
    op("step", 0, 100, cat="user_annotation", External_id=1, Record_function_id=11),
    op("aten::a", 1, 10, External_id=2, Record_function_id=12),
    op("aten::b", 20, 10, External_id=3, Record_function_id=13),
    op("aten::b", 40, 10, External_id=4, Record_function_id=14),
]
NODES = [
    et_node(3, "step", 2, rf_id=11, scope=7),
    et_node(4, "aten::a", 3, rf_id=12),
    et_node(5, "aten::b", 3, rf_id=13),
    et_node(6, "aten::b", 3, rf_id=14),
]


@pytest.fixture
def made(tmp_path: Path) -> tuple[Trace, str]:
    kineto, et = files(tmp_path, EVENTS, NODES)
    return trace_of(kineto), et


def nodes(trace: Trace, et: str) -> list[float | None]:
    correlate_execution_trace(trace, 0, load_execution_trace(et))
    return [None if value != value else value for value in trace.get_trace(0)["et_node"]]


def test_each_row_gets_the_node_of_its_op(made: tuple[Trace, str]) -> None:
    assert nodes(*made) == [3, 4, 5, 6]


def test_the_column_is_float64_as_hta_s(made: tuple[Trace, str]) -> None:
    nodes(*made)
    assert made[0].get_trace(0)["et_node"].dtype == np.float64


def test_rows_in_another_order_keep_their_nodes(made: tuple[Trace, str]) -> None:
    trace, et = made
    trace.traces[0] = trace.get_trace(0).iloc[[2, 0, 3, 1]]
    assert nodes(trace, et) == [5, 3, 6, 4]


def test_rows_that_were_left_out_take_no_node_from_others(made: tuple[Trace, str]) -> None:
    trace, et = made
    trace.traces[0] = trace.get_trace(0).iloc[[0, 3]].copy()
    assert nodes(trace, et) == [3, 6]


def test_names_and_categories_may_be_text_already(made: tuple[Trace, str]) -> None:
    trace, et = made
    for column in ("cat", "name"):
        trace.symbol_table.add_symbols_to_trace_df(trace.get_trace(0), column)
    assert nodes(trace, et) == [3, 4, 5, 6]


def test_a_number_of_no_symbol_is_no_op(made: tuple[Trace, str]) -> None:
    trace, et = made
    frame = trace.get_trace(0)
    frame.loc[1, "cat"] = 999
    frame.loc[2, "name"] = -128
    assert nodes(trace, et) == [3, None, None, 6]


def _ops_with_one_id() -> list[dict[str, object]]:
    events = [op("aten::b", 20 * i, 10, External_id=3, Record_function_id=13 + i) for i in range(3)]
    return [*events, op("aten::c", 70, 5, External_id=3, Record_function_id=16)]


def _their_nodes() -> list[dict[str, object]]:
    return [et_node(5 + i, "aten::b" if i < 3 else "aten::c", 2, rf_id=13 + i) for i in range(4)]


def test_ops_with_one_external_id_and_name_are_the_same_in_the_order_of_the_file(tmp_path: Path) -> None:
    kineto, et = files(tmp_path, _ops_with_one_id(), _their_nodes())
    trace = trace_of(kineto)
    trace.traces[0] = trace.get_trace(0).iloc[[3, 2, 0, 1]].copy()
    assert nodes(trace, et) == [8, 7, 5, 6]


def test_of_ops_with_one_external_id_and_name_none_is_guessed_where_one_was_left_out(tmp_path: Path) -> None:
    kineto, et = files(tmp_path, _ops_with_one_id(), _their_nodes())
    trace = trace_of(kineto)
    trace.traces[0] = trace.get_trace(0).iloc[1:].copy()
    assert nodes(trace, et) == [None, None, 8]


def test_a_missing_column_is_named(made: tuple[Trace, str]) -> None:
    trace, et = made
    trace.traces[0] = trace.get_trace(0).drop(columns="external_id")
    with pytest.raises(ArgumentError, match="no column external_id; load it with HTA's default ParserConfig"):
        nodes(trace, et)


def test_without_the_file_record_function_ids_in_the_dataframe_link(made: tuple[Trace, str]) -> None:
    trace, et = made
    trace.get_trace(0)["record_function_id"] = [11, 12, -1, 14]
    assert nodes(without_files(trace), et) == [3, 4, None, 6]


def test_without_the_file_external_ids_link_where_they_are_proven(tmp_path: Path) -> None:
    events = [op(f"aten::{name}", 20 * i, 10, External_id=3 + i) for i, name in enumerate("abcd")]
    kineto, et = files(
        tmp_path, events, [et_node(3 + i, f"aten::{n}", 2, rf_id=3 + i) for i, n in enumerate("abcd")]
    )
    assert nodes(without_files(trace_of(kineto)), et) == [3, 4, 5, 6]


def test_without_the_file_and_where_external_ids_drift_ops_link_by_their_places(tmp_path: Path) -> None:
    events = [op(f"aten::{name}", 20 * i, 10, External_id=4 + i) for i, name in enumerate("abcd")]
    kineto, et = files(
        tmp_path, events, [et_node(3 + i, f"aten::{n}", 2, rf_id=3 + i) for i, n in enumerate("abcd")]
    )
    assert nodes(without_files(trace_of(kineto)), et) == [3, 4, 5, 6]


def test_without_the_file_durations_that_hta_rounded_below_zero_do_no_harm(made: tuple[Trace, str]) -> None:
    trace, et = made
    frame = trace.get_trace(0)
    frame["record_function_id"] = [11, 12, 13, 14]
    frame.loc[3, "dur"] = -1.0
    assert nodes(without_files(trace), et) == [3, 4, 5, 6]
