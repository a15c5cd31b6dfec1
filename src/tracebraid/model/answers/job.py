"""Tables of answers about whole jobs."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers import RANK, STEP
from tracebraid.model.column import Column, Kind, Table


class SavingBasis(Enum):
    """Basis of a saving."""

    REPLAY = "replay"
    """The dependency graph, replayed without the occurrences."""
    ACCOUNTING = "accounting"
    """The step time that the occurrences cover: the graph cannot predict the effect of the change."""


_STEP = Column("step", Kind.TEXT, "the step in which it is; null: in none")
_WHERE = (
    Column("op", Kind.TEXT, "the op or other host event; null: unknown"),
    Column("shapes", Kind.TEXT, "shapes of its inputs, as the trace has them; null: unknown"),
    Column("call_site", Kind.TEXT, "Python line of the user's program; null: no stack is in the trace"),
    Column(
        "subject",
        Kind.TEXT,
        "further distinction: the kernel, the group, the copy's kind; or null",
    ),
)
_OCCURRENCE = (
    RANK,
    _STEP,
    Column("start_ns", Kind.INT, "from here"),
    Column("end_ns", Kind.INT, "to here the step could be shorter without it"),
    Column(
        "saving_ns",
        Kind.INT,
        "maximum saving in that time; never more than its length",
    ),
    Column("event_id", Kind.INT, "the event that shows it best; null: none does"),
    *_WHERE,
)

EVIDENCE = Table(
    "evidence", "One row per occurrence of an anti-pattern in a rank, in the order of starts.", _OCCURRENCE
)

_ITEM = Column("item", Kind.INT, "number of the advice, from 1, by saving")
_DETECTOR = Column("detector", Kind.TEXT, "the detector's code (`tracebraid.detectors`)")
_SAVING = Column("saving_ns", Kind.INT, "upper end of the saving")
_FURTHER = Column("further_ns", Kind.INT, "the saving beyond earlier items: these add up to at most the step")

ADVICE = Table(
    "advice",
    "One row per advice: a cause that a detector found, at all of its places; largest saving first.",
    (
        _ITEM,
        _DETECTOR,
        *_WHERE,
        Column("ranks", Kind.INTS, "ranks on which it is"),
        Column("count", Kind.INT, "occurrences, on all ranks"),
        Column(
            "sites", Kind.INT, "different ops, shapes, lines and subjects; the one that saves most is named"
        ),
        Column("steps", Kind.INT, "steps in which it is; 0: the trace has none"),
        Column("saving_ns", Kind.INT, "saving over all steps, without the profiler's own cost"),
        Column("saving_per_step_ns", Kind.FLOAT, "that by the number of all steps"),
        Column("saving_low_per_step_ns", Kind.FLOAT, "lower end of its interval"),
        Column("saving_high_per_step_ns", Kind.FLOAT, "upper end of its interval"),
        Column("share", Kind.FLOAT, "of saving_ns, by the time of all steps without the profiler; 0 to 1"),
        Column("basis", Kind.TEXT, "basis of the saving (`SavingBasis`)"),
        Column(
            "bound_per_step_ns",
            Kind.FLOAT,
            "the time that its occurrences cover: of each step on the rank with the most, by the number of steps",
        ),
        _FURTHER,
        Column("further_per_step_ns", Kind.FLOAT, "that by the number of all steps"),
        Column("under", Kind.INT, "the item of which it is a part, as they cover the same time; null: none"),
    ),
)

ADVICE_SITES = Table(
    "advice_sites",
    "One row per advice, op, shapes, line and subject; those that cover the most time first.",
    (
        _ITEM,
        _DETECTOR,
        *_WHERE,
        Column("count", Kind.INT, "occurrences, on all ranks"),
        Column("covered_ns", Kind.INT, "the time that they cover, on all ranks"),
    ),
)

ADVICE_BY_STEP = Table(
    "advice_by_step",
    "One row per advice, rank and step in which it is, in the order of advice, ranks and time.",
    (
        _ITEM,
        _DETECTOR,
        RANK,
        _STEP,
        Column("count", Kind.INT, "occurrences"),
        _SAVING,
        _FURTHER,
        Column("step_ns", Kind.INT, "the step's length; without steps the trace's"),
    ),
)

ADVICE_EVIDENCE = Table(
    "advice_evidence",
    "One row per occurrence of an advice that is shown for it, the worst of each first.",
    (_ITEM, _DETECTOR, *_OCCURRENCE),
)


_INT = Kind.INT
_FLOAT = Kind.FLOAT
_BOOL = Kind.BOOL
_TEXT = Kind.TEXT
_INTS = Kind.INTS

_RANK = Column("rank", _INT, "the rank")
_COLLECTIVE = Column(
    "collective", _INT, "its row in `matched_collectives`; null: a member that matches no other"
)
_COLLECTIVES_STEP = Column(
    "step", _TEXT, "the step in which it was issued, as its lowest rank says; null: in none"
)
_GROUP = Column(
    "group", _TEXT, "the group, the same for all ranks; of a member that matches no other, as it names it"
)
_DESCRIPTION = Column("description", _TEXT, "description of the process group; null: unknown")
_TYPE = Column("type", _TEXT, "type of communication (`CollectiveType`); null: unknown")
_NAME = Column("name", _TEXT, "as the trace of its lowest rank names it")
_DTYPE = Column("dtype", _TEXT, "element type; null: unknown, or members differ")
_GROUP_SIZE = Column("group_size", _INT, "ranks of the group; null: unknown")
_SIZE = Column("size_bytes", _INT, "the size that nccl-tests' formula takes; null: unknown")
_LIBRARY = Column("library", _TEXT, "whose it is (NCCL, RCCL, gloo, ...); null: unknown")
_ALGORITHM = Column("algorithm", _TEXT, "NCCL's algorithm; null: no kernel's name says it")
_PROTOCOL = Column("protocol", _TEXT, "NCCL's protocol; null: no kernel's name says it")
_TRANSFER_METHOD = Column(
    "transfer_method",
    _TEXT,
    "method of separating transfer from waiting (`TransferMethod`), the same for all members",
)
_IS_BOUND = Column(
    "is_bound",
    _BOOL,
    "a rank is not there that may have come later: the transfer is an upper bound; null: unknown whether all are",
)
_WIDTH = Column("clock_width_ns", _INT, "uncertainty of the members' clock offsets; null: unknown")
_ALGORITHM_RATE = Column(
    "algorithm_bytes_per_s",
    _FLOAT,
    "size / transfer; null: the size is unknown, or the transfer takes no time",
)
_BUS_RATE = Column(
    "bus_bytes_per_s",
    _FLOAT,
    "the same times nccl-tests' factor; null: as there, or the group's size is unknown",
)

COLLECTIVES = Table(
    "collectives",
    "One row per collective, or member that matches no other, in the order of first arrivals.",
    (
        _COLLECTIVE,
        _COLLECTIVES_STEP,
        _GROUP,
        _DESCRIPTION,
        Column("sequence", _INT, "number in its group, as the traces say; null: they do not"),
        _TYPE,
        _NAME,
        _DTYPE,
        _GROUP_SIZE,
        Column("ranks", _INTS, "ranks with a known member"),
        Column("missing", _INTS, "ranks without; null: the group's ranks are unknown"),
        Column("in_bytes", _INT, "bytes sent by a rank, the maximum of all; null: unknown"),
        Column("out_bytes", _INT, "bytes received by a rank, the maximum of all; null: unknown"),
        _SIZE,
        _LIBRARY,
        _ALGORITHM,
        _PROTOCOL,
        Column("first_arrival_ns", _INT, "start of the first member, on aligned clocks"),
        Column("last_arrival_ns", _INT, "start of the last member"),
        Column("end_ns", _INT, "end of the last member"),
        Column("last_rank", _INT, "the last to arrive, by `transfer_method`; null: a single known member"),
        Column("transfer_ns", _INT, "time of the transfer; null: a send or receive that meets no other"),
        Column("waiting_ns", _INT, "waiting of all members together; null: unknown"),
        Column(
            "rest_ns", _INT, "time of members that only send until a receiver has arrived, together; as there"
        ),
        _TRANSFER_METHOD,
        _IS_BOUND,
        _WIDTH,
        Column("method", _TEXT, "how the members were matched (`MatchMethod`); null: they are not"),
        Column("confidence", _FLOAT, "how sure that is, 0 to 1"),
        Column("agrees", _BOOL, "whether type, size and dtype agree between the members"),
        _ALGORITHM_RATE,
        _BUS_RATE,
    ),
)

COLLECTIVE_RANKS = Table(
    "collective_ranks",
    "One row per member of a collective, by rank and arrival: `waiting_ns` (null as 0), `transfer_ns` and `rest_ns` "
    "add up to `dur_ns`, exactly. All three are null of a send or receive that meets no other.",
    (
        _RANK,
        Column("step", _TEXT, "the step in which it was issued; null: in none"),
        _COLLECTIVE,
        _GROUP,
        _TYPE,
        Column("name", _TEXT, "as the trace names it"),
        Column("event_id", _INT, "its row in `events` of the rank's timeline"),
        Column("device", _TEXT, "device on which it runs; `cpu` on the host"),
        Column("stream", _TEXT, "stream, or thread, on which it runs"),
        Column("arrival_ns", _INT, "start, on aligned clocks"),
        Column("late_by_ns", _INT, "arrival after the first"),
        Column(
            "waiting_ns",
            _INT,
            "until the last sender has arrived; null: none is known; a lower bound if `is_bound`",
        ),
        Column("waited_for", _INT, "that rank; null: it did not wait, or the rank is unknown"),
        Column("transfer_ns", _INT, "the transfer, until its own end"),
        Column("rest_ns", _INT, "of a member that only sends, until the first receiver has arrived"),
        Column("dur_ns", _INT, "its duration"),
        Column("end_ns", _INT, "end, on aligned clocks"),
        Column("issued_ns", _INT, "start of the host's call that issued it; null: unknown"),
        Column("in_bytes", _INT, "bytes that this rank sends; null: unknown"),
        Column("out_bytes", _INT, "bytes that this rank receives; null: unknown"),
        _TRANSFER_METHOD,
        _IS_BOUND,
        _WIDTH,
    ),
)

COLLECTIVE_BANDWIDTH = Table(
    "collective_bandwidth",
    "One row per group, type, dtype, size, library, algorithm and protocol; most time first.",
    (
        STEP,
        _GROUP,
        _DESCRIPTION,
        _TYPE,
        _DTYPE,
        _GROUP_SIZE,
        _SIZE,
        _LIBRARY,
        _ALGORITHM,
        _PROTOCOL,
        Column("count", _INT, "collectives"),
        Column("bounds", _INT, "those of them whose transfer is, or may be, an upper bound"),
        Column("transfer_ns", _INT, "time of their transfers together, as far as it is known; null: of none"),
        Column("transfer_mean_ns", _FLOAT, "mean transfer"),
        Column("transfer_median_ns", _FLOAT, "median transfer"),
        Column("transfer_p95_ns", _FLOAT, "95th percentile of the transfers"),
        Column("transfer_min_ns", _INT, "shortest transfer"),
        Column("transfer_max_ns", _INT, "longest transfer"),
        Column("transfer_std_ns", _FLOAT, "standard deviation, of a sample; null for a single one"),
        Column(
            "algorithm_bytes_per_s",
            _FLOAT,
            "size / median transfer; null: the size is unknown, or the transfer takes no time",
        ),
        _BUS_RATE,
        Column("peak_share", _FLOAT, "bus bandwidth / `peak_bandwidth`; null: either is unknown"),
        Column(
            "waiting_share",
            _FLOAT,
            "waiting of members / durations, if known; null: unknown, or they take no time",
        ),
    ),
)

COLLECTIVE_IMBALANCE = Table(
    "collective_imbalance",
    "One row per all-to-all with known sizes, over known members, most bytes beyond the mean first.",
    (
        _COLLECTIVE,
        _COLLECTIVES_STEP,
        _GROUP,
        _DTYPE,
        _GROUP_SIZE,
        Column("ranks", _INTS, "ranks with a known member"),
        Column("is_uneven", _BOOL, "some member says how much goes to, or comes from, each rank"),
        Column("received_max_bytes", _INT, "maximum that a rank receives from known members"),
        Column("received_mean_bytes", _FLOAT, "mean over all ranks of the group"),
        Column("received_imbalance", _FLOAT, "most / mean; null: nothing is sent, or sizes are unknown"),
        Column("received_most", _INT, "the rank that gets the most; null: sizes or ranks are unknown"),
        Column("sent_max_bytes", _INT, "maximum that a rank sends to known members"),
        Column("sent_mean_bytes", _FLOAT, "mean over all ranks of the group"),
        Column("sent_imbalance", _FLOAT, "most / mean; null: nothing is sent, or sizes are unknown"),
        Column("sent_most", _INT, "the rank that gives the most; null: sizes or ranks are unknown"),
        Column("transfer_ns", _INT, "time of the transfer; see `collectives`"),
    ),
)


class HangState(Enum):
    """What a rank did with communication that never ended."""

    WAITS = "waits"
    """It issued it, and waited until it gave up, or the recording stopped."""
    NOT_ISSUED = "not-issued"
    """It did not issue it while it was recorded."""
    ENDED = "ended"
    """It ended there."""
    NOT_IN_TRACES = "not-in-traces"
    """The rank is not in the traces."""


HANGS = Table(
    "hangs",
    "One row per communication that never ended and rank that it needs; those that wait for it first.",
    (
        _COLLECTIVES_STEP,
        _GROUP,
        _DESCRIPTION,
        _TYPE,
        Column("sequence", _INT, "number in its group, as the traces say; null: they do not"),
        Column("rank", _INT, "a rank that it needs"),
        Column("state", _TEXT, "what it did: a code of `HangState`"),
        Column("issued_ns", _INT, "when it issued it, on aligned clocks; null: it did not"),
        Column(
            "waited_ns", _INT, "from then until it gave up or the recording stopped; null: it did not wait"
        ),
        Column("last_sequence", _INT, "number of the last that ended on it in the group; null: unknown"),
        Column("last_event", _TEXT, "the last op or call that its host began; null: none is in its trace"),
        Column("end_ns", _INT, "end of its trace, on aligned clocks; null: it has none"),
        Column(
            "event_id", _INT, "the op or event that waits, in the trace of the rank; null: it does not wait"
        ),
    ),
)

COLLECTIVE_FIT = Table(
    "collective_fit",
    "One row per group, type and library: time = alpha + bytes / beta, fitted to the transfers; by group and type.",
    (
        _GROUP,
        _DESCRIPTION,
        _TYPE,
        _GROUP_SIZE,
        _LIBRARY,
        Column("count", _INT, "fitted collectives, those of known size"),
        Column("sizes", _INT, "different sizes among them; the rest is null for fewer than 2"),
        Column("is_bound", _BOOL, "some transfer is, or may be, an upper bound: too few sizes have others"),
        Column("alpha_ns", _FLOAT, "time that does not depend on the size, not below 0"),
        Column("alpha_low_ns", _FLOAT, "lower end of its 95 % interval; null: fewer than 3 collectives"),
        Column("alpha_high_ns", _FLOAT, "upper end of it"),
        Column("beta_bytes_per_s", _FLOAT, "bandwidth; null: the time does not grow with the size"),
        Column("beta_low_bytes_per_s", _FLOAT, "lower end of its 95 % interval; null: as there"),
        Column("beta_high_bytes_per_s", _FLOAT, "upper end of it; null: as there, or there is none"),
        Column("error_share", _FLOAT, "median distance of a transfer from the fit / the fit"),
        Column(
            "r_squared",
            _FLOAT,
            "share of the transfers' variance that the fit explains, below 0: none; null: they do not vary",
        ),
    ),
)

COLLECTIVE_TOTALS = Table(
    "collective_totals",
    "One row per rank and group, by rank; sums over the rank's members. Members of several streams may run at once.",
    (
        _RANK,
        STEP,
        _GROUP,
        _DESCRIPTION,
        Column("count", _INT, "its members"),
        Column("dur_ns", _INT, "their durations"),
        Column(
            "transfer_ns",
            _INT,
            "transfer, as far as it is known, an upper bound where `bounds` is not 0; null: of none",
        ),
        Column("waiting_ns", _INT, "waiting for other ranks, as far as it is known; null: of no member"),
        Column("rest_ns", _INT, "time of members that only send until a receiver has arrived; null: of none"),
        Column("bounds", _INT, "members whose transfer is, or may be, an upper bound"),
        Column("caused_ns", _INT, "waiting of other ranks for this one; null: no member meets another"),
        Column("times_last", _INT, "collectives at which others waited for it; null: as there"),
        Column(
            "waiting_share",
            _FLOAT,
            "waiting / durations of members with known waiting; null: none, or they take no time",
        ),
    ),
)


class DiffPart(Enum):
    """A part of a step; all parts of a step add up to it."""

    COMPUTE = "compute"
    EXPOSED_COMMUNICATION = "exposed-communication"
    EXPOSED_MEMORY = "exposed-memory"
    IDLE = "idle"
    REST = "rest"
    """Time that no event explains, for example because events are damaged."""


class DiffChange(Enum):
    """Change of an op or a kernel from the first run to the second; the first that applies counts."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    """Another kernel under the same op."""
    SHAPES = "shapes"
    TYPES = "types"
    DEVICE = "device"
    """It launches kernels in one run and none in the other."""
    MOVED = "moved"
    """It is called elsewhere in the tree."""
    COUNT = "count"
    """It runs more or less often in a step: no step of one run has a count of the other."""
    SAME = "same"


class DiffSetting(Enum):
    """Setting of a run."""

    PATH = "path"
    RANKS = "ranks"
    WORLD_SIZE = "world_size"
    DEVICES = "devices"
    TORCH = "torch"
    DRIVER = "driver"
    STEPS = "steps"
    RECORD_SHAPES = "record_shapes"
    WITH_STACK = "with_stack"
    PROFILE_MEMORY = "profile_memory"
    WITH_MODULES = "with_modules"
    HOST_EVENTS = "host_events"
    """Host events in a step and rank: each costs the host about a microsecond."""
    OVERHEAD = "overhead_ns"
    """Time of the profiler's own events (`overhead`) in a step and rank: flushing and requesting buffers."""
    HOST_LATE = "host_late"
    """Share of the step in which the device is idle because the host is late."""


class LeftOut(Enum):
    """Reason why a step does not count in a comparison."""

    NOT_ON_ALL_RANKS = "not-on-all-ranks"
    WARM_UP = "warm-up"
    DOUBTFUL = "doubtful"
    """`validity` doubts its figures on some rank."""


_SHIFT = (
    Column(
        "shift_ns",
        Kind.FLOAT,
        "estimate of the difference of a typical step (Hodges and Lehmann): the median of all differences of pairs; "
        "of several captures the difference of the means of their medians; null: it is in one run only, or no sample",
    ),
    Column(
        "low_ns",
        Kind.FLOAT,
        "lower end of its interval of 99.73 %, of several captures 98 %; null: there are too few steps or captures",
    ),
    Column("high_ns", Kind.FLOAT, "upper end of its interval"),
)
_CHANCE = "probability of chance (Mann and Whitney; of several captures Welch)"
_IS_SIGNIFICANT = "whether `p` is at most 0.27 %, of several captures 2 %; null: not tested"
_CORRECTED = (
    *_SHIFT,
    Column("p", Kind.FLOAT, f"{_CHANCE}, corrected by Holm; null: not tested"),
    Column("significant", Kind.BOOL, _IS_SIGNIFICANT),
)
_MEANS = (
    Column("a_ns", Kind.INT, "mean for each step and rank of the first run"),
    Column("b_ns", Kind.INT, "the same of the second run"),
    Column("difference_ns", Kind.INT, "b - a"),
)
_COUNTS = (
    Column("count_a", Kind.FLOAT, "how often, for each step and rank of the first run"),
    Column("count_b", Kind.FLOAT, "the same of the second run"),
)
_IRREGULAR = Column("irregular", Kind.BOOL, "it is in some steps of a run, and not in others")

DIFF_STEPS = Table(
    "diff_steps",
    "One row over all ranks that are compared, then one for each of them.",
    (
        Column("rank", Kind.INT, "the rank; null: mean over all"),
        Column("steps_a", Kind.INT, "steps of the first run that are counted"),
        Column("steps_b", Kind.INT, "the same of the second run"),
        Column("left_out_a", Kind.INT, "steps that are not counted, see `diff_left_out`"),
        Column("left_out_b", Kind.INT, "the same of the second run"),
        Column(
            "captures_a", Kind.INT, "captures of the first run that have steps or are a sample as a whole"
        ),
        Column("captures_b", Kind.INT, "the same of the second run"),
        *_MEANS,
        Column("difference_share", Kind.FLOAT, "difference / a; null: a is 0"),
        Column(
            "median_a_ns",
            Kind.FLOAT,
            "median of the first run's steps; of several captures the mean of their medians",
        ),
        Column("median_b_ns", Kind.FLOAT, "the same of the second run"),
        Column(
            "spread_share",
            Kind.FLOAT,
            "standard deviation of the medians of captures of one run / median_a; null: one capture of each",
        ),
        *_SHIFT,
        Column("shift_share", Kind.FLOAT, "shift / median_a; null: that is 0"),
        Column("p", Kind.FLOAT, f"{_CHANCE}, for this row only; null: not tested"),
        Column("significant", Kind.BOOL, _IS_SIGNIFICANT),
        Column(
            "autocorrelation_a",
            Kind.FLOAT,
            "rank correlation of each step of the first run with the next; 0: none; null: of several captures",
        ),
        Column("autocorrelation_b", Kind.FLOAT, "the same of the second run"),
        Column(
            "effective_steps",
            Kind.FLOAT,
            "effective number of independent steps of both runs; null: of several captures",
        ),
    ),
)

_RUN = Column("run", Kind.TEXT, "`a` or `b`")
_CAPTURE = Column("capture", Kind.INT, "the capture of that run, from 1")

DIFF_CAPTURES = Table(
    "diff_captures",
    "One row per capture, those of the first run first.",
    (
        _RUN,
        _CAPTURE,
        Column("path", Kind.TEXT, "its trace, of several ranks that of the first; null: unknown"),
        Column("steps", Kind.INT, "steps that are counted"),
        Column("left_out", Kind.INT, "steps that are not counted"),
        Column("median_ns", Kind.FLOAT, "median of its steps, mean of the ranks; null: no step counts"),
        Column("doubtful", Kind.BOOL, "all its steps are warm-up or doubtful, and count for want of others"),
    ),
)

DIFF_LEFT_OUT = Table(
    "diff_left_out",
    "One row per step that is not counted.",
    (
        _RUN,
        _CAPTURE,
        Column("step", Kind.TEXT, "the step"),
        Column("reason", Kind.TEXT, "a code of `LeftOut`"),
        Column("doubt", Kind.TEXT, "the first doubt about it, a code of `Gap`; null: none"),
    ),
)

DIFF_PARTS = Table(
    "diff_parts",
    "One row per part of the step, largest difference first. `a_ns`, `b_ns` and `difference_ns` add up to those of "
    "the first row of `diff_steps`, exactly.",
    (
        Column("part", Kind.TEXT, "a code of `DiffPart`"),
        Column("op", Kind.TEXT, "the op that launched it, on the host the innermost op; null: none known"),
        Column("path", Kind.TEXT, "call site: annotations and ops, outermost first"),
        Column("module", Kind.TEXT, "nn.Module; null: none known in both runs"),
        Column("cause", Kind.TEXT, "of idle time a code of `IdleCause`"),
        Column("host_activity", Kind.TEXT, "of idle time a code of `HostActivity`"),
        *_MEANS,
        *_CORRECTED,
    ),
)

DIFF_OPS = Table(
    "diff_ops",
    "One row per op or annotation at one position of the tree, in one or both runs; largest difference first.",
    (
        Column("change", Kind.TEXT, "a code of `DiffChange`"),
        Column("matched_by", Kind.TEXT, "a code of `MatchedBy`; null: it is in one run only"),
        Column("name", Kind.TEXT, "its name"),
        Column("category", Kind.TEXT, "Kineto's category: `cpu_op` or `user_annotation`"),
        Column("path_a", Kind.TEXT, "call site in the first run; null: none"),
        Column("path_b", Kind.TEXT, "call site in the second run; null: none"),
        Column("module_a", Kind.TEXT, "nn.Module; null: none, or modules are not known in both runs"),
        Column("module_b", Kind.TEXT, "the same of the second run"),
        Column("input_dims_a", Kind.TEXT, "shapes, JSON; null: none, or they are not recorded in both runs"),
        Column("input_dims_b", Kind.TEXT, "the same of the second run"),
        Column("input_types_a", Kind.TEXT, "types, JSON; null as shapes"),
        Column("input_types_b", Kind.TEXT, "the same of the second run"),
        Column("outermost", Kind.BOOL, "the op around it has not the same change"),
        _IRREGULAR,
        *_COUNTS,
        Column("kernels_a", Kind.FLOAT, "device events that it launched itself, for each step and rank"),
        Column("kernels_b", Kind.FLOAT, "the same of the second run"),
        Column("host_a_ns", Kind.INT, "its own time on the host, mean for each step and rank"),
        Column("host_b_ns", Kind.INT, "the same of the second run"),
        Column("device_a_ns", Kind.INT, "duration of its own launches, mean for each step and rank"),
        Column("device_b_ns", Kind.INT, "the same of the second run"),
        Column(
            "difference_ns",
            Kind.INT,
            "b - a, of device times; host times without device work",
        ),
        *_CORRECTED,
    ),
)

DIFF_KERNELS = Table(
    "diff_kernels",
    "One row per kernel, copy or fill under one op, in one or both runs; largest difference first.",
    (
        Column("change", Kind.TEXT, "a code of `DiffChange`"),
        Column("op", Kind.TEXT, "the op that launched it; null: none known"),
        Column("path", Kind.TEXT, "its call site"),
        Column("module", Kind.TEXT, "nn.Module of the op; null: none known in both runs"),
        Column("kind", Kind.TEXT, "compute, communication or memory"),
        Column("kernel_a", Kind.TEXT, "its name in the first run; null: it is not there"),
        Column("kernel_b", Kind.TEXT, "its name in the second run; null: it is not there"),
        _IRREGULAR,
        *_COUNTS,
        *_MEANS,
        *_CORRECTED,
    ),
)

DIFF_SETTINGS = Table(
    "diff_settings",
    "One row per setting, in the order of `DiffSetting`.",
    (
        Column("setting", Kind.TEXT, "a code of `DiffSetting`"),
        Column("a", Kind.TEXT, "the first run's; null: unknown"),
        Column("b", Kind.TEXT, "the second run's; null: unknown"),
        Column("differs", Kind.BOOL, "both are known, and differ"),
    ),
)


class MetricLack(Enum):
    """Reason why a metric has no value although the traces meet its needs."""

    DOUBTFUL_STEPS = "doubtful-steps"
    """`validity` doubts every step."""
    NOTHING_TO_MEASURE = "nothing-to-measure"
    """The steps contain no data for it, or its formula divides by 0."""
    SIZES_UNKNOWN = "sizes-unknown"
    """The trace does not state the size of some collective."""
    RANKS_MISSING = "ranks-missing"
    """No collective has its size and all its ranks: without these, waiting looks like transfer."""
    PEAK_NOT_STATED = "peak-not-stated"
    """No peak bandwidth of the network was given, or no bandwidth is known."""
    METRIC_FAILED = "metric-failed"
    """A user's metric raised an exception, or returned no number."""


METRICS = Table(
    "metrics",
    "One row per metric over all ranks, followed by the rows of each rank, in the order of metrics and ranks.",
    (
        Column("metric", Kind.TEXT, "its name"),
        Column("rank", Kind.INT, "the rank; null: all ranks together"),
        Column("value", Kind.FLOAT, "its value; null: see `lacks`"),
        Column("unit", Kind.TEXT, "unit of the value, a code of `Unit` or a user's own"),
        Column(
            "low",
            Kind.FLOAT,
            "lower end of the 95 % interval, with steps as a sample; null: too few, or not a sample",
        ),
        Column("high", Kind.FLOAT, "upper end of that interval"),
        Column("steps", Kind.INT, "number of steps of the value; 0: the whole trace; null: not about steps"),
        Column("ranks", Kind.INT, "number of ranks of the value"),
        Column("lacks", Kind.TEXT, "why there is no value: a value of `Need` or of `MetricLack`"),
    ),
)


class LateCause(Enum):
    """Cause of a rank's lateness at a collective."""

    LONGER_KERNEL = "longer-kernel"
    """A kernel, copy or fill took longer."""
    MORE_KERNELS = "more-kernels"
    """It ran more of them, or different ones."""
    LONGER_HOST_OP = "longer-host-op"
    """An op or call of the host took longer, was called more often, or only here."""
    HOST_WITHOUT_EVENTS = "host-without-events"
    """The host was outside recorded events: it slept, was not scheduled, or ran Python without stacks."""
    DATA_LOADER = "data-loader"
    """The host waited for its data loader."""
    GARBAGE_COLLECTION = "garbage-collection"
    """Python collected garbage, as its stack says."""
    PYTHON = "python"
    """A Python function, outside ops."""
    QUEUE_DELAY = "queue-delay"
    """Launched work did not start although the device was free."""
    LONGER_TRANSFER = "longer-transfer"
    """Collectives transferred longer, or more of them."""
    INHERITED = "inherited"
    """It was late at an earlier collective, or had waited for a rank that was late at another."""
    BEFORE_RECORDING = "before-recording"
    """It was late when its recording began."""
    PIPELINE_ORDER = "pipeline-order"
    """A send or receive whose partner waits due to the pipeline's order: no work took longer than on other ranks."""
    UNEXPLAINED = "unexplained"
    """Nothing explains enough of it."""
