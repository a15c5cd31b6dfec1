"""What a detector of an anti-pattern is: what it is called, how it finds its evidence, and what mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from tracebraid.model.linked_ranks import Gather, LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need

__all__ = ["Detector", "JobDetector"]


@dataclass(frozen=True)
class Detector:
    """Finds an anti-pattern in a rank.

    Args:
        name: its code, in kebab case: `item-sync`; stable, for programs.
        title: what is wrong, for people, in a few words.
        change: the change that is known to mend it, for people.
        detect: takes a linked trace and the annotation that marks steps; returns rows of `EVIDENCE`.
        needs: without any of these it finds nothing.
    """

    name: str
    title: str
    change: str
    detect: Callable[[LinkedTrace, str], pl.DataFrame]
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True)
class JobDetector:
    """Finds an anti-pattern between ranks.

    Args:
        name: as in `Detector`, and so title and change.
        title: see there.
        change: see there.
        detect: takes the linked ranks; returns rows of `EVIDENCE`, on the ranks' own clocks.
        gathers: what it takes of each rank beside members.
    """

    name: str
    title: str
    change: str
    detect: Callable[[LinkedRanks], pl.DataFrame]
    gathers: tuple[Gather, ...] = ()
