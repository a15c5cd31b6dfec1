"""Arguments from both traces: Kineto's first, then what only the Execution Trace has."""

from __future__ import annotations

from typing import Any

from tests.builders import Json, node, op, tensor
from tests.unit.linking.made import et_of, linked_of, row_of
from tracebraid.analysis.efficiency.catalog import ANALYSES
from tracebraid.analysis.efficiency.mfu import mfu
from tracebraid.analysis.efficiency.op_costs import op_costs
from tracebraid.analysis.needs import HAS, lacking
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need

FLOATS = "GenericList[Tensor(float),Tensor(float)]"


def pair_of(event: Json, et_node: Json) -> LinkedTrace:
    event["args"]["Record function id"] = et_node["attrs"][0]["value"]
    return linked_of([event], et_of(et_node))


def test_shapes_that_kineto_lacks_are_those_of_the_execution_trace() -> None:
    inputs = [tensor(5, 6, [2, 3]), tensor(7, 8, [3, 4])]
    row = row_of(op_costs(pair_of(op("aten::mm", 0, 5), node(10, "aten::mm", 1001, inputs))), name="aten::mm")
    assert (row["flops"], row["bytes"]) == (48, 4 * (6 + 12 + 8))


def test_shapes_of_either_trace_are_enough() -> None:
    inputs = [tensor(5, 6, [2, 3]), tensor(7, 8, [3, 4])]
    bare = op("aten::mm", 0, 5)
    by_et = pair_of(op("aten::mm", 0, 5), node(10, "aten::mm", 1001, inputs))
    by_kineto = linked_of([op("aten::mm", 0, 5, Input_Dims=[[2, 3], [3, 4]])])
    neither = linked_of([bare])
    for linked, known in ((by_et, True), (by_kineto, True), (neither, False)):
        assert HAS[Need.SHAPES_OF_EITHER](linked) is known
        assert op_costs(linked).is_empty() is not known
        assert mfu(linked).is_empty() is not known
    wanting = [a.name for a in ANALYSES if a.needs and Need.SHAPES_OF_EITHER in lacking(a, neither)]
    assert {"op_costs", "mfu"} <= set(wanting)


def test_the_types_of_a_list_are_those_of_the_execution_trace() -> None:
    event = op("aten::cat", 0, 5, Input_Dims=[[], []], Input_type=["TensorList", "Scalar"])
    listed = (FLOATS, [[5, 6, 0, 6, 4, "cpu"], [7, 8, 0, 2, 4, "cpu"]], [[2, 3], [2, 1]])
    row = row_of(
        op_costs(pair_of(event, node(10, "aten::cat", 1001, [listed, ("Int", 1, [])]))), name="aten::cat"
    )
    assert row["bytes"] == 2 * 4 * 8


def test_an_output_that_no_argument_tells_is_that_of_the_execution_trace() -> None:
    event = op("aten::index", 0, 5, Input_Dims=[[9, 4], []], Input_type=["float", ""])
    et_node = node(10, "aten::index", 1001, [tensor(5, 6, [9, 4])], [tensor(7, 8, [3, 4])])
    assert row_of(op_costs(pair_of(event, et_node)), name="aten::index")["bytes"] == 2 * 4 * 12
    assert row_of(op_costs(linked_of([event])), name="aten::index")["bytes"] is None


def test_a_convolution_whose_stride_was_not_recorded_has_the_output_of_the_execution_trace() -> None:
    dims = [[2, 4, 9, 9], [8, 4, 3, 3], [8], [], [], [], [], [], []]
    event = op("aten::convolution", 0, 5, Input_Dims=dims, Input_type=["float"] * 3 + ["Scalar"] * 6)
    inputs = [tensor(5, 6, [2, 4, 9, 9]), tensor(7, 8, [8, 4, 3, 3]), tensor(9, 10, [8])]
    values = ["[2,2]", "[1,1]", "[1,1]"]
    more: list[Any] = [("GenericList[Int,Int]", value, [[], []]) for value in values]
    et_node = node(
        10, "aten::convolution", 1001, [*inputs, *more, ("Bool", False, [])], [tensor(3, 4, [2, 8, 5, 5])]
    )
    assert (
        row_of(op_costs(pair_of(event, et_node)), name="aten::convolution")["flops"] == 2 * 2 * 25 * 8 * 4 * 9
    )
    assert row_of(op_costs(linked_of([event])), name="aten::convolution")["flops"] is None


def test_an_execution_trace_without_arguments_adds_nothing() -> None:
    linked = pair_of(op("aten::mm", 0, 5), node(10, "aten::mm", 1001))
    assert op_costs(linked).is_empty()
    assert HAS[Need.SHAPES_OF_EITHER](linked) is False
