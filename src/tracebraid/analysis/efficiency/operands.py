"""What an op was called with: tensors with shapes, types and strides, and the values of other arguments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tracebraid.analysis.efficiency.element_types import BITS

__all__ = ["Operands", "Tensor", "UnknownOperandError", "operands_of"]

_NO_TENSOR = ("", "Scalar", "ScalarList", "TensorList", "OptionalTensorList", "None", "GenericList")
_SCALARS = ("Int", "Double", "Bool", "String", "Device", "Stream", "Object", "Generator", "Storage", "SymInt")
_UNDEFINED = "nullptr (uninitialized)"
_ET_TENSOR, _ET_LIST, _NAMED_LIST = "Tensor(", "GenericList[", "TensorList("


class UnknownOperandError(ValueError):
    """The trace does not say what a rule needs to know."""


@dataclass(frozen=True)
class Tensor:
    """A tensor.

    Args:
        shape: its sizes.
        dtype: C++ name of the type of its elements; empty: unknown.
        strides: in elements; None: unknown, taken as dense.
    """

    shape: tuple[int, ...]
    dtype: str = ""
    strides: tuple[int, ...] | None = None

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def stored(self) -> int:
        """Number of elements that differ in memory: an expanded dimension (stride 0) is stored once."""
        if self.strides is None or len(self.strides) != len(self.shape) or self.numel == 0:
            return self.numel
        pairs = [(size, abs(stride)) for size, stride in zip(self.shape, self.strides, strict=True)]
        reach = 1 + sum((size - 1) * stride for size, stride in pairs)
        return min(prod(size for size, stride in pairs if stride), reach)

    @property
    def size_bytes(self) -> int:
        """Bytes that reading all of it moves at least.

        Raises:
            UnknownOperandError: its type is not known.
        """
        return self.bytes_of(self.stored)

    def bytes_of(self, elements: int) -> int:
        """Bytes of a number of its elements.

        Raises:
            UnknownOperandError: its type is not known.
        """
        if self.dtype not in BITS:
            raise UnknownOperandError(self.dtype)
        return -(-elements * BITS[self.dtype] // 8)

    def like(self, shape: Sequence[int] | None = None, dtype: str | None = None) -> Tensor:
        """A dense tensor of this shape and type, or of others."""
        return Tensor(tuple(self.shape if shape is None else shape), self.dtype if dtype is None else dtype)


_Value = Tensor | tuple[Tensor, ...] | None


@dataclass(frozen=True)
class Operands:
    """The arguments of an op, by position.

    Args:
        name: the op.
        values: a tensor, a list of tensors, or None for what is neither.
        scalars: each argument that is neither as text, as the trace has it; empty: not recorded.
        outputs: as `values`; None where no trace has them.
        group_size: ranks of a collective's process group; None: unknown.
    """

    name: str
    values: tuple[_Value, ...]
    scalars: tuple[str, ...] = ()
    outputs: tuple[_Value, ...] | None = None
    group_size: int | None = None

    def tensor(self, position: int) -> Tensor:
        """The tensor there.

        Raises:
            UnknownOperandError: there is none.
        """
        found = self.optional(position)
        if found is None:
            raise UnknownOperandError(position)
        return found

    def optional(self, position: int) -> Tensor | None:
        """The tensor there; None where there is none."""
        found = self.values[position] if 0 <= position < len(self.values) else None
        return found if isinstance(found, Tensor) else None

    def tensors(self, position: int) -> tuple[Tensor, ...]:
        """The tensors of a list, or a tensor alone.

        Raises:
            UnknownOperandError: there is neither.
        """
        found = self.values[position] if 0 <= position < len(self.values) else None
        if found is None:
            raise UnknownOperandError(position)
        return (found,) if isinstance(found, Tensor) else found

    def output(self, position: int) -> Tensor:
        """An output.

        Raises:
            UnknownOperandError: no trace has it.
        """
        found = self.outputs[position] if self.outputs and position < len(self.outputs) else None
        if not isinstance(found, Tensor):
            raise UnknownOperandError(position)
        return found

    def ints(self, position: int) -> list[int]:
        """The integers of a list, or an integer alone.

        Raises:
            UnknownOperandError: the trace does not have them.
        """
        try:
            return [int(word) for word in self._words(position)]
        except ValueError as error:
            raise UnknownOperandError(position) from error

    def integer(self, position: int) -> int:
        """An integer; raises as `ints`."""
        found = self.ints(position)
        if len(found) != 1:
            raise UnknownOperandError(position)
        return found[0]

    def flags(self, position: int) -> list[bool]:
        """The truth values of a list, or a truth value alone.

        Raises:
            UnknownOperandError: the trace does not have them.
        """
        words = [word.lower() for word in self._words(position)]
        if not words or any(word not in ("true", "false") for word in words):
            raise UnknownOperandError(position)
        return [word == "true" for word in words]

    def has_scalar(self, position: int) -> bool:
        """Whether the value of an argument was recorded."""
        return 0 <= position < len(self.scalars) and self.scalars[position] not in ("", "None")

    def _words(self, position: int) -> list[str]:
        if not self.has_scalar(position):
            raise UnknownOperandError(position)
        return [word.strip() for word in self.scalars[position].strip("[] ").split(",") if word.strip()]


def operands_of(
    name: str,
    inputs: tuple[str | None, ...],
    outputs: tuple[str | None, ...] = (),
    group_size: int | None = None,
) -> Operands:
    """What an op was called with.

    Args:
        name: the op.
        inputs: JSON text of shapes, types, strides and concrete values; None where they were not recorded.
        outputs: the same of shapes and types.
        group_size: ranks of a collective's process group.

    Raises:
        UnknownOperandError: it cannot be read.
    """
    dims, types, strides, scalars = (_parsed(text) for text in inputs)
    values = _values(dims or [], types or [], strides or [])
    of_outputs = [_parsed(text) for text in outputs]
    found = _values(of_outputs[0], of_outputs[1] or [], []) if of_outputs and of_outputs[0] else None
    return Operands(name, values, tuple(_text(value) for value in scalars or []), found, group_size)


def _parsed(text: str | None) -> list[object] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnknownOperandError(text) from error
    if not isinstance(found, list):
        raise UnknownOperandError(text)
    return found


def _values(dims: list[object], types: list[object], strides: list[object]) -> tuple[_Value, ...]:
    known = [*types, *[""] * (len(dims) - len(types))]
    steps = [*strides, *[None] * (len(dims) - len(strides))]
    return tuple(_value(shape, str(known[i]), steps[i]) for i, shape in enumerate(dims))


def _value(shape: object, kind: str, strides: object) -> _Value:
    if not isinstance(shape, list):
        return None
    if kind.startswith((_ET_LIST, _NAMED_LIST)) or any(isinstance(size, list) for size in shape):
        return _list_of(shape, kind, strides)
    dtype = kind.removeprefix(_ET_TENSOR).removesuffix(")") if kind.startswith(_ET_TENSOR) else kind
    if dtype == _UNDEFINED or (not shape and (dtype in _NO_TENSOR or dtype in _SCALARS)):
        return None
    if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in shape):
        raise UnknownOperandError(kind)
    return Tensor(tuple(shape), dtype if dtype in BITS else "", _strides_of(strides))


def _list_of(shape: list[object], kind: str, strides: object) -> _Value:
    dtypes = kind.removeprefix(_ET_LIST).removesuffix("]").split(",") if kind.startswith(_ET_LIST) else []
    if dtypes and not any(dtype.startswith(_ET_TENSOR) for dtype in dtypes):
        return None
    if not shape:
        return None
    named = kind.removeprefix(_NAMED_LIST).removesuffix(")") if kind.startswith(_NAMED_LIST) else ""
    known = dtypes if len(dtypes) == len(shape) else [f"{_ET_TENSOR}{named})"] * len(shape)
    steps = strides if isinstance(strides, list) and len(strides) == len(shape) else [None] * len(shape)
    found = [_value(shape[i], known[i], steps[i]) for i in range(len(shape))]
    return tuple(tensor for tensor in found if isinstance(tensor, Tensor))


def _strides_of(strides: object) -> tuple[int, ...] | None:
    if isinstance(strides, list) and all(isinstance(stride, int) for stride in strides):
        return tuple(strides)
    return None


def _text(value: object) -> str:
    text = str(value)
    return "" if text.startswith("<") else text
