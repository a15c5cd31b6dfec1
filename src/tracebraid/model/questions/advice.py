"""`Advice`: what could be saved, the most first, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from tracebraid.model import notebook
from tracebraid.model.answers.job.advice import ADVICE
from tracebraid.model.finding import Finding
from tracebraid.model.quantities import duration
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector, JobDetector

__all__ = ["Advice"]


@dataclass(frozen=True, eq=False)
class Advice:
    """What could be saved, the most first.

    Args:
        items: `ADVICE`, over all ranks.
        by_step: `ADVICE_BY_STEP`, by rank and step.
        evidence: `ADVICE_EVIDENCE`, the worst occurrences of each item.
        detectors: all that were asked, by their names: their titles and the changes that they advise.
        ranks: the ranks that were read.
        steps: how many steps there are; 0: none is marked, and the whole trace counts.
        step_ns: how long a step takes on average, on its slowest rank; without steps the whole trace.
        lacks: by the detector's name and the rank, what the trace lacks for it.
        findings: what was noticed, such as a user's detector that failed.
    """

    items: pl.DataFrame
    by_step: pl.DataFrame
    evidence: pl.DataFrame
    detectors: Mapping[str, Detector | JobDetector]
    ranks: tuple[int, ...]
    steps: int
    step_ns: float
    lacks: Mapping[str, Mapping[int, tuple[Need, ...]]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """What it is, in brief."""
        return f"Advice(items={self.items.height}, ranks={len(self.ranks)}, steps={self.steps})"

    def _repr_html_(self) -> str:
        """What it is, for a notebook."""
        facts = {"ranks": len(self.ranks), "steps": self.steps, "step": duration(self.step_ns)}
        names = "item detector op count saving_per_step_ns share gain_per_step_ns"
        items = notebook.frame_html("What could be saved", self.items, ADVICE, names)
        return notebook.shown("Advice", notebook.facts_html(facts), items)

    @property
    def saving_per_step_ns(self) -> float:
        """What all items save together at most, for each step: overlaps are counted once."""
        return float(self.items.get_column("further_per_step_ns").sum())

    @property
    def not_asked(self) -> dict[str, tuple[Need, ...]]:
        """The detectors that no rank has all for, and what they need."""
        return {
            name: tuple(dict.fromkeys(need for needs in lacks.values() for need in needs))
            for name, lacks in self.lacks.items()
            if lacks and all(lacks.get(rank) for rank in self.ranks)
        }

    @property
    def is_unanswerable(self) -> bool:
        """Whether no detector that needs something could look for it: that there is no advice says nothing then."""
        needing = [
            name for name, found in self.detectors.items() if isinstance(found, Detector) and found.needs
        ]
        return self.items.is_empty() and set(needing) <= set(self.not_asked)
