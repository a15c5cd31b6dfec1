"""`Stage`: a value that is computed on first use and cached."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from threading import Lock, RLock
from typing import Any, Generic, TypeVar

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import astuple

T = TypeVar("T")


def computed(value: T) -> Stage[T]:
    """Make a stage with a known value."""
    stage = Stage(lambda: value)
    stage()
    return stage


class Stage(Generic[T]):
    """A value that is computed on first use and cached; call the stage to get it.

    Concurrent threads wait for one computation. One that raises leaves the stage unchanged: the next
    call tries again. References of the computation are released once the value exists.

    Args:
        compute: computes the value.
    """

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute: Callable[[], T] | None = compute
        self._values: tuple[T, ...] = ()
        self._lock = RLock()

    def __call__(self) -> T:
        """The value."""
        if not self._values:
            with self._lock:
                if self._compute is not None:
                    self._values = (self._compute(),)
                    self._compute = None
        return self._values[0]

    def __reduce__(self) -> tuple[Any, ...]:
        # Neither the lock nor the computation can be pickled: the value stands for them.
        return computed, (self(),)

    @property
    def is_computed(self) -> bool:
        """Return whether the value is computed."""
        return bool(self._values)


KEPT_BYTES = 2 * 2**30
"""Maximum size of cached values in bytes: all analyses of a trace of 54 MB need a fourteenth. With 768 MiB `summary` of
1.25 GB computed so much anew that it took 1.7 times as long, with a tenth less memory.
"""
_SMALL_BYTES = 2**20
"""Values below are dropped last: they give little room, and may have taken long."""


class KeptValues:
    """Least-recently-used cache of values, limited by total size; small ones are dropped last.

    A dropped value stays valid where it is in use, and is computed again on the next request. Threads that request
    the same value at the same time wait for one computation.

    Args:
        most_bytes: maximum total size of cached values.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._stages: OrderedDict[Hashable, Stage[Any]] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._lock = Lock()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the value of a key, computing it if it is not cached."""
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
        known = [key for key in self._stages if key in self._sizes and key != newest]
        for key in sorted(known, key=lambda key: self._sizes[key] < _SMALL_BYTES):
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
    if isinstance(value, Struct):
        return sum(map(size_of, astuple(value)))
    if is_dataclass(value):
        return sum(size_of(getattr(value, member.name)) for member in fields(value))
    if isinstance(value, dict):
        return sum(size_of(member) for member in value.values())
    if isinstance(value, tuple):
        return sum(size_of(member) for member in value)
    return 0
