"""Anti-patterns by construction: a module each, named as its detector with underscores, found here by its name.

A module holds `planted() -> Scene`, or, of a detector between ranks, `planted() -> list[Scene]`, in which nothing is
wrong but that pattern; and `SAVING_NS`, the least and the most that its detector is to find, over all steps.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from tests.planted.scene import Scene

__all__ = ["PATTERNS", "Pattern"]


@dataclass(frozen=True)
class Pattern:
    """A planted anti-pattern.

    Args:
        name: that of its detector.
        planted: builds its ranks: one scene, or several.
        saving_ns: the least and the most that the detector is to find, over all steps.
    """

    name: str
    planted: Callable[[], Scene | list[Scene]]
    saving_ns: tuple[int, int]

    @property
    def scenes(self) -> list[Scene]:
        """Its ranks, built anew."""
        found = self.planted()
        return [found] if isinstance(found, Scene) else found


def _patterns() -> dict[str, Pattern]:
    found = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name.startswith("test_"):
            continue
        module = importlib.import_module(f"{__name__}.{info.name}")
        name = info.name.replace("_", "-")
        found[name] = Pattern(name, module.planted, module.SAVING_NS)
    return found


PATTERNS: dict[str, Pattern] = _patterns()
"""Each pattern by the name of its detector."""
