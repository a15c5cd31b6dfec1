"""Ops, annotations, modules and Python functions of events that make no sense: an answer, never an error or NaN."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest

from tests.builders import Json
from tests.unit.linking.made import linked_of
from tracebraid.analysis.ops.catalog import ANALYSES
from tracebraid.analysis.ops.ops import ops
from tracebraid.model.answers import OpKey

NAMES = [
    "aten::mm",
    "ProfilerStep#1",
    "ProfilerStep#2",
    "nn.Module: A_0",
    "nn.Module: ",
    "autograd::engine::evaluate_function: X",
    "a.py(3): f",
    "torch/nn/modules/module.py(1): _call_impl",
    "<built-in x at 0x12>",
    "",
    None,
    3,
]
CATEGORIES = [
    "cpu_op",
    "user_annotation",
    "python_function",
    "cuda_runtime",
    "kernel",
    "gpu_user_annotation",
    "cuda_sync",
    None,
]
KEYS = [
    "External id",
    "Sequence number",
    "Fwd thread id",
    "correlation",
    "Input Dims",
    "Call stack",
    "Module Hierarchy",
    "Python id",
    "Python parent id",
]
VALUES: list[Any] = [
    0,
    1,
    2,
    -1,
    None,
    "x",
    [[2]],
    "TOP(A)::f.b(C)::g",
    "n.py(3): f;torch/nn/modules/module.py(3): _call_impl;x.py(3): y",
    2**63,
    1e300,
]


def event(drawn: random.Random) -> Json:
    return {
        "ph": "X",
        "cat": drawn.choice(CATEGORIES),
        "name": drawn.choice(NAMES),
        "pid": drawn.choice([0, 1, 1, "x"]),
        "tid": drawn.choice([1, 1, 2, 7]),
        "ts": drawn.randrange(100),
        "dur": drawn.choice([0, 1, 5, 50, 100, -5, 10**9]),
        "args": {key: drawn.choice(VALUES) for key in KEYS if drawn.random() < 0.4},
    }


@pytest.mark.parametrize("seed", range(25))
def test_odd_events_have_answers(seed: int) -> None:
    drawn = random.Random(seed)
    linked = linked_of([event(drawn) for _ in range(drawn.randrange(40))])
    answers = [
        analysis.answer(linked, per_step=per_step) for analysis in ANALYSES for per_step in (False, True)
    ]
    for found in [*answers, *(ops(linked, by=key.value) for key in OpKey)]:
        floats = [column for column in found.get_columns() if column.dtype == pl.Float64]
        assert not any(column.is_nan().any() for column in floats)
