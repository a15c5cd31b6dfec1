"""Answers about the inference of language models: prefill and decode, tokens, batches, graphs."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP_OF_LAUNCH, STEP_OF_OP
from tracebraid.model.column import Column, Kind, Table

__all__ = ["BATCH_SIZES", "GRAPH_REPLAYS", "INFERENCE_PHASES", "TOKEN_TIMES", "Phase", "PhaseEvidence"]


class Phase(Enum):
    """What an iteration of a language model does."""

    PREFILL = "prefill"
    """Reads prompts, or chunks of them."""

    DECODE = "decode"
    """Makes the next token of each request; with speculation, verifies several."""

    MIXED = "mixed"
    """Both in a single batch."""

    DRAFT = "draft"
    """Runs a draft model for speculation."""

    IDLE = "idle"
    """Runs without a request, for the sake of other ranks."""


class PhaseEvidence(Enum):
    """What says which phase an iteration is."""

    VLLM = "annotation-vllm"
    SGLANG = "annotation-sglang"
    ATOM = "annotation-atom"
    TENSORRT_LLM = "annotation-tensorrt-llm"
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
