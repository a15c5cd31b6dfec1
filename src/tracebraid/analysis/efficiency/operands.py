"""Operands of an op: tensors with shapes, types and strides, and the values of other arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from math import prod

from msgspec import Struct

from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.device_peaks import Precision

BITS: dict[str, int] = {
    "bool": 8,
    "unsigned char": 8,
    "signed char": 8,
    "short": 16,
    "short int": 16,
    "unsigned short": 16,
    "short unsigned int": 16,
    "int": 32,
    "unsigned int": 32,
    "long": 64,
    "long int": 64,
    "long long": 64,
    "unsigned long": 64,
    "long unsigned int": 64,
    "c10::Float4_e2m1fn_x2": 8,
    "c10::Float8_e4m3fn": 8,
    "c10::Float8_e4m3fnuz": 8,
    "c10::Float8_e5m2": 8,
    "c10::Float8_e5m2fnuz": 8,
    "c10::Float8_e8m0fnu": 8,
    "c10::Half": 16,
    "c10::BFloat16": 16,
    "float": 32,
    "double": 64,
    "c10::complex<c10::Half>": 32,
    "c10::complex<float>": 64,
    "c10::complex<double>": 128,
    "c10::quint4x2": 4,
    "c10::quint2x4": 2,
    "c10::qint8": 8,
    "c10::quint8": 8,
    "c10::qint32": 32,
    **{f"OpaqueType<{size}u>": 8 * size for size in (1, 2, 4, 8, 16)},
}
"""Bits of an element, by the C++ name of its type. `Float4_e2m1fn_x2` holds two numbers in an element."""

TYPE_OF_COLLECTIVE: dict[str, str] = {
    "Bool": "bool",
    "Byte": "unsigned char",
    "Char": "signed char",
    "Short": "short int",
    "Int": "int",
    "Long": "long int",
    "Half": "c10::Half",
    "BFloat16": "c10::BFloat16",
    "Float": "float",
    "Double": "double",
    "Float8_e4m3fn": "c10::Float8_e4m3fn",
    "Float8_e4m3fnuz": "c10::Float8_e4m3fnuz",
    "Float8_e5m2": "c10::Float8_e5m2",
    "Float8_e5m2fnuz": "c10::Float8_e5m2fnuz",
}
"""The C++ name of an element type that the arguments of a collective name as `c10::ScalarType` prints it."""

SCALAR_TYPES: dict[int, str] = {
    0: "unsigned char",
    1: "signed char",
    2: "short int",
    3: "int",
    4: "long int",
    5: "c10::Half",
    6: "float",
    7: "double",
    9: "c10::complex<float>",
    10: "c10::complex<double>",
    11: "bool",
    15: "c10::BFloat16",
    23: "c10::Float8_e5m2",
    24: "c10::Float8_e4m3fn",
}
"""Element types by their numbers in `c10::ScalarType`, which is how a `dtype` argument is written."""

_FLOATS = ["c10::Float8_e5m2", "c10::Float8_e4m3fn", "c10::Half", "c10::BFloat16", "float", "double"]
_INTEGERS = [
    "unsigned char",
    "signed char",
    "short",
    "short int",
    "int",
    "long",
    "long int",
]
_ORDER = ["bool", *_INTEGERS, *_FLOATS, "c10::complex<float>", "c10::complex<double>"]


def precision_of(dtype: str) -> Precision | None:
    """Return the precision in which a device multiplies such elements; None if unknown."""
    if dtype.startswith("c10::Float8"):
        return Precision.FP8
    return {
        "double": Precision.FP64,
        "c10::complex<double>": Precision.FP64,
        "float": Precision.FP32,
        "c10::complex<float>": Precision.FP32,
        "c10::Half": Precision.FP16,
        "c10::BFloat16": Precision.BF16,
        "signed char": Precision.INT8,
        "unsigned char": Precision.INT8,
        "c10::qint8": Precision.INT8,
        "c10::quint8": Precision.INT8,
        "c10::Float4_e2m1fn_x2": Precision.FP4,
    }.get(dtype)


def promoted(tensors: list[str], numbers: list[str]) -> str:
    """The type of the result of an elementwise op, after PyTorch's rules of type promotion.

    Numbers and tensors without dimensions count only where their category (bool, integer, float, complex) is higher
    than that of all tensors with dimensions; a float then makes `float`.
    """
    if not tensors:
        return max(numbers, key=_rank, default="")
    best = max(tensors, key=_rank)
    other = max(numbers, key=_rank, default=best)
    if _category(other) <= _category(best):
        return best
    return "float" if other in _FLOATS else other


def _rank(dtype: str) -> int:
    return _ORDER.index(dtype) if dtype in _ORDER else -1


def _category(dtype: str) -> int:
    if dtype in _INTEGERS:
        return 1
    return 0 if dtype == "bool" else 3 if "complex" in dtype else 2


_NO_TENSOR = ("", "Scalar", "ScalarList", "TensorList", "OptionalTensorList", "None", "GenericList")
_SCALARS = ("Int", "Double", "Bool", "String", "Device", "Stream", "Object", "Generator", "Storage", "SymInt")
_UNDEFINED = "nullptr (uninitialized)"
_ET_TENSOR = "Tensor("
_ET_LIST = "GenericList["
_NAMED_LIST = "TensorList("


class UnknownOperandError(ValueError):
    """A rule needs data that the trace does not contain."""


class CachedKeysError(UnknownOperandError):
    """Shapes do not say how many cached keys each query meets."""


class Tensor(Struct, frozen=True):
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
        """Bytes that reading all of it moves at least."""
        return self.bytes_of(self.stored)

    def bytes_of(self, elements: int) -> int:
        """Bytes of a number of its elements."""
        if self.dtype not in BITS:
            raise UnknownOperandError(self.dtype)
        return -(-elements * BITS[self.dtype] // 8)

    def like(self, shape: Sequence[int] | None = None, dtype: str | None = None) -> Tensor:
        """A dense tensor of this shape and type, or of others."""
        return Tensor(tuple(self.shape if shape is None else shape), self.dtype if dtype is None else dtype)


_Value = Tensor | tuple[Tensor, ...] | None


class Operands(Struct, frozen=True):
    """The arguments of an op, by position.

    Args:
        name: the op.
        values: a tensor, a list of tensors, or None for what is neither.
        scalars: each argument that is neither as text, as the trace has it; empty: not recorded.
        outputs: as `values`; None if no trace has them.
        group_size: ranks of a collective's process group; None: unknown.
    """

    name: str
    values: tuple[_Value, ...]
    scalars: tuple[str, ...] = ()
    outputs: tuple[_Value, ...] | None = None
    group_size: int | None = None

    def tensor(self, position: int) -> Tensor:
        """The tensor there."""
        found = self.optional(position)
        if found is None:
            raise UnknownOperandError(position)
        return found

    def optional(self, position: int) -> Tensor | None:
        """Return the tensor at a position; None if there is none."""
        found = self.values[position] if 0 <= position < len(self.values) else None
        return found if isinstance(found, Tensor) else None

    def tensors(self, position: int) -> tuple[Tensor, ...]:
        """Return the tensors of a list, or a single tensor as a list."""
        found = self.values[position] if 0 <= position < len(self.values) else None
        if found is None:
            raise UnknownOperandError(position)
        return (found,) if isinstance(found, Tensor) else found

    def output(self, position: int) -> Tensor:
        """An output."""
        found = self.outputs[position] if self.outputs and position < len(self.outputs) else None
        if not isinstance(found, Tensor):
            raise UnknownOperandError(position)
        return found

    def ints(self, position: int) -> list[int]:
        """Return the integers of a list, or a single integer as a list."""
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
        """Return the booleans of a list, or a single boolean as a list."""
        words = [word.lower() for word in self._words(position)]
        if not words or any(word not in ("true", "false") for word in words):
            raise UnknownOperandError(position)
        return [word == "true" for word in words]

    def has_scalar(self, position: int) -> bool:
        """Return whether the value of an argument was recorded."""
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
    """Arguments of an op's call."""
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


class Cost(Struct, frozen=True):
    """The cost of an op.

    Args:
        flops: floating-point operations, a multiply-add as two; None: unknown.
        size_bytes: bytes read and written at least, each tensor once; None: unknown.
        precision: in what it computes; None: unknown, or nothing.
        causal_flops: the operations less those that a causal mask leaves out; None: as many.
        repeated_flops: FLOPs within the op that recompute unsaved results of the forward pass.
    """

    flops: int | None
    size_bytes: int | None
    precision: Precision | None = None
    causal_flops: int | None = None
    repeated_flops: int = 0


Formula = Callable[[Operands], Cost]


class Rule(Struct, frozen=True):
    """Formula for ops of a name.

    Args:
        family: what kind of work it is.
        formula: from operands to cost; raises `UnknownOperandError`.
        composite: it counts only where no op inside it is known to compute.
    """

    family: OpFamily
    formula: Formula
    composite: bool = False


def bytes_of(reads: Iterable[Tensor | None], writes: Iterable[Tensor | None]) -> int | None:
    """Bytes of tensors read and written; None if a type is not known.

    A read tensor counts its stored elements, a written one all elements.
    """
    try:
        read = sum(tensor.size_bytes for tensor in reads if tensor is not None)
        return read + sum(tensor.bytes_of(tensor.numel) for tensor in writes if tensor is not None)
    except UnknownOperandError:
        return None


def cost(
    flops: int | None,
    reads: Iterable[Tensor | None],
    writes: Iterable[Tensor | None],
    computes: Tensor | None = None,
) -> Cost:
    """A cost of FLOPs and tensors."""
    precision = Precision.VECTOR if flops else None
    if computes is not None:
        precision = precision_of(computes.dtype)
    return Cost(flops, bytes_of(reads, writes), precision)
