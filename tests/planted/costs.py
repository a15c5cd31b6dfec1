"""Ops with their arguments, as Kineto writes them, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.builders import Json, op
from tracebraid.analysis.efficiency.operands import UnknownOperandError, operands_of
from tracebraid.analysis.efficiency.rules import cost_of as rule_cost
from tracebraid.analysis.efficiency.rules import rule_of

Argument = tuple[str, Any, Any]
"""Type, shape and strides."""

FLOAT, HALF, BF16, LONG = "float", "c10::Half", "c10::BFloat16", "long int"
NUMBER: Argument = ("Scalar", [], [])


def tensor(dtype: str, *shape: int, strides: Sequence[int] | None = None) -> Argument:
    """An argument: its type, shape and strides, dense unless others are given."""
    dense = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        dense[i] = dense[i + 1] * shape[i + 1]
    return dtype, list(shape), dense if strides is None else list(strides)


def called(name: str, *arguments: Argument | str | None, ts: float = 0, dur: float = 10, **more: Any) -> Json:
    """An op and its arguments: a tensor, the text of a value, or None for nothing."""
    found = [
        ("", [], []) if value is None else NUMBER if isinstance(value, str) else value for value in arguments
    ]
    return op(
        name,
        ts,
        dur,
        Input_type=[value[0] for value in found],
        Input_Dims=[value[1] for value in found],
        Input_Strides=[value[2] for value in found],
        Concrete_Inputs=[value if isinstance(value, str) else "" for value in arguments],
        **more,
    )


def cost_of(name: str, *arguments: Argument | str | None) -> tuple[int | None, int | None]:
    """FLOPs and bytes of an op by its rule."""
    args = called(name, *arguments)["args"]
    keys = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    rule = rule_of(name)
    assert rule is not None
    try:
        found = rule_cost(rule, operands_of(name, tuple(json.dumps(args[key]) for key in keys)))
    except UnknownOperandError:
        return None, None
    return found.flops, found.size_bytes
