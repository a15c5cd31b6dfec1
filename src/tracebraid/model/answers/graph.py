"""The tables that are answers of the dependency graph."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

START_UP = "start-up (first use of the device)"
"""Name of calls that create the device's context and load its kernels, once."""


class SegmentKind(Enum):
    """Kind of a segment of a critical path."""

    HOST_OP = "host op"
    """A thread is in an op, outside what it calls."""
    ANNOTATION = "annotation"
    """A thread is in an annotation, outside any op."""
    CALL = "call"
    """A call of a runtime or driver API."""
    PYTHON = "python"
    """A Python function, outside what it calls."""
    THREAD = "thread"
    """A thread outside every recorded event."""
    KERNEL = "kernel"
    COPY = "copy"
    """A copy or fill on a device."""
    TRANSFER = "transfer"
    """Communication, after the last member has arrived."""
    MEMBER_WAIT = "waiting for a member"
    """Communication that has not begun because a member has not arrived."""
    LAUNCH_LATENCY = "launch latency"
    """The usual time from a call to the start of the work that it launched."""
    STREAM_GAP = "stream gap"
    """The usual time between two works of a stream."""
    EVENT_WAIT = "event wait"
    """The usual time from the work that an event stands for to the work of another stream that waits for it."""
    SYNC = "sync"
    """The usual time from the end of device work to the end of the call that waits for it."""
    QUEUE = "full queue"
    """The usual time from the start of device work to the end of a call that waited for room in the queue."""
    HANDOVER = "hand-over"
    """The usual time until another thread takes over."""
    OTHER = "other"
    """Work of an event whose category is unknown."""
    RESIDUAL = "residual"
    """Delay beyond all known dependencies (`Residual`)."""


WAITING_KINDS = (
    SegmentKind.MEMBER_WAIT,
    SegmentKind.LAUNCH_LATENCY,
    SegmentKind.STREAM_GAP,
    SegmentKind.EVENT_WAIT,
    SegmentKind.SYNC,
    SegmentKind.QUEUE,
    SegmentKind.HANDOVER,
    SegmentKind.RESIDUAL,
)
"""The kinds in which nothing is computed, copied or transferred."""


class StepCause(Enum):
    """Cause of a step's time."""

    COMPUTE = "compute"
    """Kernels; for ranks without a device, host ops."""
    COPY = "copy"
    """Copies and fills of a device."""
    COMMUNICATION = "communication"
    """Transfer: all members have arrived."""
    RANK_WAIT = "rank-wait"
    """Communication that has not begun because another rank has not arrived."""
    HOST = "host"
    """Code of the host: Python, ops and calls that launch; for ranks without a device, everything outside ops."""
    LAUNCH = "launch"
    """Latencies from a call to its kernel, between kernels, and from the device's end to the call that waits."""
    BLOCKED = "blocked"
    """Launched, but later than all its known dependencies."""
    UNKNOWN = "unknown"


ACCOUNTING = Table(
    "accounting",
    "One row per step of the job and of each rank, cause and activity; rows of a step add up to its span.",
    (
        Column(
            "of_rank",
            Kind.INT,
            "the rank whose step it is; null: the step of the job, as its slowest rank has it",
        ),
        Column("step", Kind.TEXT, "the step; null: the whole trace, which has no steps"),
        Column("cause", Kind.TEXT, "cause of the time (`StepCause`)"),
        Column("rank", Kind.INT, "the rank that does it; null: a collective of several ranks"),
        Column(
            "host_work",
            Kind.TEXT,
            "host work other than computing and launching (`HostWork`); or null",
        ),
        Column("name", Kind.TEXT, "the op, the kernel's family, the type of communication, the function"),
        Column("ns", Kind.INT, "time on the critical path"),
        Column("share", Kind.FLOAT, "of the step's span"),
    ),
)


_INT, _FLOAT, _BOOL, _NAME, _TEXT, _JSON = (
    *(Kind.INT, Kind.FLOAT, Kind.BOOL),
    *(Kind.NAME, Kind.TEXT, Kind.JSON),
)

_STEP = Column("step", _TEXT, "the step; null: the whole trace, which has no steps")
_RANK = Column("rank", _INT, "the rank; null: a collective of several ranks")
_NAME_COLUMN = Column("name", _NAME, "name of the event, or of the thread; of a collective its type")
_OP = Column("op", _NAME, "innermost op that it is or lies in, or that launched it; null: none")


class TotalsBy(Enum):
    """Key by which the segments of a critical path are added up."""

    KIND = "kind"
    NAME = "name"
    OP = "op"
    MODULE = "module"
    FAMILY = "family"
    RANK = "rank"
    RESIDUAL = "residual"


PATH_STEPS = Table(
    "path_steps",
    "One row per step: how much of it the critical path explains; in the order of the steps.",
    (
        _STEP,
        Column(
            "start_ns",
            _INT,
            "end of the step before, on aligned clocks; of the first the earliest start of its ranks",
        ),
        Column("span_ns", _INT, "from its start to the latest end on any rank's host or device"),
        Column(
            "path_ns", _INT, "work and usual latencies on the path; with residual_ns it is span_ns exactly"
        ),
        Column("residual_ns", _INT, "time on the path that nothing explains (`Residual`)"),
        Column("explained", _FLOAT, "path_ns / span_ns; of an empty step 1"),
        Column(
            "waiting_ns", _INT, "of path_ns: waits and usual latencies, in which nothing is computed or moved"
        ),
        Column("segments", _INT, "segments of the path"),
        Column("hops", _INT, "how often the path goes from a rank to another"),
        Column("ranks", Kind.INTS, "the ranks that the path runs over, ascending"),
    ),
)

PATH_SEGMENTS = Table(
    "path_segments",
    "One row per segment of a critical path; by step, from its start to its end, without gaps.",
    (
        _STEP,
        Column("order", _INT, "position on the path of the step, from 0"),
        _RANK,
        Column("thread", _NAME, "name of the thread; null: it is on a device"),
        Column("stream", _INT, "number of the stream; null: it is on no device"),
        Column("lane", _INT, "thread or stream: its row in `lanes` of the rank's timeline"),
        Column("kind", _NAME, "kind of the segment (`SegmentKind`)"),
        Column("family", _NAME, "family of device work (`KernelFamily`); else null"),
        _NAME_COLUMN,
        _OP,
        Column("module", _NAME, "nn.Module in whose call it lies or was launched; null: none"),
        Column(
            "annotation", _NAME, "innermost annotation around it or its launch that is no step; null: none"
        ),
        Column(
            "frames",
            _NAME,
            "the user's Python functions around it or its launch, the outermost first, ` > ` between; null: none",
        ),
        Column("host_work", _NAME, "host work in it (`HostWork`); null: it computes, launches or calls"),
        Column("node_id", _INT, "Execution Trace node of the op; null: there is none"),
        Column("shapes", _JSON, "shapes of the inputs of the op; null: not recorded"),
        Column("event_id", _INT, "the event: its row in `events` of the rank's timeline; null: it has none"),
        Column("start_ns", _INT, "start, on aligned clocks"),
        Column("duration_ns", _INT, "duration; those of a step's segments add up to its span_ns"),
        Column("work_ns", _INT, "of the duration: work and usual latency"),
        Column("residual_ns", _INT, "unexplained part of the duration"),
        Column("residual", _NAME, "reason for the residual (`Residual`); null: none"),
        Column(
            "on_path",
            _FLOAT,
            "share of perturbed replays in which the activity is on the path; null: no replays",
        ),
        Column("activity", _INT, "row of the graph's `activities`"),
    ),
)

PATH_TOTALS = Table(
    "path_totals",
    "One row per step and kind, name, op, module, family, rank or residual on its path; the longest first.",
    (
        _STEP,
        Column("by", _NAME, "key of the totals (`TotalsBy`)"),
        Column("value", _TEXT, "its value; null: the segments have none"),
        Column("segments", _INT, "segments of the path"),
        Column("duration_ns", _INT, "their duration"),
        Column("share", _FLOAT, "of the step's span; of an empty step 0"),
        Column("waits", _BOOL, "by kind: whether nothing is computed or moved meanwhile; else null"),
    ),
)

PATH_HOPS = Table(
    "path_hops",
    "One row per change of the rank on a critical path; in the order of the path.",
    (
        _STEP,
        Column("order", _INT, "the segment that the path goes to: its order in `path_segments`"),
        Column("from_rank", _INT, "the rank that it comes from"),
        Column("to_rank", _INT, "the rank that it goes to"),
        Column("ts_ns", _INT, "when, on aligned clocks"),
        Column("from_name", _NAME, "name of the segment that it comes from"),
        Column("to_name", _NAME, "name of the segment that it goes to"),
    ),
)

SLACK = Table(
    "slack",
    "One row per activity: how much longer it can be without any step or the job ending later.",
    (
        _RANK,
        Column("event_id", _INT, "the event: its row in `events` of the rank's timeline; null: it has none"),
        Column("kind", _NAME, "its kind (`ActivityKind`)"),
        _NAME_COLUMN,
        _OP,
        Column("lane", _INT, "thread or stream: its row in `lanes` of the rank's timeline"),
        Column("stream", _INT, "number of the stream; null: it is on no device"),
        Column("step", _NAME, "the step in which it was issued; null: in none"),
        Column("start_ns", _INT, "start, on aligned clocks"),
        Column("duration_ns", _INT, "duration"),
        Column("work_ns", _INT, "its own time: for an op, outside its callees"),
        Column("slack_ns", _INT, "by how much its own time can grow, at any point; null: it has none"),
        Column("activity", _INT, "row of the graph's `activities`"),
    ),
)

PATH_STABILITY = Table(
    "path_stability",
    "One row per step and activity that was on its path in any perturbed replay; the most frequent first.",
    (
        _STEP,
        _RANK,
        Column("kind", _NAME, "its kind (`ActivityKind`)"),
        _NAME_COLUMN,
        _OP,
        Column("start_ns", _INT, "start, on aligned clocks"),
        Column("is_on_path", _BOOL, "whether it is on the measured path"),
        Column("on_path", _FLOAT, "share of the replays in which it is on the path"),
        Column("replays", _INT, "number of replays"),
        Column("activity", _INT, "row of the graph's `activities`"),
    ),
)


class StragglerMetric(Enum):
    """A metric of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025)."""

    SLOWDOWN = "S"
    """A step over an ideal step, in which the same operations take equally long."""
    SLOWDOWN_BY = "S_x"
    """An ideal step with only one group's work as it was, over an ideal step."""
    LAST_STAGE = "M_S"
    """Share of the lost time recovered if the last pipeline stage's work were ideal."""
    SLOWEST_WORKERS = "M_W"
    """The same of the slowest 3 % of workers, rounded up."""


class SweepBy(Enum):
    """Grouping of work."""

    OP = "op"
    MODULE = "module"
    FAMILY = "family"
    """Family of kernels, copies and fills."""
    KERNEL = "kernel"
    """Name of kernels, copies and fills."""
    COLLECTIVE = "collective"
    """Transfers, by type and process group."""
    PYTHON = "python"
    """Python functions, without what they call."""
    CALL = "call"
    """Calls of a runtime or driver API, by name."""
    ANNOTATION = "annotation"
    """User annotations, without the events in them; marks of steps are one."""
    THREAD = "thread"
    """All work of a thread, by rank and name."""
    LATENCY = "latency"
    """Usual latencies, by kind of edge."""


class SweepScope(Enum):
    """Scope of a group's work."""

    SELF = "self"
    """Only the group's own work: for ops and modules the host's, without ops, calls and Python functions in them."""
    LAUNCHED = "launched"
    """For ops and modules, also the calls and Python functions in them, and the device work that they launched.

    Work counts for its innermost op or module. Omitted if it is the same work."""


SWEEP = Table(
    "sweep",
    "One row per group with work above 0, by the gain at 50 %, largest first.",
    (
        Column("group_by", _TEXT, "grouping (`SweepBy`)"),
        Column("scope", _TEXT, "which of its work is faster (`SweepScope`)"),
        Column("name", _TEXT, "name of the group"),
        Column("activities", _INT, "activities that have the work"),
        Column("total_ns", _INT, "the work from the start of the first step on, over all ranks"),
        Column("on_path_ns", _INT, "its part on the critical path: an upper bound of the gain"),
        Column("on_path", _FLOAT, "`on_path_ns` over the time of all steps"),
        Column(
            "gain_10_ns",
            _FLOAT,
            "gain of a step, on average, with 10 % of the work gone; null: not computed",
        ),
        Column("gain_50_ns", _FLOAT, "the same with 50 %"),
        Column("gain_100_ns", _FLOAT, "the same with all of it"),
        Column("gain_10", _FLOAT, "`gain_10_ns` over the mean time of a step; null: not computed"),
        Column("gain_50", _FLOAT, "the same of `gain_50_ns`"),
        Column("gain_100", _FLOAT, "the same of `gain_100_ns`"),
    ),
)


WHAT_IF_CHANGES = Table(
    "what_if_changes",
    "One row per change, in the order in which they are applied.",
    (
        Column("change", _TEXT, "the change, in the grammar of `--change`"),
        Column("activities", _INT, "activities that it selects"),
        Column("events", _INT, "of these those that are events of the trace"),
        Column("before_ns", _INT, "time that they work themselves, together, when the change is applied"),
        Column("after_ns", _INT, "the same behind it"),
    ),
)


class ShapeBasis(Enum):
    """Basis of the time of work at another shape."""

    FITTED = "fitted"
    """From a line through the times of such work at several shapes in the trace."""
    SCALED = "scaled"
    """In proportion to FLOPs or bytes, beyond the overhead that the smallest ops have: the trace has too few shapes."""
    REPEATED = "repeated"
    """As much as one more, or one less, of what the trace repeats."""
    GIVEN = "given"
    """From the network that the change names."""
    UNCHANGED = "unchanged"
    """It does not depend on the shape."""


SHAPE_BASIS = Table(
    "shape_basis",
    "One row per change of a shape, class of work and basis: its time before and after; most time first.",
    (
        Column("change", _TEXT, "the change, in the grammar of `--change`"),
        Column(
            "what",
            _TEXT,
            "class of ops that have one rate, type of communication, or phase of a step",
        ),
        Column("basis", _TEXT, "what the new time rests on (`ShapeBasis`)"),
        Column("activities", _INT, "activities of that class"),
        Column("before_ns", _INT, "time that they work themselves, together"),
        Column("after_ns", _INT, "the same at the new shape"),
        Column("low_ns", _INT, "the same at least"),
        Column("high_ns", _INT, "the same at most"),
    ),
)

SHAPE_MEMORY = Table(
    "shape_memory",
    "One row per rank and device whose memory the trace shows: what is allocated at its peak, before and after changes "
    "of shape.",
    (
        Column("rank", _INT, "the rank"),
        Column("device", _TEXT, "device number; `cpu` for the memory of the host"),
        Column("before_bytes", _INT, "allocated at the peak, as in `memory_at_peak`"),
        Column("after_bytes", _INT, "the same at the new shape"),
        Column("low_bytes", _INT, "the same at least: allocations of unknown use may follow either size"),
        Column("high_bytes", _INT, "the same at most"),
    ),
)
