"""A pair of programs: one declaration above the function that makes its step, before the change or after it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from tracebraid.model.declared import declared

__all__ = ["Kind", "Pair", "Step", "pair", "pairs"]

PACKAGE = "benchmarks.whatif_pairs"
HELD_OUT = f"{PACKAGE}.held_out_"
"""Modules of this prefix declare pairs that took no part in the development of the engine."""

Step = Callable[[], None]
Kind = Literal[
    "kernels",
    "ops",
    "straggler",
    "host work",
    "data loading",
    "optimizer",
    "collectives",
    "overlap",
    "batch",
    "layers",
    "sync",
    "threads",
    "compile",
]
"""Kinds of change, by which errors are added up."""


@dataclass(frozen=True)
class Pair:
    """A program, and a change of it.

    Args:
        make: make the step of a loop on the current rank: of the program as it is, or changed (`True`).
        changes: what is changed, as `tracebraid what-if --change` takes it.
        kind: kind of change.
        ranks: number of processes.
        threads: threads of PyTorch in each.
        stacks: whether Python functions and modules are recorded.
        compiles: whether it needs a C++ compiler, for `torch.compile`.
    """

    make: Callable[[bool], Step]
    changes: tuple[str, ...]
    kind: Kind
    ranks: int
    threads: int
    stacks: bool
    compiles: bool

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.make.__name__

    @property
    def held_out(self) -> bool:
        """Whether the engine was not developed with it."""
        return self.make.__module__.startswith(HELD_OUT)


def pair(
    *changes: str,
    kind: Kind,
    ranks: int = 1,
    threads: int = 1,
    stacks: bool = False,
    compiles: bool = False,
) -> Callable[[Callable[[bool], Step]], Pair]:
    """Declare a pair: see `Pair`."""
    return lambda make: Pair(make, changes, kind, ranks, threads, stacks, compiles)


def pairs() -> dict[str, Pair]:
    """Return all pairs that can run here by name, those first that the engine was developed with."""
    has_compiler = shutil.which("g++") is not None
    found = [each for each in declared(import_module(PACKAGE), Pair) if has_compiler or not each.compiles]
    return {each.name: each for each in sorted(found, key=lambda each: each.held_out)}
