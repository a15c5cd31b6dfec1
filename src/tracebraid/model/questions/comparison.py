"""`Comparison`: how a second run differs from a first, and what to know before believing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import polars as pl

from tracebraid.model import notebook
from tracebraid.model.answers import DIFF_PARTS, DIFF_STEPS, DiffChange
from tracebraid.model.finding import Finding
from tracebraid.model.quantities import duration

__all__ = ["Caution", "CautionCode", "Comparison", "GateOutcome", "Verdict"]


class Verdict(Enum):
    """Whether a step of b is longer than one of a."""

    SLOWER = "slower"
    """By more than chance."""
    FASTER = "faster"
    """By more than chance."""
    NO_DIFFERENCE_FOUND = "no-difference-found"
    """Chance explains the difference, which is not to say that there is none: see the interval."""
    NOT_JUDGED = "not-judged"
    """There are too few steps, or they depend too much on each other, to tell any difference from chance."""


class GateOutcome(Enum):
    """What a gate against regressions says."""

    PASSED = "passed"
    REGRESSION = "regression"
    NOT_JUDGED = "not-judged"
    """No regression could have been found: a gate that cannot judge must not pass."""


class CautionCode(Enum):
    """Why two runs may differ, or seem to, by something else than the program."""

    SAME_FILES = "same-files"
    EMPTY = "empty"
    NO_STEPS = "no-steps"
    FEW_STEPS = "few-steps"
    RANKS_UNPAIRED = "ranks-unpaired"
    WORLD_SIZES_DIFFER = "world-sizes-differ"
    DEVICES_DIFFER = "devices-differ"
    VERSIONS_DIFFER = "versions-differ"
    PROGRAMS_DIFFER = "programs-differ"
    SHAPES_UNKNOWN = "shapes-unknown"
    MODULES_UNKNOWN = "modules-unknown"
    PROFILER_DIFFERS = "profiler-differs"
    PROFILER_COST = "profiler-cost"
    PROFILER_OVERHEAD = "profiler-overhead"
    SINGLE_STEPS = "single-steps"
    DRIFT = "drift"


@dataclass(frozen=True)
class Caution:
    """Something to know before believing a comparison.

    Args:
        code: what it is; `model.diff_sentences` has its sentence.
        details: values of the fields of that.
    """

    code: CautionCode
    details: Mapping[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, eq=False)
class Comparison:
    """How run b differs from run a.

    Args:
        steps: `DIFF_STEPS`: the step's time over all ranks, and of each.
        parts: `DIFF_PARTS`: where the difference comes from; adds up to it exactly.
        ops: `DIFF_OPS`: ops that are added, removed, changed, or the same, with their times.
        kernels: `DIFF_KERNELS`: the same of kernels under their ops.
        settings: `DIFF_SETTINGS`: what the runs were made with.
        cautions: what to know before believing it.
        findings: what was noticed in the files.
    """

    steps: pl.DataFrame
    parts: pl.DataFrame
    ops: pl.DataFrame
    kernels: pl.DataFrame
    settings: pl.DataFrame
    cautions: tuple[Caution, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """What it is, in brief."""
        codes = ", ".join(caution.code.value for caution in self.cautions)
        return f"Comparison(difference_ns={self.difference_ns}, significant={self.is_significant}, cautions=[{codes}])"

    def _repr_html_(self) -> str:
        """What it is, for a notebook."""
        facts = {
            "verdict": self.verdict.value,
            "difference of mean steps": duration(self.difference_ns),
            "cautions": [caution.code.value for caution in self.cautions] or None,
        }
        steps = notebook.frame_html("Steps", self.steps, DIFF_STEPS)
        parts = notebook.frame_html(
            "Where it comes from", self.parts, DIFF_PARTS, "part op module a_ns b_ns difference_ns"
        )
        return notebook.shown("Comparison", notebook.facts_html(facts), steps, parts)

    @property
    def difference_ns(self) -> int:
        """By how much the mean step of b is longer than that of a."""
        return int(self.steps.item(0, "difference_ns"))

    @property
    def is_significant(self) -> bool:
        """Whether the steps differ by more than chance."""
        return bool(self.steps.item(0, "significant"))

    @property
    def can_judge(self) -> bool:
        """Whether there are enough steps for any difference to be significant."""
        return self.steps.item(0, "low_ns") is not None

    @property
    def verdict(self) -> Verdict:
        """Whether a step of b is longer or shorter."""
        if not self.can_judge:
            return Verdict.NOT_JUDGED
        if not self.is_significant:
            return Verdict.NO_DIFFERENCE_FOUND
        return Verdict.SLOWER if self.steps.item(0, "shift_ns") > 0 else Verdict.FASTER

    def gate(self, share: float) -> GateOutcome:
        """What a gate says that fails on regressions of more than a share.

        Args:
            share: such as 0.05 for 5 %.
        """
        if not self.can_judge:
            return GateOutcome.NOT_JUDGED
        return GateOutcome.REGRESSION if self.is_slower(share) else GateOutcome.PASSED

    @property
    def changed_ops(self) -> pl.DataFrame:
        """The ops that are not the same."""
        return self.ops.filter(pl.col("change") != DiffChange.SAME.value)

    @property
    def changed_kernels(self) -> pl.DataFrame:
        """The kernels that are not the same."""
        return self.kernels.filter(pl.col("change") != DiffChange.SAME.value)

    def is_slower(self, share: float) -> bool:
        """Whether the steps of b are slower than those of a by more than a share of them, with confidence.

        The difference is significant, its interval lies above 0, and its estimate above the share of a's median.

        Args:
            share: such as 0.05 for 5 %.
        """
        row = self.steps.row(0, named=True)
        known = row["significant"] and row["low_ns"] is not None and row["shift_share"] is not None
        return bool(known and row["low_ns"] > 0 and row["shift_share"] > share)
