"""`Stage`: a value that is computed when it is first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, TypeVar

__all__ = ["Stage", "computed"]

T = TypeVar("T")


def computed(value: T) -> Stage[T]:
    """A stage whose value is known already."""
    stage = Stage(lambda: value)
    stage()
    return stage


class Stage(Generic[T]):
    """A value that is computed when it is first asked for, and kept; call the stage to get it.

    Threads that ask at the same time wait for one computation. One that raises leaves the stage as it was: whoever
    asks next tries again. What the computation refers to is released as soon as the value is there.

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
        """Whether the value is there."""
        return bool(self._values)
