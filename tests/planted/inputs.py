"""The inputs of an op as Kineto writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.builders import Json


def inputs_of(
    dims: Sequence[Any] | None,
    types: Sequence[str] | None,
    strides: Sequence[Any] | None,
    concrete: Sequence[str] | None,
) -> Json:
    """The arguments of an op about its inputs; none where no shapes are given. See `Thread.op`."""
    if dims is None:
        return {}
    usual = ["float" if shape else "Scalar" for shape in dims]
    return {
        "Input Dims": list(dims),
        "Input type": list(types if types is not None else usual),
        "Input Strides": list(strides if strides is not None else (contiguous(shape) for shape in dims)),
        "Concrete Inputs": list(concrete if concrete is not None else [""] * len(dims)),
    }


def contiguous(shape: Sequence[Any]) -> list[Any]:
    """The strides of a contiguous tensor, or of each tensor in a list of them."""
    if any(isinstance(length, list | tuple) for length in shape):
        return [contiguous(inner) for inner in shape]
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return strides[::-1]
