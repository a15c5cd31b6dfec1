"""Find declarations in the modules of a package, so that no list names them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def declared(package: ModuleType, kind: type[T]) -> tuple[T, ...]:
    """Return the values of a type that modules of a package hold, alone or in a tuple, each once; by module."""
    return tuple(dict.fromkeys(value for value in _held(package) if isinstance(value, kind)))


def _held(package: ModuleType) -> Iterator[object]:
    for found in walk_packages(package.__path__, f"{package.__name__}."):
        for value in vars(import_module(found.name)).values():
            yield from value if isinstance(value, tuple) else (value,)
