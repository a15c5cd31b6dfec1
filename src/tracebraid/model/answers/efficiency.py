"""Answers about efficiency: what ops compute and move, against what the device could."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_OP
from tracebraid.model.column import Column, Kind, Table


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


class CaptureMatch(Enum):
    """Match of a graph's kernel with the launch that was captured for it, or the reason for none."""

    NODE_ORDER = "node-order"
    STREAM_ORDER = "stream-order"
    NO_CAPTURE = "no-capture"
    SEVERAL_CAPTURES = "several-captures"
    FAMILIES_DIFFER = "families-differ"


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
