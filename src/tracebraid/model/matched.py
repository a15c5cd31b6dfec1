"""`Matched`: what was matched with what, where ids prove no links."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tracebraid.model.schema import ITERATIONS, NODE_TIMES

__all__ = ["Matched"]


@dataclass(frozen=True)
class Matched:
    """How an Execution Trace and a Kineto trace were matched without ids.

    Args:
        agreement: share of the smaller trace's ops in scope that were paired, 0 to 1.
        programs: hash of the names and nesting of the Execution Trace's ops in scope, and of Kineto's. Equal: it is
            the same program, op by op.
        ambiguous: share of them that could be several, and are linked to none, 0 to 1.
        why: which iterations were matched and why, in a sentence; empty where all were.
        iterations: see `model.schema.ITERATIONS`; empty where all were matched.
        node_times: see `model.schema.NODE_TIMES`; empty where Kineto does not hold one iteration several times.
    """

    agreement: float
    programs: tuple[str, str]
    ambiguous: float = 0.0
    why: str = ""
    iterations: pl.DataFrame = field(default_factory=ITERATIONS.empty)
    node_times: pl.DataFrame = field(default_factory=NODE_TIMES.empty)

    @property
    def is_same_program(self) -> bool:
        """Whether both hold the same ops in the same order and nesting, thread by thread."""
        return self.programs[0] == self.programs[1]
