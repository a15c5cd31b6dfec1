"""Loops over arrays: a function of the native library where there is one, else its twin in Python."""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import cache, wraps
from typing import Any, TypeVar, cast

import numpy as np

from tracebraid.native.library import native_library

F = TypeVar("F", bound=Callable[..., Any])

_TYPES = ("int64", "int32", "int8", "uint8", "bool", "float64", "uint32")
"""Types of items, in the order of `Type` in `loops.h`; whole numbers and floats follow."""
_NUMBER_OF = {np.dtype(name).str: number for number, name in enumerate(_TYPES)}
_WHOLE, _FLOAT, _READ_ONLY = 7, 8, 16
_FIELDS = 4
"""Numbers of a `Value`: bits, size, width, type."""
_MOST_RESULTS = 9
_MISFIT = -1
_WORTH_BUILDING_ITEMS = 1 << 17
"""Items of an array that Python loops over in 0.1 s and more; an answer has dozens of loops."""


def native_loop(function: F) -> F:
    """The same function over numbers and numpy arrays, as the native library has it: `<module>_<name>`.

    Tuples of arguments are given to the library one after the other. Arrays of whole numbers that are only read may
    have 32 or 64 bits. Results are numbers, arrays or tuples of both; an array of one dimension.
    """
    name = f"tracebraid_loop_{function.__module__.rpartition('.')[2]}_{function.__name__.lstrip('_')}"

    @wraps(function)
    def call(*arguments: Any) -> Any:
        items = max((each.size for each in _flat(arguments) if isinstance(each, np.ndarray)), default=0)
        library = native_library(items >= _WORTH_BUILDING_ITEMS)
        if library is not None:
            return _called(library, name, arguments)
        with np.errstate(over="ignore"):  # Sums beyond 64 bits wrap around in both.
            found = function(*arguments)
        return found.item() if isinstance(found, np.generic) else found

    return cast(F, call)


def _flat(arguments: Iterable[Any]) -> Iterator[Any]:
    for each in arguments:
        if isinstance(each, tuple):
            yield from _flat(each)
        else:
            yield each


def _called(library: ctypes.CDLL, name: str, arguments: tuple[Any, ...]) -> Any:
    """Call a function of the library.

    Raises:
        TypeError: it has other arguments; what it writes into may not be read-only.
        MemoryError: there is not enough.
    """
    # The library reads arrays item by item; what it wrote into a copy goes back.
    flat = list(_flat(arguments))
    given = [np.ascontiguousarray(each) if isinstance(each, np.ndarray) else each for each in flat]
    values = [number for each in given for number in _value(each)]
    results = (ctypes.c_int64 * (_FIELDS * _MOST_RESULTS))()
    count = _function(library, name)((ctypes.c_int64 * len(values))(*values), len(given), results)
    if count == _MISFIT:
        shown = ", ".join(str(getattr(each, "dtype", type(each).__name__)) for each in flat)
        raise TypeError(f"{name} is not a function of ({shown})")
    if count < 0:
        raise MemoryError
    for before, after in zip(flat, given, strict=True):
        if after is not before and isinstance(before, np.ndarray) and before.flags.writeable:
            before[...] = after
    found = [_result(library, *results[at : at + _FIELDS]) for at in range(0, _FIELDS * count, _FIELDS)]
    return found[0] if count == 1 else tuple(found) or None


@cache
def _function(library: ctypes.CDLL, name: str) -> Any:
    function = library[name]
    function.restype = ctypes.c_int64
    return function


def _value(argument: Any) -> tuple[int, int, int, int]:
    if isinstance(argument, np.ndarray):
        number = _NUMBER_OF.get(argument.dtype.str, _MISFIT)
        address: int = argument.__array_interface__["data"][0]
        read_only = 0 if argument.flags.writeable else _READ_ONLY
        width = argument.shape[-1] if argument.ndim > 1 else 1
        return address, argument.size, width, number | read_only
    if isinstance(argument, (float, np.floating)):
        return struct.unpack("=q", struct.pack("=d", argument))[0], 0, 0, _FLOAT
    return int(argument), 0, 0, _WHOLE


def _result(library: ctypes.CDLL, bits: int, size: int, _: int, kind: int) -> Any:
    """A number, or an array that owns its memory from now on."""
    if kind == _WHOLE:
        return bits
    dtype = np.dtype(_TYPES[kind])
    if not size:
        return np.empty(0, dtype=dtype)
    memory: Any = (ctypes.c_char * (size * dtype.itemsize)).from_address(bits)
    weakref.finalize(memory, library.tracebraid_release, ctypes.c_void_p(bits))
    return np.frombuffer(memory, dtype=dtype)
