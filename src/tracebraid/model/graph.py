"""The dependency graph of a job: its codes, and the nouns that `graph/` builds and `simulation/` computes with."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import cast

import numpy as np
import polars as pl
from msgspec import Struct, field
from msgspec.structs import asdict, astuple, replace
from numpy.typing import NDArray

from tracebraid.model import notebook
from tracebraid.model.answers.graph import (
    PATH_STEPS,
    PATH_TOTALS,
    SHAPE_BASIS,
    SHAPE_MEMORY,
    WHAT_IF_CHANGES,
    TotalsBy,
)
from tracebraid.model.capture_facts import CaptureFacts
from tracebraid.model.compact import compact
from tracebraid.model.finding import Finding
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.quantities import duration, percent
from tracebraid.model.schema.links import GRAPH_STEPS, LATENCIES
from tracebraid.model.step import PROFILER_STEP


class Where(Struct, frozen=True):
    """Selection of activities that match all given criteria; None matches any.

    Each is a list with commas. Names are patterns, in which `*` stands for any text and `?` for a character, or a
    regular expression between slashes; ranks, streams and steps are numbers and ranges (`0-3`).

    Args:
        rank: ranks.
        step: numbers of steps, or patterns of their names.
        kind: `ActivityKind`.
        name: names of events.
        op: names of ops: each with the calls in it, outside other ops, and the device work that they launched.
        within: names of host events: each with all that it calls, all the device work that is launched in it, and what
            other threads do for it: from a hand-over on, and communication that it asks a backend for.
        module: names of modules (`Linear_0`), as `op`.
        shapes: shapes of the inputs of ops, as text (`[[64, 512], [512]]`), as `op`.
        family: `KernelFamily`.
        stream: numbers of streams.
        group: process groups.
        collective: types of collectives, such as `all_reduce`; also `send` and `recv`.
        bytes: sizes that are communicated, copied or filled, and ranges of them, also open ones: `4kB`, `1MB-25MB`,
            `1MiB-`, `-64kB`.
    """

    rank: str | None = None
    step: str | None = None
    kind: str | None = None
    name: str | None = None
    op: str | None = None
    within: str | None = None
    module: str | None = None
    shapes: str | None = None
    family: str | None = None
    stream: str | None = None
    group: str | None = None
    collective: str | None = None
    bytes: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """The keys that are given, and their values."""
        return {key: value for key, value in asdict(self).items() if value is not None}


class Ring(Struct, frozen=True):
    """A network on which collectives go round a ring of their ranks.

    Args:
        bytes_per_s: what a rank sends to the next, as it receives as much from the one before.
        latency_ns: of a message.
    """

    bytes_per_s: float
    latency_ns: float


class Change(Struct, frozen=True):
    """A change: what is done, and to which activities.

    Args:
        verb: what is done, such as `scale`.
        value: how much, as the verb takes it: a factor, ns, bytes, a count or the number of a stream; None: the verb's
            own default.
        where: which activities.
        factor: of `fuse`: duration of the fused kernel over the sum of those that it replaces; None: 1.
        before: of a change of a size (`layers 24->36`), the size that the traces show, where `value` is the new one.
        network: of `data-parallel` and `tensor`: the network of their groups; None: as fast as the traces show.
    """

    verb: str
    value: float | None = None
    where: Where = field(default_factory=Where)
    factor: float | None = None
    before: float | None = None
    network: Ring | None = None


class ActivityKind(Enum):
    """Kind of an activity."""

    OP = "op"
    ANNOTATION = "annotation"
    CALL = "call"
    """Call of a runtime or driver API, on the host."""
    PYTHON = "python"
    """A Python function."""
    THREAD = "thread"
    """Time of a thread outside all recorded events, from its first moment to its last."""
    KERNEL = "kernel"
    COPY = "copy"
    """Copy or fill, on a device."""
    COMMUNICATION = "communication"
    """A rank's part in a collective, a send or a receive: on a device, or on the host by its backend."""
    COLLECTIVE = "collective"
    """A collective of several ranks: it starts when the last member has arrived, and ends when all have ended."""


class Point(IntEnum):
    """Moment of an activity."""

    START = 0
    END = 1


class EdgeKind(IntEnum):
    """Kind of a dependency between moments."""

    HOST = 0
    """Time of a thread, from one of its moments to the next: what its innermost event does meanwhile."""
    DEVICE = 1
    """Device work, from its start to its end."""
    TRANSFER = 2
    """From the moment that all members of a collective have arrived to the end of a member."""
    ARRIVAL = 3
    """From the start of a member to the start of the collective; from its end to the collective's end."""
    LAUNCH = 4
    """From the start of a call to the start of the work that it launched."""
    STREAM_ORDER = 5
    """From the end of a stream's work to the start of the next."""
    STREAM_OVERLAP = 6
    """From the start of a stream's work to the start of the next, which begins before the first has ended."""
    STREAM_END = 7
    """From the end of a stream's work to the end of the next, which began before."""
    EVENT_WAIT = 8
    """From the end of work that an event stands for to the start of work that waits for it on another stream; or to
    the end of the wait, where that is work of its own on the device (MTIA)."""
    SYNC = 9
    """From the end of device work to the end of the host's call that waits for it."""
    THREAD = 10
    """From a thread's moment to that of another thread that takes over."""
    FORWARD_BACKWARD = 11
    """From the end of a forward op to the start of its backward op."""
    COMMUNICATION_WAIT = 12
    """From the end of communication of the host to the moment of a thread that waited for it."""
    QUEUE = 13
    """From the start of device work to the end of a call that waited for room in the queue."""


class LatencySource(Enum):
    """Source of a latency."""

    GROUP = "group"
    """The median of the samples of its own kind and key."""
    KIND = "kind"
    """The median of all samples of the kind of edge: its own key has too few."""
    LOWEST = "lowest"
    """The lowest of few samples of the kind; 0 if that is too long for a latency."""
    NONE = "none"
    """No sample: such an edge never decided in the trace. It is taken as 0."""


class Residual(IntEnum):
    """Reason why a moment is later than its known dependencies, mostly by the kind of the latest one."""

    NONE = 0
    """It is not later."""
    LAUNCH = 1
    """Launch latency beyond what is usual."""
    STREAM = 2
    """A gap on a stream beyond what is usual between two of its works."""
    EVENT_WAIT = 3
    SYNC = 4
    """The host's call returned later than is usual after the device's work."""
    THREAD = 5
    """Scheduling: a thread that took over late."""
    COMMUNICATION = 6
    """After communication, or between arrival and transfer."""
    BEFORE = 7
    """It depends on nothing in the graph, or starts long after its launch: its cause lies
    before the window, or was not recorded."""
    UNEXPLAINED = 8
    """It came later than all its dependencies for an unknown reason: so much later than usual that
    no latency explains it."""


class TimePart(Enum):
    """Kind of measured time in a graph's coverage."""

    WORK = "work"
    """Work of a thread or stream."""
    LATENCY = "latency"
    """Usual latency."""
    WAITING = "waiting"
    """Until what was waited for had happened."""
    RESIDUAL = "residual"
    """Unexplained time."""


class Track(Enum):
    """Kind of lane in a graph's coverage."""

    HOST = "host"
    """Threads."""
    DEVICE = "device"
    """Streams."""


class ReplayError(Struct, frozen=True):
    """Error of step times replayed with modelled latencies, against the measured ones.

    Args:
        steps: how many steps were compared.
        median: median over the steps of |replayed - measured| / measured; None: no step was compared.
        p95: their 95th percentile.
        next_steps: how many steps were predicted from the step before them.
        next_step_median: the same median of these predictions; None: no step was predicted.
        next_step_p95: their 95th percentile.
        modelled_share: median share of the replayed time that is residuals, along the chain that ends with each step;
            None: of a single rank.
    """

    steps: int = 0
    median: float | None = None
    p95: float | None = None
    next_steps: int = 0
    next_step_median: float | None = None
    next_step_p95: float | None = None
    modelled_share: float | None = None


class CriticalPath(Struct, frozen=True, eq=False):
    """The critical path of each step.

    Args:
        steps: `PATH_STEPS`.
        segments: `PATH_SEGMENTS`; of each step they follow each other without a gap, from its start to its end.
        totals: `PATH_TOTALS`.
        hops: `PATH_HOPS`.
        slack: `SLACK`.
        stability: `PATH_STABILITY`.
        ranks: the ranks that were read.
        rank: the rank within which the paths stay; None: they go over all ranks.
        replay_error: how well the graph's model reproduces the measured times.
        findings: the findings.
    """

    steps: pl.DataFrame
    segments: pl.DataFrame
    totals: pl.DataFrame
    hops: pl.DataFrame
    slack: pl.DataFrame
    stability: pl.DataFrame
    ranks: tuple[int, ...]
    rank: int | None
    replay_error: ReplayError
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """Return a short description."""
        return f"CriticalPath(steps={self.steps.height}, segments={self.segments.height}, ranks={len(self.ranks)})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook; computes nothing."""
        facts = {
            "steps": self.steps.height,
            "segments": self.segments.height,
            "ranks": len(self.ranks),
            "within rank": self.rank,
            "findings": len(self.findings),
        }
        steps = notebook.frame_html(
            "Steps", self.steps, PATH_STEPS, "step span_ns path_ns residual_ns explained"
        )
        totals = notebook.frame_html(
            "What the paths are made of",
            self.totals.filter(pl.col("by") == TotalsBy.KIND.value),
            PATH_TOTALS,
            "step value segments duration_ns share",
        )
        return notebook.shown("Critical path", notebook.facts_html(facts), steps, totals)


_Ints = NDArray[np.int64]
_Codes = NDArray[np.uint8]


class Moments(Struct, frozen=True, eq=False):
    """Starts and ends of activities, in an order in which each comes after all that it waits for.

    Args:
        activity: the activity: row of `DependencyGraph.activities`.
        point: `Point`.
        time_ns: when it was, on aligned clocks.
        residual_ns: by how much it is later than all that it waits for; of one that waits for nothing, than the
            earliest moment of the graph; not negative.
        residual: why that is (`Residual`).
    """

    activity: _Ints
    point: _Codes
    time_ns: _Ints
    residual_ns: _Ints
    residual: _Codes

    def __len__(self) -> int:
        return len(self.activity)


class Edges(Struct, frozen=True, eq=False):
    """Dependencies of moments: the edges of moment `i` are those from `first[i]` up to `first[i + 1]`.

    Args:
        first: one entry more than there are moments.
        before: the moment that is waited for; always a lower one.
        work_ns: how much later the moment is at least; not negative.
        kind: `EdgeKind`.
        activity: the activity that the work belongs to: row of `DependencyGraph.activities`.
    """

    first: _Ints
    before: NDArray[np.int32]
    work_ns: _Ints
    kind: _Codes
    activity: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.before)


class DependencyGraph(Struct, frozen=True, eq=False):
    """Dependencies between the activities of a job.

    The time of a moment is the latest of its edges, the time of the moment before plus the edge's work, plus its
    residual. So the measured times follow from work, latencies and residuals alone.

    Args:
        activities: `ACTIVITIES`.
        moments: in an order in which nothing waits for a later one.
        edges: what each waits for.
        moment_of: the moment of each activity's start and end: two columns.
        steps: `GRAPH_STEPS`.
        latencies: `LATENCIES`.
        ranks: the ranks, linked with each other.
        findings: findings while it was built.
        is_whole: whether it has all that the traces have; else it has some steps.
        annotation: marks steps.
        captures: facts about the process of each rank that `capture` recorded.
        latency_ns: of the transfers of each activity, where a change says it; NaN, and beyond its end: as fitted.
    """

    activities: pl.DataFrame
    moments: Moments
    edges: Edges
    moment_of: NDArray[np.int32]
    steps: pl.DataFrame
    latencies: pl.DataFrame
    ranks: LinkedRanks
    findings: tuple[Finding, ...] = ()
    is_whole: bool = True
    annotation: str = PROFILER_STEP
    captures: Mapping[int, CaptureFacts] = field(default_factory=dict)
    latency_ns: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        """Return a short description."""
        steps = self.steps.get_column("step").n_unique()
        return (
            f"DependencyGraph(ranks={self.ranks.ranks.height}, steps={steps}, activities={self.activities.height}, "
            f"moments={len(self.moments)}, edges={len(self.edges)}, findings={len(self.findings)})"
        )

    def _repr_html_(self) -> str:
        """Return HTML for a notebook; computes nothing."""
        facts = {
            "ranks": self.ranks.ranks.height,
            "activities": self.activities.height,
            "moments": len(self.moments),
            "edges": len(self.edges),
            "findings": len(self.findings),
            "whole": self.is_whole,
        }
        steps = notebook.frame_html(
            "Steps", self.steps, GRAPH_STEPS, "step rank start_moment host_end_moment"
        )
        return notebook.shown("Dependency graph", notebook.facts_html(facts), steps)

    @property
    def after(self) -> NDArray[np.int32]:
        """The moment that waits, of each edge."""
        return np.repeat(np.arange(len(self.moments), dtype=np.int32), np.diff(self.edges.first))

    def ops_around(self, calls: _Ints) -> _Ints:
        """The innermost ops around some activities, such as calls; one without an op is its own."""
        table = self.activities.select("rank", "event_id", "op_event")
        numbers = table.select(
            "rank", pl.col("event_id").alias("op_event"), pl.int_range(pl.len()).alias("op")
        )
        rows = table[calls].select("rank", "op_event").with_columns(pl.Series("call", calls))
        found = rows.join(numbers.drop_nulls(), on=["rank", "op_event"], how="left", maintain_order="left")
        ops: _Ints = found.select(pl.coalesce("op", "call").cast(pl.Int64)).to_series().to_numpy()
        return ops


def moment(activity: _Ints, point: int | _Ints) -> _Ints:
    """The number of a moment before moments are ordered: an activity has two, its start and its end."""
    return 2 * activity + point


class EdgeList(Struct, frozen=True, eq=False):
    """Edges in any order; each array has one entry per edge.

    Args:
        before: the moment that is waited for.
        after: the moment that waits.
        work_ns: how much later it is at least: work, or a latency that is usual; not negative.
        kind: `EdgeKind`.
        activity: the activity that the work belongs to.
    """

    before: _Ints
    after: _Ints
    work_ns: _Ints
    kind: NDArray[np.uint8]
    activity: _Ints

    def __len__(self) -> int:
        return len(self.before)

    def __getitem__(self, rows: NDArray[np.bool_] | _Ints | slice) -> EdgeList:
        """Some of the edges."""
        return EdgeList(*(column[rows] for column in astuple(self)))

    @staticmethod
    def of(before: _Ints, after: _Ints, kind: int, activity: _Ints, work_ns: _Ints | None = None) -> EdgeList:
        """Edges of one kind."""
        work = np.zeros(len(before), dtype=np.int64) if work_ns is None else work_ns
        return EdgeList(before, after, work, np.full(len(before), kind, dtype=np.uint8), activity)

    @staticmethod
    def joined(parts: list[EdgeList]) -> EdgeList:
        """All edges of several lists, one behind the other."""
        return EdgeList(*map(np.concatenate, zip(*map(astuple, parts), strict=True)))

    def packed(self) -> EdgeList:
        """The same edges, with numbers of 32 bits instead of 64."""
        before, after, activity = (
            cast(_Ints, numbers.astype(np.int32)) for numbers in (self.before, self.after, self.activity)
        )
        return EdgeList(before, after, self.work_ns, self.kind, activity)


class RankGraph(Struct, frozen=True, eq=False):
    """One rank's activities, and the edges between their moments; holds nothing of the linked trace.

    Args:
        rank: the rank.
        activities: `ACTIVITIES`, on the rank's own clock.
        times_ns: the time of each moment (see `moment`), on the rank's own clock, so that every edge goes forward
            by at least its work.
        edges: in any order.
        latencies: `LATENCIES`.
        findings: what was noticed, such as evidence that time contradicts.
        annotation: marks steps.
        capture: facts about the rank's process that `capture` recorded.
    """

    rank: int
    activities: pl.DataFrame
    times_ns: _Ints
    edges: EdgeList
    latencies: pl.DataFrame = field(default_factory=LATENCIES.empty)
    findings: tuple[Finding, ...] = ()
    annotation: str = PROFILER_STEP
    capture: CaptureFacts = field(default_factory=CaptureFacts)

    def packed(self) -> RankGraph:
        """The same in memory of its own, and less of it."""
        return replace(self, activities=compact(self.activities), edges=self.edges.packed())


class Doubt(Enum):
    """Reason why a real gain may differ from the predicted."""

    STEPS = "steps"
    """Steps differ by themselves, and so do runs."""
    RESIDUALS = "residuals"
    """Unexplained time: the gain differs if it is as in other steps."""
    MODEL = "model"
    """How far predictions of such changes were off, and whether steps of this trace differ as the changed work does."""
    CONTENTION = "contention"
    """Threads share cores: as others work more or less, the rest gets slower or faster."""
    SHAPE = "shape"
    """How work depends on shapes is fitted to few of them."""
    RECORDING = "recording"
    """What recording costs is not exactly known; of steps without recording."""


class WhatIfNote(Enum):
    """Assumption of the answer, besides the dependencies."""

    INTERFERENCE = "interference"
    """Other kernels run beside communication than did, and are slowed down by as much as the trace shows."""
    SAME_OVERLAP = "same_overlap"
    """The same kernels run beside communication: they stay as fast as they were."""
    NO_OVERLAP = "no_overlap"
    """Kernels newly run beside communication, and are not slowed down: none does in the trace."""
    NO_COMPARISON = "no_comparison"
    """Other kernels run beside communication than did, and stay as fast as they were: the trace has none that run
    often enough with it and without it, and are clearly slower with it."""
    RESIDUALS_STAY = "residuals_stay"
    """Unexplained time stays as measured."""
    LATENCY_UNKNOWN = "latency_unknown"
    """Some communication has no fitted latency: all its time is attributed to its size."""
    ALONE = "alone"
    """Some communication is not matched with another rank's: its time includes waiting."""
    RECORDING_SCALED = "recording_scaled"
    """The measured costs of recording are multiplied so that the step without them agrees with the unrecorded ones."""
    RECORDING_DISAGREES = "recording_disagrees"
    """The step without the measured costs of recording is not as long as the unrecorded steps were."""
    NO_STEPS = "no_steps"
    """No step is marked: the whole trace is a single one."""
    NOTHING_CHANGES = "nothing_changes"
    """The selected work stays as it is: by the fitted line it has no latency, or none that its size takes."""
    NO_GAIN = "no_gain"
    """The step does not get shorter: the changed work is not on its critical path."""


class Unrecorded(Struct, frozen=True):
    """Effect of changes on the step as it is where nothing is recorded.

    Args:
        before_ns: median time of a step of the job: `measured_ns` if that is of three steps or more, else the recorded
            one less what recording costs.
        after_ns: the same less the median gain by the changes, so that the gain lies within its interval.
        low_ns: low end of the interval that holds the real gain in about four of five cases.
        high_ns: high end of it.
        measured_ns: median of the unrecorded steps of the same run; None: there were none.
        factor: what the measured costs were multiplied by, so that the step less these agrees with `measured_ns`.
    """

    before_ns: float
    after_ns: float
    low_ns: float
    high_ns: float
    measured_ns: float | None = None
    factor: float = 1.0


class WhatIf(Struct, frozen=True, eq=False):
    """Effect of changes.

    Args:
        steps: `WHAT_IF_STEPS`.
        changes: `WHAT_IF_CHANGES`.
        paths: `WHAT_IF_PATHS`.
        before_ns: mean time of a step of the job.
        after_ns: the same with the changes.
        gain_low_ns: low end of the interval that holds the real gain in about four of five cases; at most `gain_ns`.
        gain_high_ns: high end of it; at least `gain_ns`.
        doubts: what makes the interval wide: `WHAT_IF_DOUBTS`.
        ranks: the ranks that were read.
        replay_error: how well the model reproduces the measured times of this trace.
        interference: how much slower kernels are beside communication, as measured: `INTERFERENCE`.
        notes: what the answer rests on.
        findings: the findings.
        shape_basis: of changes of shape, what the new times rest on: `SHAPE_BASIS`; else empty.
        shape_memory: of changes of shape, memory at the peak where traces show it: `SHAPE_MEMORY`; else empty.
        unrecorded: the same for a run that is not recorded; None: what recording costs was not measured.
    """

    steps: pl.DataFrame
    changes: pl.DataFrame
    paths: pl.DataFrame
    before_ns: float
    after_ns: float
    gain_low_ns: float
    gain_high_ns: float
    doubts: pl.DataFrame
    ranks: tuple[int, ...]
    replay_error: ReplayError
    interference: pl.DataFrame
    notes: tuple[WhatIfNote, ...]
    findings: tuple[Finding, ...] = ()
    shape_basis: pl.DataFrame = field(default_factory=SHAPE_BASIS.empty)
    shape_memory: pl.DataFrame = field(default_factory=SHAPE_MEMORY.empty)
    unrecorded: Unrecorded | None = None

    @property
    def gain_ns(self) -> float:
        """Mean gain of a step of the job; below 0: it takes longer."""
        return self.before_ns - self.after_ns

    @property
    def gain(self) -> float:
        """The gain as a share of the time before; 0 if that is 0."""
        return self.gain_ns / self.before_ns if self.before_ns else 0.0

    def __repr__(self) -> str:
        """Return a short description."""
        return f"WhatIf(before_ns={self.before_ns:.0f}, after_ns={self.after_ns:.0f}, changes={self.changes.height})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
        rows = [
            ("mean step before", duration(self.before_ns)),
            ("after", duration(self.after_ns)),
            ("gain", f"{duration(self.gain_ns)}, {percent(self.gain)}"),
            ("gain, low to high", f"{duration(self.gain_low_ns)} to {duration(self.gain_high_ns)}"),
        ]
        if (bare := self.unrecorded) is not None:
            rows.append(("without recording", f"{duration(bare.before_ns)} to {duration(bare.after_ns)}"))
        facts = {**dict(rows), "ranks": len(self.ranks), "notes": [note.value for note in self.notes] or None}
        changes = notebook.frame_html("Changes", self.changes, WHAT_IF_CHANGES)
        return notebook.shown("What if", notebook.facts_html(facts), changes)
