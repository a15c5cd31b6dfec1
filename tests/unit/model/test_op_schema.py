"""Which arguments does an operator write, by its schema?"""

from __future__ import annotations

from collections.abc import Set

import pytest

from tracebraid.model.op_schema import argument_names, written_positions

NONE: Set[int] = set()


@pytest.mark.parametrize(
    ("schema", "inputs", "outputs"),
    [
        ("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", NONE, NONE),
        ("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", {0}, {0}),
        ("aten::add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)", {2}, {0}),
        ("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", NONE, NONE),
        ("aten::split.Tensor(Tensor(a -> *) self, SymInt size, SymInt dim=0) -> Tensor(a)[]", NONE, NONE),
        (
            "aten::topk.values(Tensor self, int k, *, Tensor(a!) values, Tensor(b!) indices)"
            " -> (Tensor(a!) values, Tensor(b!) indices)",
            {2, 3},
            {0, 1},
        ),
        ("aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()", {0}, NONE),
        ("f(int[2] size=[1, 2], Tensor(a!)? x, Tensor(b!)[]? y) -> Tensor(a!)?", {1, 2}, {0}),
        ("f(Tensor(a! -> *) x, Tensor y) -> ()", {0}, NONE),
        ("aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)", {0}, {0}),
        ("f((Tensor(a!), int) pair, Tensor(b!) x) -> ()", {0, 1}, NONE),
        ("aten::native_batch_norm(Tensor x, Tensor(a!)? mean, float eps) -> (Tensor, Tensor)", {1}, NONE),
    ],
)
def test_written_arguments_are_found_by_position(schema: str, inputs: Set[int], outputs: Set[int]) -> None:
    assert written_positions(schema) == (inputs, outputs)


@pytest.mark.parametrize("schema", ["", "aten::add_", "f(Tensor(a!) x", ")(", "f)( -> x", "a -> b", "(" * 99])
def test_what_is_no_schema_writes_nothing(schema: str) -> None:
    assert written_positions(schema) == (NONE, NONE)


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("aten::addmm(Tensor self, Tensor mat1, *, Scalar beta=1) -> Tensor", ("self", "mat1", "beta")),
        ("aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()", ("self", "scalar")),
        ("aten::empty() -> Tensor", ()),
        ("", ()),
        ("broken(", ()),
    ],
)
def test_arguments_have_their_names_by_position(schema: str, names: tuple[str, ...]) -> None:
    assert argument_names(schema) == names
