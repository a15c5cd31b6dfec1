"""Functions compiled to machine code when they are first called; the library that does it is an extra."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from tracebraid.errors import MissingLibraryError

__all__ = ["compiled", "compiled_with"]

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The same function over numbers and numpy arrays, compiled by numba when it is first called.

    It calls no other compiled function. The code is kept on disk beside its module, as Python keeps its own.

    Raises:
        MissingLibraryError: when it is called, where numba is not installed.
    """

    return compiled_with()(function)


def compiled_with(*parts: Callable[..., Any]) -> Callable[[F], F]:
    """The same for a function that calls plain functions of its module, which are compiled with it.

    Args:
        parts: the functions; each may call those before it.
    """

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
        raise MissingLibraryError(
            "the dependency graph and Chakra's .et files need numba, which is not installed here. "
            "Install it with: pip install 'tracebraid[graph]' or 'tracebraid[chakra]'"
        ) from error
    try:
        made: Callable[..., Any] = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # No folder that the compiled code could be kept in.
        made = njit(nogil=True)(function)
    return made
