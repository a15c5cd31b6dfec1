"""Collections of Python's garbage collector, as annotations of the trace."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

from tracebraid.model.capture_facts import GARBAGE
from tracebraid.recorders.needs_torch import torch

_WHOLE = 2
"""The oldest generation, with all objects: younger ones are collected often, within microseconds."""


class GarbageMarks:
    """Marks collections of all objects, from `begin` to `end`, on whatever thread they run."""

    def __init__(self) -> None:
        self._open: Any = None

    def begin(self) -> None:
        """Mark from now on."""
        gc.callbacks.append(self._mark)

    def end(self) -> None:
        """Mark no longer."""
        with suppress(ValueError):  # The program may have removed it.
            gc.callbacks.remove(self._mark)

    def _mark(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < _WHOLE:
            return
        if phase == "start":
            self._open = torch.profiler.record_function(GARBAGE)
            self._open.__enter__()
        elif self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None
