"""The least that an advice must save to be given: a share of the step, or a time."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tracebraid.errors import ArgumentError

__all__ = ["DEFAULT_MIN_SAVING", "MinSaving", "min_saving_of"]

DEFAULT_MIN_SAVING = "1%"
"""Steps of one run differ by about as much from one to the next: nobody would notice less."""

_FORM = r"\s*([0-9]*\.?[0-9]+)\s*(%|ns|us|µs|ms|s)\s*"
_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_PER_CENT = 100.0


@dataclass(frozen=True)
class MinSaving:
    """The least that an advice must save.

    Args:
        share: of the step, 0 to 1.
        ns: for each step, in ns.
    """

    share: float = 0.0
    ns: float = 0.0

    def per_step_ns(self, step_ns: float) -> float:
        """The least saving for each step, in ns, where a step takes `step_ns`."""
        return max(self.ns, self.share * step_ns)


def min_saving_of(value: str | float) -> MinSaving:
    """A share, given as `1%` or as a number from 0 to 1, or a time for each step: `0.5ms`, `200us`.

    Raises:
        ArgumentError: it is neither.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value) and 0 <= value <= 1:
            return MinSaving(share=float(value))
        raise ArgumentError(
            f"the least saving is {value}; give a share of the step from 0 to 1, or 1%, 0.5ms"
        )
    found = re.fullmatch(_FORM, str(value))
    if found is None:
        raise ArgumentError(f"the least saving is {value!r}; give a share of the step (1%) or a time (0.5ms)")
    amount, unit = float(found.group(1)), found.group(2)
    if unit != "%":
        return MinSaving(ns=amount * _NS[unit])
    if amount > _PER_CENT:
        raise ArgumentError(f"the least saving is {value!r}; no step can be shorter by more than 100%")
    return MinSaving(share=amount / _PER_CENT)
