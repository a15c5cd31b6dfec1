"""How many bytes does a tensor of some type and shape hold?"""

from __future__ import annotations

import math
from typing import Any

import msgspec

__all__ = ["MOST_ELEMENTS", "elements_of", "itemsize_of"]

MOST_ELEMENTS = 2**55
"""More elements than any tensor has: their bytes still fit into int64."""

_SIZES = {
    1: (
        "bool byte char uint8 int8 unsigned_char signed_char "
        "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu qint8 quint8"
    ),
    2: "half float16 bfloat16 short int16 uint16",
    4: "float float32 int int32 uint32 qint32 complexhalf complex<half>",
    8: "double float64 long int64 uint64 long_int complexfloat complex<float>",
    16: "complexdouble complex<double>",
}
_SIZE_BY_NAME = {name: size for size, names in _SIZES.items() for name in names.split()}
"""Bytes of an element: names of `c10::ScalarType` and of C++ types, in lower case."""


def itemsize_of(dtype: str) -> int | None:
    """Bytes of an element of a type, by its name in a collective's arguments or in `Input type`; None: unknown."""
    name = dtype.lower().replace("c10::", "").removeprefix("tensor(").removesuffix(")")
    return _SIZE_BY_NAME.get(name.strip().replace(" ", "_"))


def elements_of(input_dims: str) -> int | None:
    """Elements of the first input of an op, of all its tensors where it is a list; None: it has none, or is unreadable.

    Args:
        input_dims: shapes of the inputs, as JSON: `[[8, 4], []]`, or `[[[8, 4], [2]], []]` for a list of tensors.
    """
    try:
        inputs = msgspec.json.decode(input_dims)
        found = _elements(inputs[0]) if isinstance(inputs, list) and inputs else None
    except (msgspec.MsgspecError, RecursionError):
        return None
    return found if found is not None and 0 <= found < MOST_ELEMENTS else None


def _elements(shape: Any) -> int | None:
    if not isinstance(shape, list) or not shape:
        return None
    if all(isinstance(size, int) for size in shape):
        return math.prod(shape)
    tensors = [_elements(tensor) for tensor in shape]
    return sum(size for size in tensors if size is not None)
