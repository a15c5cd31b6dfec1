"""Functions compiled to machine code when they are first called; the library that does it is an extra."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, wraps
from itertools import count
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from tracebraid.extras import Extra, missing_extra

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The same function over numbers and numpy arrays, compiled by numba when it is first called.

    It calls no other compiled function. The code is kept on disk beside its module, as Python keeps its own.
    """

    return compiled_with()(function)


_SMALL = 1 << 15
"""Entries of arrays that a loop runs over in 10 to 20 ms as Python; to load numba takes 250 to 500 ms."""
_FEW = 32
"""Calls of a loop that together take as long as loading numba."""


def compiled_when_large(function: F) -> F:
    """The same for a loop that takes time linear in its arrays: the first calls on small arrays run as Python.

    Small traces are answered without loading the library, or compiling anything.
    """
    machine_code = compiled(function)
    calls = count()

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if "numba" in sys.modules or not _are_small(arguments) or next(calls) >= _FEW:
            return machine_code(*arguments)
        # In a view numbers are Python's own, which loops take in half the time.
        copies = _of_arrays(np.copy, arguments)
        try:
            with np.errstate(over="ignore"):
                found = function(*_of_arrays(memoryview, copies))
        except (OverflowError, ValueError):  # Sums beyond 64 bits: machine code wraps around.
            return machine_code(*arguments)
        _copy_back(copies, arguments)
        return found.item() if isinstance(found, np.generic) else found

    return cast(F, call)


def _are_small(arguments: tuple[Any, ...]) -> bool:
    return all(
        _are_small(each)
        if isinstance(each, tuple)
        else not isinstance(each, np.ndarray) or each.size <= _SMALL
        for each in arguments
    )


def _of_arrays(change: Callable[[Any], Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, with what is made of each array in its place."""
    return tuple(
        _of_arrays(change, each)
        if isinstance(each, tuple)
        else change(each)
        if isinstance(each, np.ndarray)
        else each
        for each in arguments
    )


def _copy_back(copies: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
    """Give the arrays what a loop wrote into their copies."""
    for copied, each in zip(copies, arguments, strict=True):
        if isinstance(each, tuple):
            _copy_back(copied, each)
        elif isinstance(each, np.ndarray) and each.flags.writeable:
            each[...] = copied


def compiled_with(*parts: Callable[..., Any]) -> Callable[[F], F]:
    """The same for a function that calls plain functions of its module, which are compiled with it."""

    def decorated(function: F) -> F:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            return _compile(function, parts)(*arguments)

        return cast(F, call)

    return decorated


@cache
def _compile(function: Callable[..., Any], parts: tuple[Callable[..., Any], ...] = ()) -> Callable[..., Any]:
    known: dict[str, Callable[..., Any]] = {}
    for part in parts:
        known[part.__name__] = _machine_code(_knowing(part, known))
    return _machine_code(_knowing(function, known))


def _knowing(function: Callable[..., Any], known: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The same function where these names mean the compiled functions."""
    if not known:
        return function
    plain = cast(FunctionType, function)
    names = {**plain.__globals__, **known}
    made = FunctionType(plain.__code__, names, plain.__name__, plain.__defaults__, plain.__closure__)
    made.__module__, made.__qualname__ = plain.__module__, plain.__qualname__
    return made


def _machine_code(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        from numba import njit
    except ImportError as error:
        raise missing_extra(Extra.GRAPH) from error
    try:
        made: Callable[..., Any] = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # No folder that the compiled code could be kept in.
        made = njit(nogil=True)(function)
    return made
