"""`Comparison`: how a second run differs from a first, and what to know before believing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import polars as pl

from tracebraid.model.answers import DiffChange
from tracebraid.model.finding import Finding

__all__ = ["Caution", "CautionCode", "Comparison"]


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
