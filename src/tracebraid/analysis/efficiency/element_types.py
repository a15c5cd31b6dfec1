"""Element types as traces name them: how many bits an element takes, and in what precision a device computes it."""

from __future__ import annotations

from tracebraid.model.device_peaks import Precision

__all__ = ["BITS", "SCALAR_TYPES", "TYPE_OF_COLLECTIVE", "precision_of", "promoted"]

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
    """In what a device multiplies such elements; None where that is not known."""
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

    Args:
        tensors: types of the tensors with dimensions.
        numbers: types of those without.
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
