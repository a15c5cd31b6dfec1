"""Answers about efficiency: what ops compute and move, against what the device could."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

RANK = Column("rank", Kind.INT, "the rank")
STEP = Column("step", Kind.TEXT, "the step, by its annotation's name; null: the whole trace")
STEP_OF_LAUNCH = Column(
    "step",
    Kind.TEXT,
    "the step of the launch; null: the whole trace, or by step: launched in none, or no launch is known",
)
STEP_OF_OP = Column(
    "step", Kind.TEXT, "the step in which they started; null: the whole trace, or by step: in none"
)
DOUBTFUL = Column(
    "doubtful",
    Kind.BOOL,
    "`validity` has a doubt about the step; where that is null: about any step, or about what lies in none",
)


class OpFamily(Enum):
    """Kind of work of an op, by the rule that counts it."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    NORMALISATION = "normalisation"
    SOFTMAX = "softmax"
    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    POOLING = "pooling"
    EMBEDDING = "embedding"
    INDEXING = "indexing"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    COPY = "copy"
    COLLECTIVE = "collective"
    VIEW = "view"
    FUSED = "fused"
    UNKNOWN = "unknown"


class Bound(Enum):
    """Limit of an op under ideal conditions."""

    COMPUTE = "compute"
    MEMORY = "memory"
    LATENCY = "latency"
    INTERCONNECT = "interconnect"


class UnknownFlops(Enum):
    """Why it is unknown how much an op computes."""

    NO_FORMULA = "no-formula"
    INSIDE = "inside"
    OPERANDS = "operands"
    CACHED_KEYS = "cached-keys"


_NAME = Column("name", Kind.TEXT, "the op's name")
_FAMILY = Column("family", Kind.TEXT, "a code of `OpFamily`; `unknown`: no rule counts it")
_DIMS = Column("input_dims", Kind.TEXT, "shapes of the inputs, as JSON; null where none were recorded")
_TYPES = Column("input_types", Kind.TEXT, "types of the inputs, as JSON; null where none were recorded")
_RECOMPUTE = Column("is_recompute", Kind.BOOL, "it ran in the backward pass to compute activations again")
_PRECISION = Column("precision", Kind.TEXT, "in what it computes, a code of `Precision`; null: unknown")
_COUNT = Column("count", Kind.INT, "how often it ran")
_DEVICE_NS = Column(
    "device_ns",
    Kind.INT,
    "duration of what it and the ops inside it launched; without device work in the trace: their host self time",
)
_BOUND = Column("bound", Kind.TEXT, "what limits it at best, a code of `Bound`; null: unknown")

OP_COSTS = Table(
    "op_costs",
    "One row per op name, shapes, types and precision, the most device time first. Sums are over `count` runs.",
    (
        RANK,
        STEP_OF_OP,
        _NAME,
        _FAMILY,
        _DIMS,
        _TYPES,
        _RECOMPUTE,
        _PRECISION,
        _COUNT,
        Column("flops", Kind.INT, "floating-point operations, a multiply-add as two; null: unknown"),
        Column(
            "unknown_flops", Kind.TEXT, "why they are unknown, a code of `UnknownFlops`; null: they are not"
        ),
        Column(
            "causal_flops",
            Kind.INT,
            "the same without what a causal mask leaves out; equals `flops` where nothing is masked",
        ),
        Column("bytes", Kind.INT, "least bytes read and written; null: unknown"),
        Column("kernels", Kind.INT, "device events that it and the ops inside it launched"),
        _DEVICE_NS,
        Column("achieved_flops_per_s", Kind.FLOAT, "flops / device time; null: either is unknown or 0"),
        Column("achieved_bytes_per_s", Kind.FLOAT, "bytes / device time; null: either is unknown or 0"),
        Column("flops_per_byte", Kind.FLOAT, "arithmetic intensity; null: either is unknown, or no byte"),
        _BOUND,
        DOUBTFUL,
    ),
)

ROOFLINE = Table(
    "roofline",
    "One row per op name, shapes, types and precision whose least time is known, the most time lost first.",
    (
        RANK,
        STEP_OF_OP,
        _NAME,
        _FAMILY,
        _DIMS,
        _TYPES,
        _RECOMPUTE,
        _PRECISION,
        _COUNT,
        _DEVICE_NS,
        Column(
            "peak_flops_per_s",
            Kind.FLOAT,
            "of the device at that precision; null: it does not compute, or none",
        ),
        Column("peak_bytes_per_s", Kind.FLOAT, "memory bandwidth of the device"),
        Column(
            "roofline_ns", Kind.INT, "least time of all runs: by compute or by memory, whichever is longer"
        ),
        Column("roofline_share", Kind.FLOAT, "least time / device time; above 1: caches helped"),
        _BOUND,
        Column("lost_ns", Kind.INT, "device time less the least time; below 0: caches helped"),
        Column("lost_share", Kind.FLOAT, "of the time lost by all rows of the step that lost some, 0 to 1"),
        DOUBTFUL,
    ),
)

MFU = Table(
    "mfu",
    "One row for the whole trace and per step: FLOPs of matmul, convolution and attention against the peak.",
    (
        RANK,
        STEP,
        Column("span_ns", Kind.INT, "length of the step, or from the trace's first event to its last"),
        Column("precision", Kind.TEXT, "that of most of these FLOPs, a code of `Precision`; null: none"),
        Column("peak_flops_per_s", Kind.FLOAT, "of the device at that precision; null: unknown"),
        Column(
            "model_flops",
            Kind.INT,
            "FLOPs without recomputation, be it by checkpoints or in attention; null: of no op are they known",
        ),
        Column("hardware_flops", Kind.INT, "FLOPs, recomputation included; null: of no op are they known"),
        Column("model_flops_per_s", Kind.FLOAT, "model FLOPs / span; null: unknown"),
        Column("hardware_flops_per_s", Kind.FLOAT, "hardware FLOPs / span; null: unknown"),
        Column("mfu", Kind.FLOAT, "model FLOPs / (span x peak), 0 to 1; null: the peak is unknown"),
        Column("hfu", Kind.FLOAT, "hardware FLOPs / (span x peak), 0 to 1; null: the peak is unknown"),
        Column(
            "known_share", Kind.FLOAT, "share of the ops' device time whose FLOPs are known; null: no time"
        ),
        DOUBTFUL,
    ),
)

RECOMPUTATION = Table(
    "recomputation",
    "One row per op that ran in the backward pass to compute activations again, the most time first.",
    (
        RANK,
        STEP_OF_OP,
        _NAME,
        _FAMILY,
        _COUNT,
        Column(
            "host_ns", Kind.INT, "host self time of it and the ops inside it that are no rows of their own"
        ),
        _DEVICE_NS,
        Column("flops", Kind.INT, "floating-point operations of those whose FLOPs are known; null: none is"),
        DOUBTFUL,
    ),
)


VALIDITY = Table(
    "validity",
    "One row per step and doubt about it; no row: nothing speaks against its figures.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step; null: the doubt is about what lies in no step"),
        Column("doubt", Kind.TEXT, "a code of `Gap`"),
        Column("count", Kind.INT, "events that it is about; of missing ones, how many at least"),
        Column(
            "event_id", Kind.INT, "the earliest of them; null: it is missing, unknown, or the step itself"
        ),
        Column("time_ns", Kind.INT, "sum of their durations; null: unknown"),
    ),
)


_INT = Kind.INT
_FLOAT = Kind.FLOAT
_TEXT = Kind.TEXT


class CaptureMatch(Enum):
    """Match of a graph's kernel with the launch that was captured for it, or the reason for none."""

    NODE_ORDER = "node-order"
    STREAM_ORDER = "stream-order"
    NO_CAPTURE = "no-capture"
    SEVERAL_CAPTURES = "several-captures"
    FAMILIES_DIFFER = "families-differ"


_PATTERN = "names of its kernels, as a JSON list; of more than 32 the first 32"

KERNEL_SEQUENCES = Table(
    "kernel_sequences",
    "One row per sequence of kernels that comes back on a stream; the most time between its kernels first. "
    "No kernel lies in two of the occurrences: the rows of a step can be added.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("op", _TEXT, "the op or annotation that launched it, as asked for; null: any"),
        Column("length", _INT, "kernels in the sequence"),
        Column("pattern", _TEXT, _PATTERN),
        Column("first_event", _INT, "the first kernel of its first occurrence: its row in `events`"),
        Column("count", _INT, "occurrences that overlap no other of it, nor any of a sequence chosen before"),
        Column(
            "complete",
            _INT,
            "occurrences that no other kernel precedes or follows within the op or the stretch",
        ),
        Column("device_ns", _INT, "duration of the kernels of all occurrences"),
        Column(
            "gap_ns",
            _INT,
            "time between them in which their stream was empty: what a fused kernel would save",
        ),
        Column(
            "launch_ns",
            _INT,
            "host time in the calls that launched them, without the first of each occurrence: what a graph would save",
        ),
        Column(
            "op_ns",
            _INT,
            "host time of the ops that launched the occurrences; null where no op was asked for",
        ),
        DOUBTFUL,
    ),
)

OP_KERNEL_SEQUENCES = Table(
    "op_kernel_sequences",
    "One row per op and sequence of kernels that it launched itself, the most device time first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("op", _TEXT, "the op's name"),
        Column("op_category", _TEXT, "`cpu_op` or `user_annotation`"),
        Column("length", _INT, "device events that it launches"),
        Column("pattern", _TEXT, _PATTERN),
        Column("count", _INT, "runs of the op with this sequence"),
        Column("device_ns", _INT, "duration of all their kernels"),
        Column(
            "op_launch_delay_ns",
            _FLOAT,
            "mean time from the op's start to its first launch; null: no launch is known",
        ),
        Column(
            "runtime_delay_ns",
            _FLOAT,
            "mean time from the first launch's start to the start of its kernel; null: no launch is known",
        ),
        DOUBTFUL,
    ),
)

GRAPH_KERNELS = Table(
    "graph_kernels",
    "One row per graph and node: what ran when the graph was launched, in the order of its nodes.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("graph", _INT, "number of the graph in this answer, from 0, in the order of first launches"),
        Column("graph_id", _INT, "the graph's id in the trace; null: the trace has none"),
        Column("launches", _INT, "launches of the graph"),
        Column("node", _INT, "number of the node in the graph, from 0"),
        Column("graph_node_id", _INT, "the node's id in the trace; null: the trace has none"),
        Column("family", _TEXT, "a code of `KernelFamily`; by the op, where it is known"),
        Column("name", _TEXT, "name of the kernel or copy"),
        Column("op", _TEXT, "op that launched it when the graph was captured; null: not known, see `method`"),
        Column("op_event", _INT, "that op: its row in `events`; null without an op"),
        Column("method", _TEXT, "how the op was found, or why not: a code of `CaptureMatch`"),
        Column(
            "confidence",
            _FLOAT,
            "of the graph's nodes whose op and name both show a family the share where these agree; null: no such node",
        ),
        Column("count", _INT, "how often it ran"),
        Column("total_ns", _INT, "sum of its durations"),
        Column(
            "mean_ns", _FLOAT, "mean duration, doubtful steps left out unless asked for; null: none is left"
        ),
        Column("share", _FLOAT, "of the sum of the graph's kernels' durations, 0 to 1"),
        DOUBTFUL,
    ),
)


class Phase(Enum):
    """Phase of a language model's iteration."""

    PREFILL = "prefill"
    """Reads prompts, or chunks of them."""

    DECODE = "decode"
    """Generates the next token of each request; with speculation, verifies several."""

    MIXED = "mixed"
    """Both in a single batch."""

    DRAFT = "draft"
    """Runs a draft model for speculation."""

    IDLE = "idle"
    """Runs without a request, to keep up with other ranks."""


class PhaseEvidence(Enum):
    """Evidence of an iteration's phase."""

    VLLM = "annotation-vllm"
    SGLANG = "annotation-sglang"
    ATOM = "annotation-atom"
    TENSORRT_LLM = "annotation-tensorrt-llm"
    PATTERN = "annotation-pattern"
    """The user's own pattern, for `tracebraid.serving`."""
    WORD = "annotation-word"
    SHAPES = "shapes"


_PHASE = Column("phase", Kind.TEXT, "`prefill`, `decode`, `mixed`, `draft` or `idle`: see `Phase`")
_REQUESTS = Column("requests", Kind.INT, "requests in the batch; null: not known")

INFERENCE_PHASES = Table(
    "inference_phases",
    "One row per iteration of a language model (a forward pass of a batch), in the order of their starts.",
    (
        RANK,
        STEP_OF_OP,
        _PHASE,
        Column("start_ns", Kind.INT, "its start on the host"),
        Column("host_ns", Kind.INT, "its duration on the host"),
        Column("span_ns", Kind.INT, "from its start to its end on the host, or that of its last device work"),
        Column("interval_ns", Kind.INT, "from its start to that of the next on its thread; null: the last"),
        Column("kernels", Kind.INT, "device events that it launched"),
        Column("device_ns", Kind.INT, "sum of their durations"),
        Column("graph_ns", Kind.INT, "of that, in replays of graphs"),
        _REQUESTS,
        Column("context_requests", Kind.INT, "of these, in prefill; null: not known"),
        Column("generation_requests", Kind.INT, "of these, in decode; null: not known"),
        Column("tokens", Kind.INT, "tokens that go through the model; null: not known"),
        Column("context_tokens", Kind.INT, "of these, of prompts; null: not known"),
        Column("generation_tokens", Kind.INT, "of these, in decode; null: not known"),
        Column("name", Kind.TEXT, "the annotation, or the op at which it starts"),
        Column("event_id", Kind.INT, "that event: its row in `events`"),
        Column("evidence", Kind.TEXT, "what says the phase, a code of `PhaseEvidence`"),
        Column("confidence", Kind.FLOAT, "of the phase, 0 to 1; 1: an engine's annotation states it"),
        DOUBTFUL,
    ),
)

TOKEN_TIMES = Table(
    "token_times",
    "One row per phase: its iterations, its tokens and their time. "
    "Means, percentiles and times per token leave doubtful steps out unless asked for, and are null where no other is.",
    (
        RANK,
        STEP_OF_OP,
        _PHASE,
        Column("iterations", Kind.INT, "iterations"),
        Column("requests", Kind.INT, "requests, counted in each iteration; null: not known for some"),
        Column("tokens", Kind.INT, "tokens that went through the model; null: not known for some"),
        Column("covered_ns", Kind.INT, "time in which some of the iterations ran, on host or device"),
        Column("device_ns", Kind.INT, "duration of the device work that they launched, summed"),
        Column("ns_per_token", Kind.FLOAT, "covered_ns / tokens; null without either"),
        Column("device_ns_per_token", Kind.FLOAT, "device_ns / tokens; null without either"),
        Column("tokens_per_second", Kind.FLOAT, "tokens / covered time; null without either"),
        Column("mean_ns", Kind.FLOAT, "mean of the iterations' spans"),
        Column("median_ns", Kind.FLOAT, "median of them"),
        Column("p95_ns", Kind.FLOAT, "95th percentile of them, linear between two"),
        Column(
            "mean_interval_ns",
            Kind.FLOAT,
            "mean time to the start of the next iteration: in decode, of a request's token; null: none follows",
        ),
        Column("median_interval_ns", Kind.FLOAT, "median of them"),
        Column("p95_interval_ns", Kind.FLOAT, "95th percentile of them"),
        DOUBTFUL,
    ),
)

BATCH_SIZES = Table(
    "batch_sizes",
    "One row per stretch of iterations of the same step, thread, phase and number of requests, as they follow in time.",
    (
        RANK,
        STEP_OF_OP,
        _PHASE,
        _REQUESTS,
        Column("context_requests", Kind.INT, "of these, in prefill; null: not known"),
        Column("generation_requests", Kind.INT, "of these, in decode; null: not known"),
        Column("start_ns", Kind.INT, "start of the first iteration"),
        Column("span_ns", Kind.INT, "from there to the last end, on host or device"),
        Column("iterations", Kind.INT, "iterations"),
        Column("tokens", Kind.INT, "tokens that went through the model; null: not known for some"),
        DOUBTFUL,
    ),
)

GRAPH_REPLAYS = Table(
    "graph_replays",
    "One row per graph and launching call: how often it ran and how much of the device's time; the longest first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("api", Kind.TEXT, "the call, such as `cudaGraphLaunch`; null: it is not in the trace"),
        Column("graph_id", Kind.INT, "the graph; null: the trace does not say"),
        Column("kernels_per_replay", Kind.INT, "device events of a replay: graphs without id are told by it"),
        Column("replays", Kind.INT, "how often it was launched"),
        Column("kernels", Kind.INT, "device events of all replays"),
        Column("host_ns", Kind.INT, "duration of the launching calls; null without any"),
        Column("device_ns", Kind.INT, "duration of the device events, summed"),
        Column("mean_device_ns", Kind.FLOAT, "device_ns of a replay"),
        Column(
            "share", Kind.FLOAT, "of the sum of all device events' durations, 0 to 1; null: there is none"
        ),
        DOUBTFUL,
    ),
)
