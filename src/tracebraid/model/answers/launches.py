"""Tables of answers about launches, copies, queues and waits."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.efficiency import DOUBTFUL, RANK, STEP, STEP_OF_LAUNCH
from tracebraid.model.column import Column, Kind, Table


class CopyKind(Enum):
    """Kind of memory operation."""

    COPY = "copy"
    FILL = "fill"


class Direction(Enum):
    """Source and destination memory of a copy: host, device, peer device, or array."""

    HOST_TO_DEVICE = "HtoD"
    DEVICE_TO_HOST = "DtoH"
    DEVICE_TO_DEVICE = "DtoD"
    PEER_TO_PEER = "PtoP"
    HOST_TO_HOST = "HtoH"
    HOST_TO_ARRAY = "HtoA"
    ARRAY_TO_HOST = "AtoH"
    ARRAY_TO_ARRAY = "AtoA"
    ARRAY_TO_DEVICE = "AtoD"
    DEVICE_TO_ARRAY = "DtoA"


class HostWait(Enum):
    """Wait of a copy's call, by the API's documented behaviour."""

    COMPLETE = "complete"
    STAGED = "staged"
    NONE = "none"


COPIES = Table(
    "copies",
    "One row per sort of copy or fill, the most device time first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("kind", Kind.TEXT, "`copy` or `fill`: see `CopyKind`"),
        Column("direction", Kind.TEXT, "`HtoD`, `DtoH`, ...: see `Direction`; null: a fill, or unknown"),
        Column(
            "source", Kind.TEXT, "memory that is read (`Pageable`, `Pinned`, `Device`, ...); null: unknown"
        ),
        Column("target", Kind.TEXT, "memory that is written; null: unknown"),
        Column(
            "pinned",
            Kind.BOOL,
            "whether the host's memory is pinned; null: no host memory, or the trace says not",
        ),
        Column("api", Kind.TEXT, "the call; null: no call is in the trace"),
        Column(
            "host_wait",
            Kind.TEXT,
            "wait of the call: `complete`, `staged` or `none`, see `HostWait`; null: no call or direction known",
        ),
        Column("op", Kind.TEXT, "innermost op or annotation that encloses the call; null: none"),
        Column("count", Kind.INT, "how often"),
        Column("awaited", Kind.INT, "those whose call returned only after they had ended"),
        Column("sized", Kind.INT, "those whose size is known"),
        Column("bytes", Kind.INT, "sum of these sizes; null: none is known"),
        Column(
            "mean_bytes", Kind.FLOAT, "mean of these sizes; null: none is known outside of doubtful steps"
        ),
        Column("total_ns", Kind.INT, "sum of durations"),
        Column(
            "bandwidth_bytes_per_s",
            Kind.FLOAT,
            "bytes by time of those with a size and a duration, doubtful steps left out (`copy_bandwidth` has the mean "
            "over its changes instead, not weighted by time); null: none",
        ),
        Column("max_bandwidth_bytes_per_s", Kind.FLOAT, "highest of a single one of these; null: none"),
        Column("kineto_bandwidth_bytes_per_s", Kind.FLOAT, "mean of Kineto's bandwidths; null: none"),
        Column("kineto_max_bandwidth_bytes_per_s", Kind.FLOAT, "highest of Kineto's bandwidths; null: none"),
        DOUBTFUL,
    ),
)

_NAME = Column("name", Kind.TEXT, "`Memcpy` and the direction, or `Memset`; else the event's name")

COPY_BANDWIDTH = Table(
    "copy_bandwidth",
    "One row per device and sort of copy: how much bandwidth the copies that run at a time have together.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("device", Kind.TEXT, "device"),
        _NAME,
        Column("count", Kind.INT, "changes of the bandwidth after which some copy runs"),
        Column(
            "mean_bytes_per_s",
            Kind.FLOAT,
            "mean over these, each the same however long it lasts: not bytes by time, as `copies` has it",
        ),
        Column("std_bytes_per_s", Kind.FLOAT, "standard deviation of a sample; null for a single change"),
        Column("min_bytes_per_s", Kind.FLOAT, "lowest of all"),
        Column("p25_bytes_per_s", Kind.FLOAT, "lower quartile"),
        Column("p50_bytes_per_s", Kind.FLOAT, "median"),
        Column("p75_bytes_per_s", Kind.FLOAT, "upper quartile"),
        Column("max_bytes_per_s", Kind.FLOAT, "highest of all"),
        DOUBTFUL,
    ),
)

COPY_BANDWIDTH_SERIES = Table(
    "copy_bandwidth_series",
    "One row per change of the bandwidth of a kind of copy, by device, kind and time; valid until the next row.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step in which the copy was launched; null: in none"),
        Column("device", Kind.TEXT, "device"),
        _NAME,
        Column("ts_ns", Kind.INT, "the moment"),
        Column("running", Kind.INT, "copies that run from then on"),
        Column("bytes_per_s", Kind.FLOAT, "sum of their bandwidths"),
        DOUBTFUL,
    ),
)


STEP_OF_EVENT = Column("step", Kind.TEXT, "the step in which the call lies; null: in none")
_OP = Column("op", Kind.TEXT, "innermost op or annotation that encloses the call; null: none")
_API = Column("api", Kind.TEXT, "the call's name; any that has device work, by its effect")


def _spread(prefix: str, what: str) -> tuple[Column, ...]:
    """Columns of a distribution of times."""
    left_out = "; null: only launches of doubtful steps"
    return (
        Column(f"{prefix}_ns", Kind.INT, f"{what}, sum of all"),
        Column(f"{prefix}_mean_ns", Kind.FLOAT, f"{what}, mean{left_out}"),
        Column(f"{prefix}_median_ns", Kind.FLOAT, f"{what}, median{left_out}"),
        Column(f"{prefix}_p95_ns", Kind.FLOAT, f"{what}, 95th percentile{left_out}"),
        Column(f"{prefix}_max_ns", Kind.INT, f"{what}, longest of all"),
    )


LAUNCH_EVENTS = Table(
    "launch_events",
    "One row per launch, in the order of their starts: a call of any API that has device work.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("call_event", Kind.INT, "the call: its row in `events`"),
        Column("correlation", Kind.INT, "joins the call to its device events; null: none in the trace"),
        _API,
        Column("op_event", Kind.INT, "innermost op or annotation that encloses the call; null: none"),
        Column("op", Kind.TEXT, "its name"),
        Column("start_ns", Kind.INT, "start of the call"),
        Column("host_ns", Kind.INT, "duration of the call"),
        Column("after_start_ns", Kind.INT, "from the call's start to the start of its first device event"),
        Column(
            "after_end_ns",
            Kind.INT,
            "from the call's end to the start of its first device event; below 0: it started during the call",
        ),
        Column("delay_ns", Kind.INT, "`after_end_ns`, but not below 0"),
        Column(
            "stream_idle_ns",
            Kind.INT,
            "how long the stream of the first device event had stood idle then; null: nothing ran on it before",
        ),
        Column("kernels", Kind.INT, "device events that it launched"),
        Column("device_ns", Kind.INT, "sum of their durations"),
        Column("device_span_ns", Kind.INT, "from the start of the first to the end of the last of them"),
        Column("device", Kind.TEXT, "device of the first of them"),
        Column("stream", Kind.TEXT, "stream of the first of them"),
        Column("streams", Kind.INT, "number of streams that they ran on"),
        DOUBTFUL,
    ),
)

LAUNCHES = Table(
    "launches",
    "One row per op and API, most host time first: host time of its launches, and their device work.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _OP,
        _API,
        Column("count", Kind.INT, "launches"),
        Column("kernels", Kind.INT, "device events of these"),
        *_spread("host", "duration of the call"),
        *_spread("delay", "from the call's end to its first device event, at least 0"),
        *_spread("device", "duration of the launch's device events"),
        Column("short", Kind.INT, "launches whose device events last less than their call"),
        DOUBTFUL,
    ),
)

LAUNCH_BOUND = Table(
    "launch_bound",
    "One row per stretch of a stream in which it ran dry before each launch, the most idle time first. "
    "device + idle = span, exactly.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("device", Kind.TEXT, "device"),
        Column("stream", Kind.TEXT, "stream"),
        Column("start_ns", Kind.INT, "start of the stretch's first device event"),
        Column("span_ns", Kind.INT, "from there to the end of the last of its device events"),
        Column("launches", Kind.INT, "calls that launched them"),
        Column("kernels", Kind.INT, "device events"),
        Column("device_ns", Kind.INT, "time in which any of them runs"),
        Column("idle_ns", Kind.INT, "time in which none of them runs"),
        Column(
            "gain_ns",
            Kind.INT,
            "idle time in which all other streams of the device were idle too: what a graph or fusion gains at most; "
            "stretches of two streams may hold the same time: do not add those up",
        ),
        Column("host_launch_ns", Kind.INT, "sum of the durations of these calls"),
        Column(
            "op", Kind.TEXT, "name of the innermost op with the most idle time before its work; null: none"
        ),
        Column(
            "annotation",
            Kind.TEXT,
            "innermost annotation around the launches with the most idle time, steps left out; null: none",
        ),
        DOUBTFUL,
    ),
)


class CounterMethod(Enum):
    """Method by which the launch of a counter range is known."""

    NAME = "name"
    POSITION = "position"


COUNTERS = Table(
    "counters",
    "One row per counter of each profiled kernel, in the order of the kernels.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("range_event", Kind.INT, "the `cuda_profiler_range` event: its row in `events`"),
        Column(
            "kernel", Kind.TEXT, "the kernel's name; null: neither the counters nor a device event have it"
        ),
        Column("call_event", Kind.INT, "the call that launched it; null: unknown"),
        Column("op_event", Kind.INT, "innermost op that encloses the call; null: none, or unknown"),
        Column("op", Kind.TEXT, "its name"),
        Column("top_op", Kind.TEXT, "outermost op that encloses the call; null: none, or unknown"),
        Column(
            "op_stack", Kind.TEXT, "the ops that enclose the call, outermost first, as JSON; null: unknown"
        ),
        Column("counter", Kind.TEXT, "the counter's name"),
        Column("value", Kind.FLOAT, "its value; null: it is no number"),
        Column("method", Kind.TEXT, "how the launch is known: see `CounterMethod`; null: it is unknown"),
        Column("confidence", Kind.FLOAT, "1.0 if names agree, 0.8 by position only; null: unknown"),
        DOUBTFUL,
    ),
)


_DEVICE = Column("device", Kind.TEXT, "device")
_STREAM = Column("stream", Kind.TEXT, "stream")
_AT_CHANGES = "over the moments at which the length changes"

QUEUE_LENGTHS = Table(
    "queue_lengths",
    "One row per stream: how many device events were launched and had not started.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _DEVICE,
        _STREAM,
        Column("count", Kind.INT, "changes of the length: two for each device event whose call is known"),
        Column("mean", Kind.FLOAT, f"mean length {_AT_CHANGES}"),
        Column("std", Kind.FLOAT, "standard deviation of these, of a sample; null for a single change"),
        Column("min", Kind.INT, "shortest of all"),
        Column("p25", Kind.FLOAT, f"lower quartile {_AT_CHANGES}"),
        Column("p50", Kind.FLOAT, f"median {_AT_CHANGES}"),
        Column("p75", Kind.FLOAT, f"upper quartile {_AT_CHANGES}"),
        Column("max", Kind.INT, "longest of all"),
        Column(
            "mean_over_time",
            Kind.FLOAT,
            "mean weighted by how long each length lasted; null: all changes at one moment",
        ),
        DOUBTFUL,
    ),
)

QUEUE_SERIES = Table(
    "queue_series",
    "One row per change of a stream's queue, by stream and time; the length holds until the next row of the stream.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step of the launch whose work is queued or starts; null: in none"),
        _DEVICE,
        _STREAM,
        Column("ts_ns", Kind.INT, "the moment"),
        Column("length", Kind.INT, "device events that were launched and have not started, from then on"),
        Column("launches", Kind.INT, "calls with a device event on the stream that has not started"),
        DOUBTFUL,
    ),
)

FULL_QUEUE = Table(
    "full_queue",
    "One row per stream with launches: the time that its queue was full, and the time that calls lost.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _DEVICE,
        _STREAM,
        Column("longest", Kind.INT, "most launches that waited at a time"),
        Column("full_ns", Kind.INT, "time in which at least `max_queue_length` launches waited"),
        Column(
            "share",
            Kind.FLOAT,
            "of the span of the trace or step, null if that has no length; above 1: launches waited beyond the step",
        ),
        Column("launches", Kind.INT, "launches that began while the queue was nearly full"),
        Column(
            "blocked", Kind.INT, "those of them that were slow, and returned after other work had started"
        ),
        Column("blocked_ns", Kind.INT, "time that these took beyond the usual duration of their API"),
        DOUBTFUL,
    ),
)


class SyncKind(Enum):
    """Kind of a call's wait."""

    DEVICE = "device"
    STREAM = "stream"
    EVENT = "event"
    COPY = "copy"
    ALLOCATION = "allocation"
    QUERY = "query"


class WaitMethod(Enum):
    """Method by which the work that a call waited for is known."""

    RECORDED = "recorded"
    LAUNCHED = "launched"
    EFFECT = "effect"
    INFERRED = "inferred"


_SYNCS_API = Column("api", Kind.TEXT, "the call's name")
_KIND = Column("kind", Kind.TEXT, "possible wait of the call: see `SyncKind`")
_SYNCS_OP = Column("op", Kind.TEXT, "innermost op that encloses the call; null: none")
_TOP_OP = Column("top_op", Kind.TEXT, "outermost op that encloses the call (`aten::item`); null: none")
_ANNOTATION = Column(
    "annotation", Kind.TEXT, "innermost annotation that encloses the call, steps left out; null: none"
)
_FRAME = Column(
    "frame",
    Kind.TEXT,
    "innermost Python function outside of torch that encloses the call, else innermost; null: no stacks",
)
_WAITED = (
    Column("waited_name", Kind.TEXT, "name of the device event that it waited for; null: none, or unknown"),
    Column("waited_device", Kind.TEXT, "its device"),
    Column("waited_stream", Kind.TEXT, "its stream"),
)

SYNC_CALLS = Table(
    "sync_calls",
    "One row per call that synchronises or may do so, in the order of their starts. blocked + other = host, exactly.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("call_event", Kind.INT, "the call: its row in `events`"),
        _SYNCS_API,
        _KIND,
        Column("op_event", Kind.INT, "innermost op that encloses the call; null: none"),
        _SYNCS_OP,
        _TOP_OP,
        _ANNOTATION,
        _FRAME,
        Column("start_ns", Kind.INT, "start of the call"),
        Column("host_ns", Kind.INT, "duration of the call"),
        Column("blocked_ns", Kind.INT, "time until the work that it waited for had ended; 0: there was none"),
        Column("other_ns", Kind.INT, "the rest of the call"),
        Column("waited_event", Kind.INT, "the device event that it waited for; null: none, or unknown"),
        *_WAITED,
        Column(
            "method", Kind.TEXT, "how that is known: see `WaitMethod`; null: nothing to wait for is known"
        ),
        Column(
            "confidence", Kind.FLOAT, "1.0 recorded or launched, 0.8 by effect, 0.5 inferred; null: no method"
        ),
        DOUBTFUL,
    ),
)

SYNCS = Table(
    "syncs",
    "One row per call name, caller and awaited work, most host time first.",
    (
        RANK,
        STEP,
        _SYNCS_API,
        _KIND,
        _SYNCS_OP,
        _TOP_OP,
        _ANNOTATION,
        _FRAME,
        *_WAITED,
        Column("count", Kind.INT, "calls"),
        Column("waits", Kind.INT, "calls that were blocked"),
        Column("host_ns", Kind.INT, "sum of their durations"),
        Column("blocked_ns", Kind.INT, "sum of the time in which they were blocked"),
        Column("mean_ns", Kind.FLOAT, "mean duration; null: only calls in doubtful steps"),
        Column("max_ns", Kind.INT, "longest of all"),
        Column("confidence", Kind.FLOAT, "lowest confidence of their awaited work; null: unknown"),
        DOUBTFUL,
    ),
)


_INT = Kind.INT
_FLOAT = Kind.FLOAT
_TEXT = Kind.TEXT


class Launcher(Enum):
    """Launcher of device work; the first that applies counts."""

    GRAPH = "graph"
    OP = "op"
    ANNOTATION = "annotation"
    CALL = "call"
    UNKNOWN = "unknown"


_KERNELS_KIND = Column("kind", _TEXT, "compute, communication, memory or wait")
_KERNELS_NAME = Column("name", _TEXT, "name of the kernel or copy")
_FAMILY = Column("family", _TEXT, "a code of `KernelFamily`, such as `gemm`")
_COUNT = Column("count", _INT, "how often it ran")
_TOTAL = Column("total_ns", _INT, "sum of its durations")
_MEAN = Column(
    "mean_ns", _FLOAT, "mean duration, without doubtful steps unless requested; null: it ran in no others"
)
_MIN = Column("min_ns", _INT, "shortest")
_MAX = Column("max_ns", _INT, "longest")
_STD = Column(
    "std_ns", _FLOAT, "standard deviation of the sample (divided by count - 1); null for fewer than two"
)
_SHARE = Column("share", _FLOAT, "of the sum of all device events' durations, 0 to 1")

KERNELS = Table(
    "kernels",
    "One row per kind and name of device event, the longest in total first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _KERNELS_KIND,
        Column("family", _TEXT, "a code of `KernelFamily`: that in which it spent most of its time"),
        _KERNELS_NAME,
        _COUNT,
        _TOTAL,
        _MEAN,
        Column("median_ns", _FLOAT, "median duration; what counts and null as in `mean_ns`"),
        Column("p95_ns", _FLOAT, "95th percentile, interpolated; what counts and null as in `mean_ns`"),
        _MIN,
        _MAX,
        _STD,
        _SHARE,
        DOUBTFUL,
    ),
)

KERNEL_FAMILIES = Table(
    "kernel_families",
    "One row per family of kernels, the longest in total first. The rows of a step add up to its device time.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _FAMILY,
        Column("names", _INT, "different names of kernels"),
        Column("count", _INT, "how often they ran"),
        Column("total_ns", _INT, "sum of their durations"),
        Column("by_op_ns", _INT, "part of that whose family the launching op decided"),
        Column("by_name_ns", _INT, "part of that whose family the kernel's name decided"),
        _MEAN,
        _SHARE,
        DOUBTFUL,
    ),
)

KERNELS_BY_OP = Table(
    "kernels_by_op",
    "One row per launching op, kind, family and name of device event, the longest in total first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("op", _TEXT, "innermost op that launched it, else annotation; null: none is known"),
        Column("op_category", _TEXT, "`cpu_op` or `user_annotation`; null without an op"),
        _KERNELS_KIND,
        _FAMILY,
        Column("family_by", _TEXT, "basis of the family: `kind`, `op` or `name`; null: none"),
        _KERNELS_NAME,
        _COUNT,
        _TOTAL,
        _MEAN,
        _MIN,
        _MAX,
        _STD,
        _SHARE,
        DOUBTFUL,
    ),
)

SHORT_KERNELS = Table(
    "short_kernels",
    "One row per name of computing kernel with runs below the threshold; those with the most time around them first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _FAMILY,
        _KERNELS_NAME,
        Column("count", _INT, "its runs that are shorter than the threshold"),
        Column("count_of_all", _INT, "all its runs"),
        Column("total_ns", _INT, "sum of the durations of the short runs"),
        Column("mean_ns", _FLOAT, "their mean, without doubtful steps unless requested; null: none is left"),
        _SHARE,
        Column(
            "gap_before_ns",
            _INT,
            "time in which their streams were empty before them; 0 if nothing ran earlier",
        ),
        Column("gap_after_ns", _INT, "the same after them; counts again as `gap_before_ns` of the next"),
        DOUBTFUL,
    ),
)

KERNEL_DURATIONS = Table(
    "kernel_durations",
    "One row per bin of durations that has kernels, the shortest first. Bins begin at 1, 2 and 5 of each decade.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("from_ns", _INT, "shortest duration of the bin"),
        Column("below_ns", _INT, "durations of the bin are less than this"),
        Column("count", _INT, "kernels whose duration lies in the bin"),
        Column("total_ns", _INT, "sum of their durations"),
        Column("share_of_count", _FLOAT, "of all kernels, 0 to 1"),
        Column("share", _FLOAT, "of the sum of all kernels' durations, 0 to 1"),
        DOUBTFUL,
    ),
)

KERNEL_PACE = Table(
    "kernel_pace",
    "One row per stream and name of kernel that ran there at least twice: distances from start to start.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("device", _TEXT, "device number"),
        Column("stream", _TEXT, "stream, as its lane is called in the file"),
        _FAMILY,
        _KERNELS_NAME,
        Column("count", _INT, "distances: its runs less one"),
        Column("mean_ns", _FLOAT, "mean distance"),
        Column("median_ns", _FLOAT, "median distance"),
        Column("p95_ns", _FLOAT, "95th percentile, interpolated"),
        Column("min_ns", _INT, "shortest distance"),
        Column("max_ns", _INT, "longest distance"),
        Column("std_ns", _FLOAT, "standard deviation of the sample; null for a single distance"),
        DOUBTFUL,
    ),
)

LAUNCHERS = Table(
    "launchers",
    "One row per kind of launcher: how much of the device's time it launched. The rows of a step add up to it.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("launcher", _TEXT, "`graph`, `op`, `annotation`, `call` or `unknown`: see `Launcher`"),
        Column("kernels", _INT, "device events that it launched"),
        Column("device_ns", _INT, "sum of their durations"),
        Column("share", _FLOAT, "of the sum of all device events' durations, 0 to 1"),
        DOUBTFUL,
    ),
)
