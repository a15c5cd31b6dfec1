"""Codes that callers give as such, or as their text."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from tracebraid.errors import ArgumentError

E = TypeVar("E", bound=Enum)


def choice(codes: type[E], given: E | str, what: str) -> E:
    """The code that is given."""
    for code in codes:
        if given is code or (isinstance(given, str) and given == code.value):
            return code
    raise ArgumentError(
        f"no {what} {given!r} is known; known: {', '.join(str(code.value) for code in codes)}"
    )
