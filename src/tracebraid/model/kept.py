"""`KeptValues`: values that are computed when first asked for, and kept as long as they fit into memory together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import polars as pl

from tracebraid.model.stage import Stage

__all__ = ["KEPT_BYTES", "KeptValues", "size_of"]

T = TypeVar("T")

KEPT_BYTES = 768 * 2**20
"""What is kept at most, in bytes: what all analyses keep of a trace of 54 MB is a fifth of it."""


class KeptValues:
    """Values by their keys. Those that were not asked for the longest go when all together are too large.

    A value that is in use elsewhere stays as it is; who asks for it again has it computed again. Threads that ask for
    the same value at the same time wait for one computation.

    Args:
        most_bytes: how large all kept values may be together.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._stages: OrderedDict[Hashable, Stage[Any]] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._lock = Lock()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value of a key, computed where it is not kept."""
        with self._lock:
            stage: Stage[T] = self._stages.setdefault(key, Stage(compute))
        value = stage()
        size = None if key in self._sizes else size_of(value)
        with self._lock:
            if self._stages.get(key) is stage:
                # Behind what it asked for itself, which is needed less now.
                self._stages.move_to_end(key)
                if size is not None:
                    self._sizes[key] = size
                    self._drop_oldest(key)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        # What is kept can be computed again, and locks cannot be pickled.
        return KeptValues, (self._most_bytes,)

    def _drop_oldest(self, newest: Hashable) -> None:
        total = sum(self._sizes.values())
        for key in [key for key in self._stages if key in self._sizes and key != newest]:
            if total <= self._most_bytes:
                break
            total -= self._sizes.pop(key)
            del self._stages[key]


def size_of(value: object) -> int:
    """About how many bytes the tables and arrays of a value take, those in its members included; columns that several
    tables share count in each.
    """
    if isinstance(value, pl.DataFrame | pl.Series):
        return int(value.estimated_size())
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value):
        return sum(size_of(getattr(value, member.name)) for member in fields(value))
    if isinstance(value, dict):
        return sum(size_of(member) for member in value.values())
    if isinstance(value, tuple):
        return sum(size_of(member) for member in value)
    return 0
