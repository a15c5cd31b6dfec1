"""What a metric is: a scalar with a name, a unit and a formula, of each rank and of a whole job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tracebraid.model.answers.job.metrics import MetricLack
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.questions.analysis import Need
from tracebraid.model.step import PROFILER_STEP

if TYPE_CHECKING:
    import polars as pl

    from tracebraid.model.linked_ranks import Gather, LinkedRanks

__all__ = ["VALUES", "Metric", "MetricOptions", "OverRanks", "Unit"]


class Unit(str, Enum):
    """Units of the metrics that come with the package; a user's own may have any."""

    NS = "ns"
    SHARE = "share"
    """0 to 1."""
    RATIO = "ratio"
    COUNT = "count"
    PER_STEP = "1/step"
    BYTES = "bytes"
    BYTES_PER_STEP = "bytes/step"
    BYTES_PER_S = "bytes/s"
    FLOP_PER_STEP = "FLOP/step"
    FLOP_PER_S = "FLOP/s"
    TOKENS_PER_S = "tokens/s"


class OverRanks(str, Enum):
    """How the value of a job comes from those of its ranks."""

    POOLED = "pooled"
    """The formula, with each of its sums over all ranks."""
    SLOWEST = "slowest"
    """The formula, with the longest of the ranks in each step."""
    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    BETWEEN = "between"
    """The formula compares ranks; each rank has its part in it."""


VALUES = Table(
    "values",
    "One row per rank, and one over all: what a metric gives.",
    (
        Column("rank", Kind.INT, "the rank; null: all together"),
        Column("value", Kind.FLOAT, "its value; null: there is none"),
        Column("low", Kind.FLOAT, "lower end of its 95 % interval; null: unknown"),
        Column("high", Kind.FLOAT, "upper end"),
        Column(
            "steps", Kind.INT, "steps that it is taken from; 0: the whole trace; null: it is not about steps"
        ),
        Column("ranks", Kind.INT, "ranks that it is taken from"),
    ),
)


@dataclass(frozen=True)
class MetricOptions:
    """What is asked for beside the names of metrics.

    Args:
        annotation: what marks a step.
        with_doubtful: steps about which `validity` has a doubt count, too.
        peak_flops: of a device, in FLOP/s; None: as `model.device_peaks` has it.
        peak_bandwidth: of the network, in bytes/s of bus bandwidth; None: unknown.
    """

    annotation: str = PROFILER_STEP
    with_doubtful: bool = False
    peak_flops: float | None = None
    peak_bandwidth: float | None = None


@dataclass(frozen=True, eq=False)
class Metric:
    """A scalar of each rank and of the whole job.

    Args:
        name: in snake case; stable, for programs.
        unit: of its value.
        formula: how it is computed.
        over_ranks: how the value of the job comes from those of the ranks.
        measure: takes the linked ranks and the options; returns rows of `VALUES`.
        gathers: what it takes of each rank beside members.
        needs: without any of these a rank has no value.
        otherwise: why a rank has no value that lacks none of these.
    """

    name: str
    unit: Unit | str
    formula: str
    over_ranks: OverRanks
    measure: Callable[[LinkedRanks, MetricOptions], pl.DataFrame]
    gathers: tuple[Gather, ...] = ()
    needs: tuple[Need, ...] = ()
    otherwise: MetricLack = MetricLack.NOTHING_TO_MEASURE

    @property
    def unit_text(self) -> str:
        """The unit as text."""
        return self.unit.value if isinstance(self.unit, Unit) else self.unit
