"""Fields of the nodes as columns: their values, their names, and names that are none."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from tests.builders import tensor
from tests.unit.compat.made import et_node, files, op
from tracebraid.compat.et_fields import HTA_COLUMNS, field_of, fields
from tracebraid.compat.hta import add_et_column, load_execution_trace
from tracebraid.errors import ArgumentError
from tracebraid.model.execution_trace import ExecutionTrace

SCHEMA = "aten::add(Tensor self, int[] other) -> Tensor"


@pytest.fixture
def et(tmp_path: Path) -> ExecutionTrace:
    inputs = [tensor(8, 9, [2, 3]), ("GenericList[Int,Int]", [4, 5], [[], []]), ("None", "<None>", [])]
    add = et_node(3, "aten::add", 2, inputs, [tensor(10, 11, [2, 3])], op_schema=SCHEMA, tensor_range="{}")
    comms = et_node(4, "record_param_comms", 2, collective_name="allreduce", pg_name="0", in_msg_nelems=64)
    return load_execution_trace(files(tmp_path, [op("aten::add", 0, 1)], [add, comms])[1])


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame({"name": [7, 7, 7, 7], "et_node": [4.0, math.nan, 3.0, 3.0]}, index=[9, 9, 5, 2])


def added(frame: pd.DataFrame, et: ExecutionTrace, column: str) -> list[Any]:
    """The new column, with None for NaN."""
    add_et_column(frame, et, column)
    return [None if isinstance(value, float) and math.isnan(value) else value for value in frame[column]]


@pytest.mark.parametrize(
    ("column", "of_add", "of_comms"),
    [
        ("et_node_name", "aten::add", "record_param_comms"),
        ("op_schema", SCHEMA, ""),
        ("input_shapes", [[2, 3], [[], []], []], []),
        ("input_types", ["Tensor(float)", "GenericList[Int,Int]", "None"], []),
        ("output_shapes", [[2, 3]], []),
        ("output_types", ["Tensor(float)"], []),
        ("input_strides", [[], [], []], []),
        ("inputs", [[8, 9, 0, 6, 4, "cpu"], [4, 5], "<None>"], []),
        ("outputs", [[10, 11, 0, 6, 4, "cpu"]], []),
        ("rf_id", 3, 4),
        ("parent_id", 2, 2),
        ("seq_id", -1, -1),
        ("is_root", False, False),
        ("et_tid", 1, 1),
        ("tid", 1, 1),
        ("collective_name", None, "allreduce"),
        ("et_pg_name", None, "0"),
        ("in_msg_nelems", None, 64),
        ("tensor_range", "{}", None),
        ("kernel_backend", None, None),
    ],
)
def test_a_field_of_each_kind(
    et: ExecutionTrace, frame: pd.DataFrame, column: str, of_add: object, of_comms: object
) -> None:
    assert added(frame, et, column) == [of_comms, None, of_add, of_add]


def test_all_known_columns_can_be_had(et: ExecutionTrace, frame: pd.DataFrame) -> None:
    for column in fields(et):
        if column != "name":
            add_et_column(frame, et, column)
    assert set(fields(et)) <= set(frame.columns)


def test_hta_s_columns_come_first(et: ExecutionTrace) -> None:
    assert tuple(fields(et)[:6]) == HTA_COLUMNS


def test_a_column_is_put_in_place_and_a_second_time_too(et: ExecutionTrace, frame: pd.DataFrame) -> None:
    put: Callable[..., object] = add_et_column
    for _ in range(2):
        assert put(frame, et, "op_schema") is None
    assert list(frame.columns) == ["name", "et_node", "op_schema"]
    assert list(frame.index) == [9, 9, 5, 2]


def test_no_two_nodes_share_a_list(et: ExecutionTrace) -> None:
    values = field_of(et, "input_shapes").by_node()
    values[4].append("mine")
    assert values[2] == []


def test_traces_without_strides_have_none(et: ExecutionTrace, frame: pd.DataFrame) -> None:
    older = ExecutionTrace(
        **{**vars(et), "values": et.values.with_columns(strides=pl.lit(None, pl.Categorical()))}
    )
    assert added(frame, older, "input_strides") == [None] * 4


def test_a_polars_frame_is_changed_in_place_too(et: ExecutionTrace) -> None:
    frame = pl.DataFrame({"et_node": [4, None, 3], "dur_ns": [1, 2, 3]})
    for column in ("rf_id", "rf_id", "input_shapes", "input_types", "rf_id"):
        add_et_column(frame, et, column)
    assert frame.to_dict(as_series=False) == {
        "et_node": [4, None, 3],
        "dur_ns": [1, 2, 3],
        "rf_id": [4, None, 3],
        "input_shapes": ["[]", None, "[[2,3],[[],[]],[]]"],
        "input_types": [[], None, ["Tensor(float)", "GenericList[Int,Int]", "None"]],
    }


def test_a_polars_frame_may_have_nan_for_no_node(et: ExecutionTrace) -> None:
    frame = pl.DataFrame({"et_node": [4.0, math.nan]})
    add_et_column(frame, et, "rf_id")
    assert frame.get_column("rf_id").to_list() == [4, None]


@pytest.mark.parametrize("column", ["schema", "node_id", "", "et_node", "et_rf_id", None, ["op_schema"]])
def test_an_unknown_column_is_refused_with_the_known_ones(
    et: ExecutionTrace, frame: pd.DataFrame, column: Any
) -> None:
    with pytest.raises(ArgumentError, match=r"known are et_node_name, op_schema, .*rf_id.*tensor_range"):
        add_et_column(frame, et, column)
    assert list(frame.columns) == ["name", "et_node"]


def test_a_column_of_kineto_s_is_not_written_over(et: ExecutionTrace, frame: pd.DataFrame) -> None:
    frame["tid"] = 2993
    with pytest.raises(ArgumentError, match="a column 'tid' of Kineto's; ask for 'et_tid'"):
        add_et_column(frame, et, "tid")
    with pytest.raises(ArgumentError, match="ask for 'et_node_name'"):
        add_et_column(frame, et, "name")
    assert set(frame["tid"]) == {2993}


def test_a_frame_that_was_not_correlated_is_refused(et: ExecutionTrace, frame: pd.DataFrame) -> None:
    with pytest.raises(ArgumentError, match="no column et_node; run correlate_execution_trace first"):
        add_et_column(frame.drop(columns="et_node"), et, "op_schema")


def test_a_node_of_another_execution_trace_is_refused(et: ExecutionTrace, frame: pd.DataFrame) -> None:
    frame.loc[5, "et_node"] = 77.0
    with pytest.raises(
        ArgumentError, match="has no node 77, which et_node names; give the Execution Trace that"
    ):
        add_et_column(frame, et, "op_schema")


def test_rows_without_any_node_are_all_empty(et: ExecutionTrace) -> None:
    frame = pd.DataFrame({"et_node": [math.nan, math.nan]})
    assert added(frame, et, "input_shapes") == [None, None]
    assert added(frame.iloc[:0].copy(), et, "op_schema") == []
