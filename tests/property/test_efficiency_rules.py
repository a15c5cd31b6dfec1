"""Every rule on any arguments: a cost, or that it is unknown, and no other error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import op
from tests.unit.linking.made import linked_of
from tracebraid.analysis.efficiency.formulas.rules import RULE_NAMES, cost_of, rule_of
from tracebraid.analysis.efficiency.op_costs import op_costs
from tracebraid.analysis.efficiency.operands import UnknownOperandError, operands_of

steady = settings(deadline=None, derandomize=True, max_examples=300)

TYPES = ["float", "c10::BFloat16", "long int", "bool", "TensorList", "Scalar", "ScalarList", "", "c10::New"]
SHAPES = st.lists(st.integers(-1, 6), max_size=5)
WORDS = st.sampled_from(
    ["", "True", "False", "0", "1", "-1", "2", "[0]", "[2, 2]", "[]", "[True, False]", "1e-05", "x"]
)
DIMS: st.SearchStrategy[Any] = st.one_of(SHAPES, st.lists(SHAPES, max_size=3), st.none(), st.just(["s0"]))
NAMES = sorted({str(rule.formula): name for name in sorted(RULE_NAMES) if (rule := rule_of(name))}.values())
"""An op for each formula."""
ARGUMENTS = st.lists(st.tuples(DIMS, st.sampled_from(TYPES), DIMS, WORDS), max_size=12)


@steady
@given(st.sampled_from(NAMES), ARGUMENTS, ARGUMENTS, st.one_of(st.none(), st.integers(-1, 4)))
def test_a_rule_gives_a_cost_or_says_that_it_is_unknown(
    name: str, arguments: list[Any], outputs: list[Any], group: int | None
) -> None:
    inputs = tuple(json.dumps([argument[i] for argument in arguments]) for i in range(4))
    written = tuple(json.dumps([argument[i] for argument in outputs]) for i in range(2))
    rule = rule_of(name)
    assert rule is not None
    try:
        found = cost_of(rule, operands_of(name, inputs, written, group))
    except UnknownOperandError:
        return
    amounts = [found.flops, found.size_bytes, found.causal_flops]
    assert all(amount is None or (isinstance(amount, int) and amount >= 0) for amount in amounts)
    assert found.causal_flops is None or (found.flops is not None and found.causal_flops <= found.flops)


def test_arguments_nested_without_end_are_unknown() -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    costs = op_costs(linked_of([op("aten::mm", 0, 5, Input_Dims=deep, Input_type=["float"])]))
    assert costs.get_column("flops").to_list() == [None]
