"""What an analysis is: its question, the function and the table that answer it, and what a trace must hold for it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tracebraid.model.column import Table

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Analysis", "Family", "Need"]


class Family(Enum):
    """What an analysis is about."""

    VALIDITY = "validity"
    TIME = "time"
    KERNELS = "kernels"
    OPS = "ops"
    LAUNCHES = "launches"
    EFFICIENCY = "efficiency"
    MEMORY = "memory"
    INFERENCE = "inference"


class Need(Enum):
    """What a trace may lack, and an analysis needs; `model.sentences.NEED_SENTENCES` says how to capture it."""

    HOST_OPS = "host ops"
    DEVICE_WORK = "device work"
    STEPS = "steps"
    SHAPES = "shapes"
    STACKS = "stacks"
    MODULES = "modules"
    MEMORY = "memory"
    SYNC_EVENTS = "sync events"
    COLLECTIVES = "collectives"
    COUNTERS = "counters"
    GRAPH_LAUNCHES = "graph launches"
    EXECUTION_TRACE = "execution trace"
    INFERENCE_ITERATIONS = "inference iterations"
    """Annotations of a serving engine or by hand (`prefill`, `decode`), or shapes of attention outside of training."""


@dataclass(frozen=True)
class Analysis:
    """An analysis of one rank.

    Args:
        name: its name in Python, that of its function.
        family: what it is about.
        answer: the function; takes a linked trace and options by keyword.
        table: the schema of the DataFrame that it returns.
        needs: without any of these the answer is empty.
        uses: without any of these the answer lacks something.
    """

    name: str
    family: Family
    answer: Callable[..., pl.DataFrame]
    table: Table
    needs: tuple[Need, ...] = ()
    uses: tuple[Need, ...] = ()

    @property
    def question(self) -> str:
        """What it answers: the first line of its module's docstring."""
        return (inspect.getdoc(sys.modules[self.answer.__module__]) or "").partition("\n")[0]

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(inspect.signature(self.answer).parameters)[1:]
