"""Functions compiled to machine code when they are first called; the library that does it is an extra."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

from tracebraid.errors import MissingLibraryError

__all__ = ["compiled"]

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The same function over numbers and numpy arrays, compiled by numba when it is first called.

    It calls no other compiled function. The code is kept on disk beside its module, as Python keeps its own.

    Raises:
        MissingLibraryError: when it is called, where numba is not installed.
    """

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return _compile(function)(*arguments)

    return cast(F, call)


@cache
def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
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
