"""Base types of questions and answers: analyses, detectors, metrics, comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from statistics import NormalDist

import polars as pl
from msgspec import Struct, field

from tracebraid.model import notebook
from tracebraid.model.analysis import Family, Need
from tracebraid.model.answers.job import (
    ADVICE,
    DIFF_CAPTURES,
    DIFF_LEFT_OUT,
    DIFF_PARTS,
    DIFF_STEPS,
    DiffChange,
    MetricLack,
)
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding
from tracebraid.model.gaps import FoundGap, is_hidden
from tracebraid.model.linked_ranks import Gather, LinkedRanks
from tracebraid.model.quantities import duration


class Wrapper(Enum):
    """What distributes a model over ranks."""

    FSDP2 = "FSDP2"
    FSDP = "FSDP"
    ZERO = "ZeRO"
    PIPELINE = "pipeline"
    DDP = "DDP"


class Removal(Enum):
    """The time that the change of a detector removes with its evidence."""

    EVENT = "event"
    """The host's event, with all that it calls and waits for."""
    WORK = "work"
    """The work of the event's stream in the evidence's time, as much as is saved of it."""
    RUN = "run"
    """The same, and host work from the first launch of this work to the last."""
    CALLS = "calls"
    """The same; of a backend on the host what all threads do in the evidence's time: several take turns for it."""
    HOST = "host"
    """Host work during the evidence, on the thread of the event, or the one that launched it."""
    CODE = "code"
    """The same, and the device's work that it launches: nothing else needs that."""
    RANK = "rank"
    """The saved share of all work of the rank during the evidence, on all threads and streams, except communication."""
    COPY = "copy"
    """The saved part of the device event from its start, and the call that issued it."""


class DetectorOptions(Struct, frozen=True, kw_only=True):
    """What is known of a detector's items.

    Args:
        apart: columns of `EVIDENCE` that make its occurrences several items; else all of them are one.
        generality: 0: it names a cause; 1: it says where the time goes, 2: only which rank it is. Of detectors that
            find the same time the one with the least knows most of its cause.
        explains: general detectors of which it names the cause.
        change_on: the change on a known device, by the codes of `Precision` that it computes in; None: `change`.
        change_with: the change where a model is wrapped; the first wrapper counts that the traces show.
        removes: the time that the change removes; None: unknown, or the evidence is not the time that goes (idle time
            of a device, a wait for another rank, time between two events).
    """

    apart: tuple[str, ...] = ()
    generality: int = 0
    explains: tuple[str, ...] = ()
    change_on: Callable[[Collection[str]], str] | None = None
    change_with: tuple[tuple[Wrapper, str], ...] = ()
    removes: Removal | None = None


class AnyDetector(DetectorOptions, frozen=True):
    """Finds what could be saved.

    Args:
        name: its code, in kebab case: `item-sync`; stable, for programs.
        title: the problem in a few words.
        change: the change that fixes it.
        detect: returns rows of `EVIDENCE`, on the ranks' own clocks.
    """

    name: str
    title: str
    change: str
    detect: Callable[..., pl.DataFrame]


class Detector(AnyDetector, frozen=True):
    """Finds an anti-pattern in a rank: `detect` takes a linked trace.

    Args:
        needs: data without which it finds nothing.
    """

    needs: tuple[Need, ...] = ()


class JobDetector(AnyDetector, frozen=True):
    """Finds an anti-pattern between ranks: `detect` takes the linked ranks.

    Args:
        gathers: functions that gather its input from each rank, besides members.
    """

    gathers: tuple[Gather, ...] = ()


class PathDetector(AnyDetector, frozen=True):
    """Finds on the critical path what makes steps long.

    `detect` takes the dependency graph and the segments of its critical paths (`PATH_SEGMENTS`).
    """


class Growth(Struct, frozen=True):
    """Memory of a rank that grows in each step.

    Args:
        rank: the rank.
        bytes_per_step: by how much.
        on_device: whether it is a device's.
        op: which op allocates most of it; "": the trace has no allocations.
    """

    rank: int
    bytes_per_step: float
    on_device: bool
    op: str = ""


class Limit(Struct, frozen=True):
    """Share of device time bound by a limit.

    Args:
        bound: `memory` or `compute` (`Bound`).
        share: of the time of the device's ops whose least time is known, those that it bounds, 0 to 1.
        reached: of the limit, 0 to 1.
        known: of the time of all ops, those whose least time is known, 0 to 1.
    """

    bound: str
    share: float
    reached: float
    known: float


class Transfers(Struct, frozen=True):
    """Bandwidth of collectives.

    Args:
        bytes_per_s: their messages by their time, waiting included, on the rank that waits least.
        world_size: ranks of the job; None: unknown.
    """

    bytes_per_s: float
    world_size: int | None


class Advice(Struct, frozen=True, eq=False):
    """Possible savings, largest first.

    Args:
        items: `ADVICE`, over all ranks.
        by_step: `ADVICE_BY_STEP`, by rank and step.
        sites: `ADVICE_SITES`, where each item is.
        evidence: `ADVICE_EVIDENCE`, the worst occurrences of each item.
        detectors: all that were asked, by their names: their titles and the changes that they advise.
        ranks: the ranks that were read.
        steps: how many steps there are; 0: none is marked, and the whole trace counts.
        step_ns: how long a step of the job takes on average, as `accounting` adds up; without steps the whole trace.
        own_step_ns: how long it is taken to take without the profiler, of which items save their share.
        accounting: `ACCOUNTING`, the time of the steps of the job and of each rank by cause; empty without a graph.
        growth: the ranks whose memory grows in each step.
        precisions: in which the devices compute, as the table of peaks has them; None: they are unknown, or differ.
        lacks: by the detector's name and the rank, what the trace lacks for it.
        findings: what was noticed, such as a user's detector that failed.
        unlaunched: how much of the device's work has no launch in the trace, 0 to 1; of the rank with the most.
        limit: what bounds most of what the device computes; None: unknown, or there is none.
        transfers: how fast collectives are; None: there are none of a known size.
        by_device: whether the accounting counts what a device does before what its host does at the same time: much of
            the critical path is on threads that show nothing.
        compute_site: the user's function in which much is computed, and the share of the steps that this takes; None:
            there is none, or it is the whole step.
        wrappers: what distributes the model over ranks.
        gaps: what the traces show not at all, or not as it was.
    """

    items: pl.DataFrame
    by_step: pl.DataFrame
    sites: pl.DataFrame
    evidence: pl.DataFrame
    detectors: Mapping[str, AnyDetector]
    ranks: tuple[int, ...]
    steps: int
    step_ns: float
    own_step_ns: float
    accounting: pl.DataFrame = field(default_factory=pl.DataFrame)
    growth: tuple[Growth, ...] = ()
    precisions: frozenset[str] | None = None
    lacks: Mapping[str, Mapping[int, tuple[Need, ...]]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    unlaunched: float = 0.0
    limit: Limit | None = None
    transfers: Transfers | None = None
    by_device: bool = False
    compute_site: tuple[str, float] | None = None
    wrappers: frozenset[Wrapper] = frozenset()
    gaps: tuple[FoundGap, ...] = ()

    def __repr__(self) -> str:
        """Return a short description."""
        return f"Advice(items={self.items.height}, ranks={len(self.ranks)}, steps={self.steps})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
        facts = {"ranks": len(self.ranks), "steps": self.steps, "step": duration(self.step_ns)}
        names = "item detector op call_site count saving_per_step_ns share basis"
        items = notebook.frame_html("What could be saved", self.items, ADVICE, names)
        return notebook.shown("Advice", notebook.facts_html(facts), items)

    def change_of(self, detector: str) -> str:
        """Return the advised change of a detector for these devices and with what wraps the model."""
        found = self.detectors[detector]
        if isinstance(found, PathDetector):
            return found.change
        if isinstance(found, Detector) and self.precisions is not None and found.change_on is not None:
            return found.change_on(self.precisions)
        return next((text for each, text in found.change_with if each in self.wrappers), found.change)

    @property
    def of_job(self) -> pl.DataFrame:
        """The rows of `accounting` that are of the steps of the job."""
        return self.accounting.filter(pl.col("of_rank").is_null())

    @property
    def saving_per_step_ns(self) -> float:
        """Return the maximum saving of all items for each step, counting overlaps once."""
        return float(self.items.get_column("further_per_step_ns").sum())

    @property
    def unavailable(self) -> dict[str, tuple[Need, ...]]:
        """Return the detectors whose needs no rank meets, with these needs."""
        return {
            name: tuple(dict.fromkeys(need for needs in lacks.values() for need in needs))
            for name, lacks in self.lacks.items()
            if lacks and all(lacks.get(rank) for rank in self.ranks)
        }

    @property
    def unavailable_by_need(self) -> dict[Need, list[str]]:
        """Return the detectors whose needs no rank meets, by the first unmet need."""
        found: dict[Need, list[str]] = {}
        for name, needs in self.unavailable.items():
            found.setdefault(needs[0], []).append(name)
        return found

    @property
    def is_unknown(self) -> bool:
        """Return whether what bounds the steps is not known, as work of devices is not in the traces."""
        return is_hidden(Need.DEVICE_WORK, self.gaps)

    @property
    def is_unanswerable(self) -> bool:
        """Return whether it is unknown or no detector with needs could run: missing advice means nothing."""
        if self.is_unknown:
            return True
        needing = [
            name for name, found in self.detectors.items() if isinstance(found, Detector) and found.needs
        ]
        return self.items.is_empty() and set(needing) <= set(self.unavailable)


LEAST_CAPTURES = 3
"""Minimum captures of each run: with two, Student's quantile of 98 % is 7.0 to 31.8, with three 3.7 to 7.0."""
CAPTURES_ALPHA = 0.02
"""Probability of a false alarm where captures are the sample, half of it that equal programs are called slower.

Steps are tested at 0.27 %, but captures are few: with three of each run and 4 degrees of freedom, a difference must be
5.4 times their standard deviation at 0.27 %, and 3.1 times at 2 %."""


class Verdict(Enum):
    """Verdict of a comparison: whether a step of b is longer than one of a."""

    SLOWER = "slower"
    """By more than chance."""
    FASTER = "faster"
    """By more than chance."""
    NO_DIFFERENCE_FOUND = "no-difference-found"
    """Chance explains the difference, which is not to say that there is none: see the interval."""
    NOT_JUDGED = "not-judged"
    """There are too few steps or captures, or steps depend too much on each other, to tell a difference from chance."""


class GateOutcome(Enum):
    """Outcome of a gate against regressions."""

    PASSED = "passed"
    REGRESSION = "regression"
    NOT_JUDGED = "not-judged"
    """The captures neither show a regression nor would have shown each: a gate that cannot judge must not pass."""


class CautionCode(Enum):
    """Reason other than the program why two runs may differ: a code, and its sentence with details in braces."""

    sentence: str

    SAME_FILES = (
        "same-files",
        "both are the same file",
    )
    EMPTY = (
        "empty",
        "{run} contains no work to compare",
    )
    NO_STEPS = (
        "no-steps",
        "{run} has no annotation {annotation}: its whole trace is a single sample, so no difference "
        "of times can be told from chance; call profiler.step() in the loop, or name another with --annotation",
    )
    DOUBTFUL_STEPS = (
        "doubtful-steps",
        "all steps of {run} are warm-up or doubtful, and count for want of others: the gate "
        "does not judge them; see tracebraid analyze validity, and record more steps",
    )
    STEPS_LEFT_OUT = (
        "steps-left-out",
        "steps of {run} that are not counted, {reason}: {steps}",
    )
    OTHER_STEPS = (
        "other-steps",
        "{run} and {other} have no step in common ({steps}; {other_steps}): a program may run "
        "faster or slower later; record the same steps",
    )
    FEW_CAPTURES = (
        "few-captures",
        "{a} and {b} captures are too few to tell a difference of the programs from that of "
        "their runs: record {least} or more of each",
    )
    FEW_STEPS = (
        "few-steps",
        "{a} and {b} steps are too few to tell a difference of times from chance; "
        "6 of each run are the least, 20 are good: record more, such as by tracebraid capture --active 20",
    )
    RANKS_UNPAIRED = (
        "ranks-unpaired",
        "ranks in only one run are skipped: {only_a} of a, {only_b} of b",
    )
    WORLD_SIZES_DIFFER = (
        "world-sizes-differ",
        "the runs have different numbers of ranks: {a} and {b}, which alone "
        "changes the work "
        "and communication of each rank",
    )
    DEVICES_DIFFER = (
        "devices-differ",
        "the runs were made on different devices: {a} and {b}",
    )
    VERSIONS_DIFFER = (
        "versions-differ",
        "the runs were made with different versions of {what}: {a} and {b}",
    )
    PROGRAMS_DIFFER = (
        "programs-differ",
        "the runs are of different programs: only {share} of the time is in ops of both",
    )
    SHAPES_UNKNOWN = (
        "shapes-unknown",
        "only one run has shapes: ops are matched without them",
    )
    MODULES_UNKNOWN = (
        "modules-unknown",
        "only one run has modules (with_stack): ops are matched without them",
    )
    PROFILER_DIFFERS = (
        "profiler-differs",
        "the profiler recorded different data: {what}; in a step it wrote {a} host events "
        "in a and {b} in b, and each costs the host about 1 µs",
    )
    PROFILER_COST = (
        "profiler-cost",
        "the host holds up the device in {run} for {host_late} of the step, and the profiler's "
        "{events} host events of a step cost about {share}: without the profiler both runs are faster, and differ less",
    )
    PROFILER_OVERHEAD = (
        "profiler-overhead",
        "the profiler's own events take {share} of the step in {run}",
    )
    SINGLE_STEPS = (
        "single-steps",
        "the means differ by {mean}, typical steps by {shift}: a few outliers move the means",
    )
    DRIFT = (
        "drift",
        "successive steps are correlated (autocorrelation {a} in a, {b} in b): {steps} steps are worth "
        "about {worth} independent ones, which the significance accounts for; record more, after more warm-up",
    )

    def __new__(cls, code: str, sentence: str) -> CautionCode:
        """The member of a code, which is its value."""
        member = object.__new__(cls)
        member._value_ = code
        member.sentence = sentence
        return member


class Caution(Struct, frozen=True):
    """Caution about a comparison.

    Args:
        code: what it is.
        details: values of the fields of its sentence.
    """

    code: CautionCode
    details: Mapping[str, object] = field(default_factory=dict)

    def __hash__(self) -> int:
        """See `model.finding.Finding`."""
        return hash(self.code)

    @property
    def sentence(self) -> str:
        """Its sentence with these details."""
        template = self.code.sentence
        return template.format_map(dict(self.details))


class Comparison(Struct, frozen=True, eq=False):
    """Difference of run b from run a.

    Args:
        steps: `DIFF_STEPS`: the step's time over all ranks, and of each.
        parts: `DIFF_PARTS`: where the difference comes from; adds up to it exactly.
        ops: `DIFF_OPS`: ops that are added, removed, changed, or the same, with their times.
        kernels: `DIFF_KERNELS`: the same of kernels under their ops.
        settings: `DIFF_SETTINGS`: what the runs were made with.
        cautions: what to know before believing it.
        findings: findings in the files.
        captures: `DIFF_CAPTURES`: the captures of each run.
        left_out: `DIFF_LEFT_OUT`: steps that are not counted, and why.
    """

    steps: pl.DataFrame
    parts: pl.DataFrame
    ops: pl.DataFrame
    kernels: pl.DataFrame
    settings: pl.DataFrame
    cautions: tuple[Caution, ...] = ()
    findings: tuple[Finding, ...] = ()
    captures: pl.DataFrame = field(default_factory=DIFF_CAPTURES.empty)
    left_out: pl.DataFrame = field(default_factory=DIFF_LEFT_OUT.empty)

    def __repr__(self) -> str:
        """Return a short description."""
        codes = ", ".join(caution.code.value for caution in self.cautions)
        return f"Comparison(difference_ns={self.difference_ns}, significant={self.is_significant}, cautions=[{codes}])"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
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
        """Return the difference of the mean steps, b minus a."""
        return int(self.steps.item(0, "difference_ns"))

    @property
    def is_significant(self) -> bool:
        """Return whether the steps differ by more than chance."""
        return bool(self.steps.item(0, "significant"))

    @property
    def is_of_captures(self) -> bool:
        """Return whether captures are the sample; if not, steps of one capture of each run are."""
        return self.captures.height > 2

    @property
    def can_judge(self) -> bool:
        """Return whether there are enough steps, or captures, for any difference to be significant."""
        return self.steps.item(0, "low_ns") is not None

    @property
    def verdict(self) -> Verdict:
        """Return whether a step of b is longer or shorter."""
        if not self.can_judge:
            return Verdict.NOT_JUDGED
        if not self.is_significant:
            return Verdict.NO_DIFFERENCE_FOUND
        return Verdict.SLOWER if self.steps.item(0, "shift_ns") > 0 else Verdict.FASTER

    def gate(self, share: float) -> GateOutcome:
        """Evaluate a gate that fails on regressions beyond a share.

        Captures are its sample: it judges three or more of each run. It is passed if they would have shown a
        slowdown by that share, or show that there is none: half their interval, or its upper end, is at most the share.

        Args:
            share: such as 0.05 for 5 %, of a's median step.
        """
        row = self.steps.row(0, named=True)
        is_doubtful = self.captures.get_column("doubtful").any()
        if not self.is_of_captures or not self.can_judge or is_doubtful or not row["median_a_ns"]:
            return GateOutcome.NOT_JUDGED
        if row["significant"] and row["low_ns"] > 0 and row["shift_share"] > share:
            return GateOutcome.REGRESSION
        limit_ns = share * row["median_a_ns"]
        shows = (row["high_ns"] - row["low_ns"]) / 2 <= limit_ns or row["high_ns"] <= limit_ns
        return GateOutcome.PASSED if shows else GateOutcome.NOT_JUDGED

    def captures_needed(self, share: float) -> int | None:
        """Return about how many captures of each run find a slowdown by a share, as these vary.

        n = 2 (z s / share)² + z² / 4 with the spread s and the normal quantile z of `CAPTURES_ALPHA`, at half power
        (Guenther, "Sample size formulas for normal theory t tests", The American Statistician 35, 1981).

        Args:
            share: such as 0.05 for 5 %, of a's median step.

        Returns:
            The number; None: how much captures vary is unknown, or the share is 0.
        """
        spread: float | None = self.steps.item(0, "spread_share")
        if spread is None or share <= 0:
            return None
        z = NormalDist().inv_cdf(1 - CAPTURES_ALPHA / 2)
        return max(LEAST_CAPTURES, math.ceil(2 * (z * spread / share) ** 2 + z**2 / 4))

    @property
    def changed_ops(self) -> pl.DataFrame:
        """The ops that are not the same."""
        return self.ops.filter(pl.col("change") != DiffChange.SAME.value)

    @property
    def changed_kernels(self) -> pl.DataFrame:
        """The kernels that are not the same."""
        return self.kernels.filter(pl.col("change") != DiffChange.SAME.value)

    def is_slower(self, share: float) -> bool:
        """Return whether the steps of b are slower than those of a by more than a share of them, with confidence.

        The difference of three or more captures of each run is significant, its interval lies above 0, and its
        estimate above the share of a's median.

        Args:
            share: such as 0.05 for 5 %.
        """
        return self.gate(share) is GateOutcome.REGRESSION


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
    """Aggregation of the ranks' values for a job."""

    POOLED = "pooled"
    """The formula, with each of its sums over all ranks."""
    ALIGNED = "aligned"
    """The formula, with the steps of the job: each from the last end of the ranks in the step before to that in it."""
    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    BETWEEN = "between"
    """The formula compares ranks; each rank has its part in it."""


VALUES = Table(
    "values",
    "One row per rank, and one over all: values of a metric.",
    (
        Column("rank", Kind.INT, "the rank; null: all together"),
        Column("value", Kind.FLOAT, "its value; null: there is none"),
        Column("low", Kind.FLOAT, "lower end of its 95 % interval; null: unknown"),
        Column("high", Kind.FLOAT, "upper end"),
        Column("steps", Kind.INT, "number of steps of the value; 0: the whole trace; null: not about steps"),
        Column("ranks", Kind.INT, "number of ranks of the value"),
    ),
)


class MetricOptions(Struct, frozen=True):
    """Options of metrics.

    Args:
        with_doubtful: whether doubtful steps (see `validity`) count too.
        peak_flops: of a device, in FLOP/s; None: as `model.device_peaks` has it.
        peak_bandwidth: of the network, in bytes/s of bus bandwidth; None: unknown.
    """

    with_doubtful: bool = False
    peak_flops: float | None = None
    peak_bandwidth: float | None = None


class Metric(Struct, frozen=True, eq=False):
    """A scalar of each rank and of the whole job.

    Args:
        name: in snake case; stable, for programs.
        unit: of its value.
        formula: how it is computed.
        over_ranks: how the value of the job comes from those of the ranks.
        measure: takes the linked ranks and the options; returns rows of `VALUES`.
        gathers: functions that gather its input from each rank, besides members.
        needs: data without which a rank has no value.
        otherwise: why a rank that meets all needs has no value.
        family: its subject, in the order of which metrics are listed.
    """

    name: str
    unit: Unit | str
    formula: str
    over_ranks: OverRanks
    measure: Callable[[LinkedRanks, MetricOptions], pl.DataFrame]
    gathers: tuple[Gather, ...] = ()
    needs: tuple[Need, ...] = ()
    otherwise: MetricLack = MetricLack.NOTHING_TO_MEASURE
    family: Family = Family.TIME

    @property
    def unit_text(self) -> str:
        """The unit as text."""
        return self.unit.value if isinstance(self.unit, Unit) else self.unit
