"""The tables that are answers about a server under load."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

_MAX_BATCH = Column("max_batch", Kind.INT, "sequences that are served at once at most")
_PER_SECOND = "tokens_per_second"

SERVING_RATES = Table(
    "serving_rates",
    "One row per maximum batch and arrival rate. Times are null where the queue grows without end.",
    (
        _MAX_BATCH,
        Column("rate", Kind.FLOAT, "requests that arrive in a second"),
        Column("load", Kind.FLOAT, "rate / capacity"),
        Column(
            "queue_grows",
            Kind.BOOL,
            "whether more requests arrive than can be served; null: the rate lies in the interval of the capacity",
        ),
        Column("busy", Kind.FLOAT, "share of time in which a step runs"),
        Column("mean_batch", Kind.FLOAT, "sequences in a decode step, mean over time"),
        Column("ttft_mean_ns", Kind.INT, "time from a request's arrival to its first token: mean"),
        Column("ttft_p50_ns", Kind.INT, "median of it"),
        Column("ttft_p50_low_ns", Kind.INT, "low end of its 80 % interval"),
        Column("ttft_p50_high_ns", Kind.INT, "high end of it; null: there the queue grows"),
        Column("ttft_p95_ns", Kind.INT, "95th percentile of the time to the first token"),
        Column("ttft_p99_ns", Kind.INT, "99th percentile of it"),
        Column(
            "tpot_mean_ns",
            Kind.INT,
            "time per output token of a request after its first: mean over requests; null: all have one token",
        ),
        Column("tpot_p50_ns", Kind.INT, "median of it"),
        Column("tpot_p50_low_ns", Kind.INT, "low end of its 80 % interval"),
        Column("tpot_p50_high_ns", Kind.INT, "high end of it; null: there the queue grows"),
        Column("tpot_p95_ns", Kind.INT, "95th percentile of the time per output token"),
        Column("tpot_p99_ns", Kind.INT, "99th percentile of it"),
        Column(_PER_SECOND, Kind.FLOAT, "output tokens in a second"),
    ),
)

SERVING_CAPACITY = Table(
    "serving_capacity",
    "One row per maximum batch: the largest arrival rate at which the queue does not grow.",
    (
        _MAX_BATCH,
        Column("capacity", Kind.FLOAT, "requests in a second"),
        Column("capacity_low", Kind.FLOAT, "low end of its 80 % interval"),
        Column("capacity_high", Kind.FLOAT, "high end of it"),
        Column(_PER_SECOND, Kind.FLOAT, "output tokens in a second at that rate"),
    ),
)

SERVING_BATCHES = Table(
    "serving_batches",
    "One row per number of sequences in a decode step, up to the largest maximum batch.",
    (
        Column("batch", Kind.INT, "sequences that get a token in the step"),
        Column("steps", Kind.INT, "such steps in the trace"),
        Column("measured_ns", Kind.INT, "median of their times; null: there are none"),
        Column(
            "step_ns", Kind.INT, "mean time of such a step, of the model: the time per token of a sequence"
        ),
        Column("step_low_ns", Kind.INT, "low end of its 80 % interval"),
        Column("step_high_ns", Kind.INT, "high end of it"),
        Column(_PER_SECOND, Kind.FLOAT, "output tokens in a second: batch / step time"),
    ),
)
