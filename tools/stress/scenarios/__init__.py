"""The scenarios, one file each: a `SCENARIO`, and the `work` that a fresh process does."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from tools.stress.model import Scenario

__all__ = ["names", "scenario_of"]


def names() -> list[str]:
    """All scenarios, in the order of their names."""
    return sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))


def scenario_of(name: str) -> Scenario:
    """A scenario; its module imports torch."""
    found: Scenario = importlib.import_module(f"{__name__}.{name}").SCENARIO
    return found
