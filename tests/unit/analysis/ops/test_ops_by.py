"""Ops grouped by other keys, and how their times are spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.builders import op
from tests.planted import CALL_NS, Scene
from tests.unit.linking.made import linked_of
from tracebraid.analysis.ops.op_keys import KEY_COLUMNS
from tracebraid.analysis.ops.ops import ops
from tracebraid.errors import ArgumentError
from tracebraid.model.answers import OPS, OpKey


def scene() -> Scene:
    """Two modules, a function and an annotation, with an op each."""
    made = Scene()
    host, stream = made.thread(), made.stream()
    with host.module("Net_0"), host.frame("net.py(3): forward"):
        with host.module("Linear_0", 1), host.op("aten::mm", 10, dims=[[2, 3], [3, 4]], concrete=["", ""]):
            host.launch(stream, "gemm", 100)
        with (
            host.annotation("norm", 1),
            host.op("aten::mm", 20, dims=[[2, 3], [3, 4]], types=["half", "half"]),
        ):
            host.launch(stream, "gemm", 50)
    return made


def rows(by: str | list[str], **options: Any) -> list[dict[str, Any]]:
    return ops(scene().linked(), by=by, **options).to_dicts()


def test_columns_of_what_is_not_grouped_by_are_null() -> None:
    for row in rows(["name"]):
        assert [row[column] for column in KEY_COLUMNS if column not in ("name", "category")] == [None] * 7
        assert row["name"] is not None


def test_by_types() -> None:
    found = {row["input_types"]: row["device_self_ns"] for row in rows("types")}
    assert found == {'["float", "float"]': 100, '["half", "half"]': 50, None: 0}


def test_by_strides_and_concrete_inputs() -> None:
    found = {
        (row["input_strides"], row["concrete_inputs"]): row["count"]
        for row in rows("strides, concrete_inputs")
    }
    assert found == {("[[3, 1], [4, 1]]", '["", ""]'): 2, (None, None): 1}


def test_by_call_site() -> None:
    assert {row["call_site"]: row["device_total_ns"] for row in rows("call_site")} == {
        "net.py(3): forward": 150
    }


def test_by_module() -> None:
    found = {row["module"]: row["device_self_ns"] for row in rows("module")}
    assert found == {"Net_0/Linear_0": 100, "Net_0": 50}


def test_by_annotation() -> None:
    found = {(row["annotation"], row["name"]): row["device_self_ns"] for row in rows("annotation,name")}
    assert found == {(None, "aten::mm"): 100, ("norm", "aten::mm"): 50, (None, "norm"): 0}


def test_by_nothing_is_one_row() -> None:
    (row,) = rows([])
    assert (row["count"], row["device_self_ns"], row["device_total_ns"]) == (3, 150, 150)
    assert row["host_total_ns"] == 31 + 2 * CALL_NS


@pytest.mark.parametrize("keys", [[key.value] for key in OpKey] + [[key.value for key in OpKey]])
def test_self_times_are_the_same_sum_whatever_the_keys(keys: list[str]) -> None:
    found = ops(scene().linked(), by=keys)
    assert found.get_column("device_self_ns").sum() == 150
    assert found.get_column("host_self_ns").sum() == 31 + 2 * CALL_NS
    assert found.get_column("count").sum() == 3


def test_an_unknown_key_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="shape_of_water"):
        ops(linked_of([]), by="name,shape_of_water")


def test_the_spread_of_totals_shows_an_outlier() -> None:
    durations = [10, 20, 30, 40, 1000]
    linked = linked_of([op("f", 2000 * i, dur) for i, dur in enumerate(durations)])
    row = ops(linked).row(0, named=True)
    ns = [1000 * dur for dur in durations]
    assert (row["host_mean_ns"], row["host_median_ns"]) == (np.mean(ns), 30_000)
    assert row["host_p95_ns"] == pytest.approx(np.percentile(ns, 95))
    assert (row["host_min_ns"], row["host_max_ns"]) == (10_000, 1_000_000)
    assert (row["device_mean_ns"], row["device_max_ns"]) == (0.0, 0)


def test_the_spread_is_over_the_ops_that_count_in_the_total() -> None:
    row = ops(linked_of([op("f", 0, 100), op("f", 10, 50), op("f", 200, 40)])).row(0, named=True)
    assert (row["count"], row["host_mean_ns"], row["host_min_ns"]) == (3, 70_000, 40_000)


def test_no_ops_are_no_rows_by_any_key() -> None:
    assert ops(linked_of([]), by=[key.value for key in OpKey]).equals(OPS.empty())
