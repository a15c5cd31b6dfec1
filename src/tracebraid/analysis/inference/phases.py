"""The iterations of a language model in a trace, with the device work that each launched."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl
from msgspec import Struct

from tracebraid.analysis.answering import StepOptions, answer, by_step
from tracebraid.analysis.device import device_events, event_names, graph_events
from tracebraid.analysis.inference.markers import Marker, marker_by_pattern, marker_of
from tracebraid.analysis.statistics import mean_of, median_of, p95_of
from tracebraid.analysis.time.step_windows import in_order_of_steps, step_of_moments, step_windows
from tracebraid.model.analysis import Family, Need, OnPage, Rows, Stored, analysis
from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_OP
from tracebraid.model.answers.efficiency import Phase, PhaseEvidence
from tracebraid.model.category import Role
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_S

DECODE_CONFIDENCE = 0.8
"""A single query against many keys may also be attention over a user's history in a recommender."""

PREFILL_CONFIDENCE = 0.6
"""A forward pass for evaluation has the same shapes."""

_EMBEDDING = "aten::embedding"
_ENGINE = "autograd::engine::evaluate_function"


class _Layout(Struct, frozen=True):
    """Meanings of an attention op's inputs.

    Args:
        length: axis of the tokens in query and key; None: the tokens of all requests lie in one axis, the first.
        causal: input that says whether a query sees no later key.
        mask: the mask input.
        starts: input with the start of each request, where tokens of all requests lie in one axis.
    """

    length: int | None
    causal: int | None = None
    mask: int | None = None
    starts: int | None = None


_LAYOUTS = {
    "aten::scaled_dot_product_attention": _Layout(-2, causal=5, mask=3),
    "aten::_scaled_dot_product_flash_attention": _Layout(-2, causal=4),
    "aten::_scaled_dot_product_efficient_attention": _Layout(-2, causal=6, mask=3),
    "aten::_scaled_dot_product_cudnn_attention": _Layout(-2, causal=6, mask=3),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _Layout(-2, causal=4, mask=5),
    "aten::_scaled_dot_product_fused_attention_overrideable": _Layout(-2, causal=5, mask=3),
    "flash_attn::_flash_attn_forward": _Layout(1, causal=5),
    "flash_attn::_flash_attn_varlen_forward": _Layout(None, starts=3),
}
"""Attention ops, by their schemas."""


def iterations_by_shapes(linked: LinkedTrace) -> pl.DataFrame:
    """The iterations of a trace without annotations for them; none in a trace of training.

    Columns: lane, event_id, name, start_ns, end_ns, requests, tokens, phase, evidence, confidence. An iteration
    begins at the first lookup of embeddings behind attention, or without any where the shapes of attention change;
    it ends with the last op of its thread before the next.
    """
    if _LAYOUTS.keys().isdisjoint(event_names(linked)) or runs_backward(linked):
        return pl.DataFrame(schema=_COLUMNS)
    ops = _ops(linked)
    marks = ops.filter(pl.col("name").is_in([*_LAYOUTS, _EMBEDDING]))
    marks = marks.join(
        _facts(marks), on=["name", "input_dims", "concrete_inputs"], how="left", nulls_equal=True
    )
    marks = marks.filter(pl.col("tokens").is_not_null()).sort("lane", "ts_ns", "event_id")
    if marks.is_empty():
        return pl.DataFrame(schema=_COLUMNS)
    grouped = _grouped(marks)
    return grouped.join(_ends(grouped, ops), on=["lane", "iteration"]).select(*_COLUMNS)


def _ops(linked: LinkedTrace) -> pl.DataFrame:
    """All ops, in the order of their starts."""
    host = linked.timeline.host_ops.select(
        "event_id", as_text("input_dims", "concrete_inputs"), "sequence_number"
    )
    return (
        linked.timeline.of_role(Role.OP)
        .select("event_id", as_text("name"), "lane", "ts_ns", "dur_ns")
        .join(host, on="event_id", how="left", maintain_order="left")
    )


def runs_backward(linked: LinkedTrace) -> bool:
    """Return whether autograd runs in the trace: it is one of training."""
    backward = linked.timeline.host_ops.get_column("fwd_thread_id").fill_null(0) > 0
    return bool(backward.any()) or any(name.startswith(_ENGINE) for name in event_names(linked))


def _facts(marks: pl.DataFrame) -> pl.DataFrame:
    """Decode each distinct call: `tokens` (null: unknown), `requests`, `keys`, `decodes`, `prefills`, `opens`."""
    key = ["name", "input_dims", "concrete_inputs"]
    distinct = marks.select(key).unique(maintain_order=True)
    rows = [_read(*row) for row in distinct.iter_rows()]
    facts = pl.DataFrame(
        rows,
        schema={
            "requests": pl.Int64,
            "tokens": pl.Int64,
            "keys": pl.Int64,
            "decodes": pl.Boolean,
            "prefills": pl.Boolean,
            "opens": pl.Boolean,
        },
        orient="row",
    )
    return pl.concat([distinct, facts], how="horizontal")


_Facts = tuple[int | None, int | None, int | None, bool, bool, bool]

_NOTHING: _Facts = (None, None, None, False, False, False)


def _read(name: str, dims: str | None, concrete: str | None) -> _Facts:
    shapes, values = _list(dims), _list(concrete)
    if name == _EMBEDDING:
        indices = _shape(shapes, 1)
        tokens = _product(indices) if indices else None
        return (None, tokens, None, False, False, True)
    layout = _LAYOUTS[name]
    query, key = _shape(shapes, 0), _shape(shapes, 1)
    if layout.length is None:
        starts = _shape(shapes, layout.starts)
        return _read_packed(query, starts)
    if len(query) < 3 or len(key) != len(query):
        return _NOTHING
    asking, asked, batch = query[layout.length], key[layout.length], query[0]
    causal = layout.causal is not None and values[layout.causal : layout.causal + 1] == ["True"]
    masked = bool(_shape(shapes, layout.mask))
    decodes = asking == 1 < asked
    prefills = 1 < asking <= asked and (causal or masked)
    return (batch, batch * asking, asked, decodes, prefills, False) if decodes or prefills else _NOTHING


def _read_packed(query: list[int], starts: list[int]) -> _Facts:
    """Number of tokens of all requests in one axis: equal to the requests in decode, more if a prompt is read."""
    if not query or len(starts) != 1 or starts[0] < 2:
        return _NOTHING
    requests, tokens = starts[0] - 1, query[0]
    return (requests, tokens, None, tokens == requests, tokens > requests, False)


def _grouped(marks: pl.DataFrame) -> pl.DataFrame:
    """The iterations: their first op and what their attention says."""
    opens = pl.col("opens")
    before = opens.shift(1).over("lane")
    by_embedding = opens & ~before.fill_null(value=True)
    shape = ("requests", "tokens", "keys")
    other = pl.any_horizontal(pl.col(c).ne_missing(pl.col(c).shift(1).over("lane")) for c in shape)
    begins = pl.when(opens.any().over("lane")).then(by_embedding).otherwise(other & before.is_not_null())
    attends = ~opens
    recorded = pl.col("sequence_number").fill_null(-1) >= 0
    found = (
        marks.with_columns(begins.cast(pl.Int64).cum_sum().over("lane").alias("iteration"))
        .group_by("lane", "iteration", maintain_order=True)
        .agg(
            pl.col("event_id", "name").first(),
            pl.col("ts_ns").first().alias("start_ns"),
            pl.col("requests", "tokens").filter(attends).first(),
            pl.col("tokens").filter(opens).first().alias("looked_up"),
            pl.col("decodes").any(),
            pl.col("prefills").any(),
            recorded.any().alias("recorded"),
        )
    )
    prefills = pl.col("prefills") & pl.col("looked_up").is_not_null() & ~pl.col("recorded")
    decodes = pl.col("decodes") & ~pl.col("prefills")
    return found.filter(prefills | decodes).with_columns(
        pl.when(decodes)
        .then(pl.lit(Phase.DECODE.value))
        .otherwise(pl.lit(Phase.PREFILL.value))
        .alias("phase"),
        pl.lit(PhaseEvidence.SHAPES.value).alias("evidence"),
        pl.when(decodes).then(DECODE_CONFIDENCE).otherwise(PREFILL_CONFIDENCE).alias("confidence"),
    )


def _ends(grouped: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """End of each iteration: the last op that starts in it, and before the next begins."""
    starts = grouped.select("lane", "iteration", pl.col("start_ns").alias("ts_ns")).sort("ts_ns")
    inside = ops.select("lane", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")).sort("ts_ns")
    following = grouped.select(
        "lane", "iteration", pl.col("start_ns").shift(-1).over("lane").alias("next_ns")
    )
    return (
        inside.join_asof(starts, on="ts_ns", by="lane", strategy="backward", check_sortedness=False)
        .filter(pl.col("iteration").is_not_null())
        .group_by("lane", "iteration")
        .agg(pl.col("end_ns").max())
        .join(following, on=["lane", "iteration"])
        .select("lane", "iteration", pl.min_horizontal("end_ns", "next_ns").alias("end_ns"))
    )


def _list(text: str | None) -> list[Any]:
    """A list of an op's arguments; empty if it is damaged or missing."""
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _shape(shapes: list[Any], number: int | None) -> list[int]:
    """The shape of an input; empty if it has none, or is a list of tensors."""
    if number is None or number >= len(shapes) or not isinstance(shapes[number], list):
        return []
    shape = shapes[number]
    fits = all(type(length) is int and 0 <= length < _LONGEST for length in shape)
    return shape if fits and _product(shape) < _LONGEST else []


def _product(shape: list[int]) -> int:
    found = 1
    for length in shape:
        found *= length
    return found


_LONGEST = 2**53
"""Elements that no tensor has: more are damage, and products of them would leave int64."""

_COLUMNS = {
    "lane": pl.Int64,
    "event_id": pl.Int64,
    "name": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "requests": pl.Int64,
    "tokens": pl.Int64,
    "phase": pl.String,
    "evidence": pl.String,
    "confidence": pl.Float64,
}


_COUNTS = (
    "requests",
    "tokens",
    "context_requests",
    "context_tokens",
    "generation_requests",
    "generation_tokens",
)


def iterations_by_step(linked: LinkedTrace) -> pl.DataFrame:
    """The same with the `step` in which each starts; null outside all."""
    return _with_step(iterations(linked), linked)


def counted_iterations(linked: LinkedTrace, pattern: str | None = None) -> pl.DataFrame:
    """Iterations with their counts and `step`: by names that match the pattern; or, without one, as `iterations`, by
    shapes also where annotations state no counts.
    """
    if pattern is not None:
        read = partial(marker_by_pattern, re.compile(pattern))
        return _with_step(_with_work(linked, _by_annotations(linked, read)), linked)
    found = iterations(linked)
    if found.height and found.get_column("requests").null_count() == found.height:
        by_shapes = _with_parts(iterations_by_shapes(linked))
        found = found if by_shapes.is_empty() else _with_work(linked, by_shapes)
    return _with_step(found, linked)


def _with_step(found: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    moments = found.with_columns(pl.col("start_ns").alias("ts_ns"))
    return step_of_moments(moments, step_windows(linked)).drop("ts_ns")


def iterations(linked: LinkedTrace) -> pl.DataFrame:
    """All columns of `INFERENCE_PHASES` but `rank`, `step` and `doubtful`, and `lane`, the thread.

    Annotations of serving engines count first; where there are none, annotations that someone wrote by hand; where
    there are none of these, shapes; the last two not in a trace of training. Of annotations inside each other the
    outermost counts.
    """
    return linked.derived(_iterations)


def _iterations(linked: LinkedTrace) -> pl.DataFrame:
    found = _by_annotations(linked, marker_of)
    return _with_work(linked, found if found.height else _with_parts(iterations_by_shapes(linked)))


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


def _with_work(linked: LinkedTrace, found: pl.DataFrame) -> pl.DataFrame:
    """Iterations in order, with the device work that each launched, its span and its interval."""
    if found.is_empty():
        return INFERENCE_PHASES.empty().drop("rank", "step", "doubtful").with_columns(lane=pl.lit(0))
    found = found.sort("start_ns", "event_id")
    following = pl.col("start_ns").shift(-1).over("lane")
    work = _work(linked, found)
    spans = found.join(work, on="event_id", how="left", maintain_order="left")
    return spans.with_columns(
        pl.col("kernels", "device_ns", "graph_ns").fill_null(0),
        (pl.col("end_ns") - pl.col("start_ns")).alias("host_ns"),
        (pl.max_horizontal("end_ns", "last_ns") - pl.col("start_ns")).alias("span_ns"),
        (following - pl.col("start_ns")).alias("interval_ns"),
    )


def _by_annotations(linked: LinkedTrace, read: Callable[[str], Marker | None]) -> pl.DataFrame:
    named = [(name, read(name)) for name in event_names(linked)]
    rows = [(name, *_row(marker)) for name, marker in named if marker is not None]
    schema = {
        "name": pl.String,
        "phase": pl.String,
        "evidence": pl.String,
        "confidence": pl.Float64,
        **dict.fromkeys(_COUNTS, pl.Int64),
    }
    markers = pl.DataFrame(rows, schema=schema, orient="row")
    if markers.is_empty():
        return markers
    ranges = linked.timeline.of_role(Role.ANNOTATION, Role.OP).with_columns(as_text("name"))
    by_word = pl.col("evidence") == PhaseEvidence.WORD.value
    found = (
        ranges.join(markers, on="name")
        .filter(~by_word | (by_word.all() & pl.lit(not runs_backward(linked))))
        .with_columns(pl.col("ts_ns").alias("start_ns"), (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))
        .sort(["lane", "start_ns", "end_ns", "event_id"], descending=[False, False, True, False])
    )
    reach = pl.col("end_ns").cum_max().shift(1).over("lane")
    outermost = reach.is_null() | (pl.col("start_ns") >= reach)
    return found.filter(outermost).select("lane", "event_id", "start_ns", "end_ns", *schema)


def _row(marker: Marker) -> tuple[object, ...]:
    counts = (getattr(marker, name) for name in _COUNTS)
    return (marker.phase.value, marker.evidence.value, marker.confidence, *counts)


def _with_parts(found: pl.DataFrame) -> pl.DataFrame:
    """Requests and tokens of the two parts of a batch that is all of one phase."""
    prefill = pl.col("phase") == Phase.PREFILL.value
    parts = [
        pl.when(part).then(pl.col(count)).otherwise(0).alias(f"{prefix}_{count}")
        for prefix, part in (("context", prefill), ("generation", ~prefill))
        for count in ("requests", "tokens")
    ]
    return found.with_columns(parts)


def _work(linked: LinkedTrace, found: pl.DataFrame) -> pl.DataFrame:
    """Per iteration (`event_id`) the device work that its thread launched in it."""
    windows = found.select("lane", "event_id", pl.col("start_ns").alias("ts_ns"), "end_ns").sort("ts_ns")
    host = linked.timeline.events.select(pl.col("event_id").alias("launch_event"), "lane", "ts_ns")
    work = device_events(linked).select(
        "dur_ns",
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("last_ns"),
        pl.coalesce("call_event", "op_event").alias("launch_event"),
        pl.col("event_id").is_in(graph_events(linked).get_column("event_id").implode()).alias("in_graph"),
    )
    return (
        work.join(host, on="launch_event")
        .sort("ts_ns")
        .join_asof(windows, on="ts_ns", by="lane", strategy="backward", check_sortedness=False)
        .filter(pl.col("ts_ns") < pl.col("end_ns"))
        .group_by("event_id")
        .agg(
            pl.len().cast(pl.Int64).alias("kernels"),
            pl.col("dur_ns").sum().alias("device_ns"),
            pl.col("dur_ns").filter("in_graph").sum().alias("graph_ns"),
            pl.col("last_ns").max(),
        )
    )


@analysis(
    INFERENCE_PHASES,
    Family.INFERENCE,
    needs=(Need.INFERENCE_ITERATIONS,),
    uses=(Need.DEVICE_WORK,),
    shown=(
        "phase start_ns span_ns device_ns graph_ns requests tokens kernels context_tokens "
        "generation_tokens host_ns name evidence"
    ),
    formula=(
        "An iteration is a forward pass of a batch, by the engine's annotation or by shapes; its span "
        "ends with the last device work that was launched in it."
    ),
    on_page=OnPage(Rows.TABLE_ROWS, by=("span_ns",)),
)
def inference_phases(linked: LinkedTrace) -> pl.DataFrame:
    """Which iterations are prefill, and which are decode?

    The iterations of a language model, in the order of their starts.

    Annotations of vLLM, SGLang, ATOM and TensorRT-LLM say what an iteration is; without any, annotations that say
    `prefill` or `decode`; without any, the shapes of attention. A trace of training has no iterations.

    Args:
        linked: one rank.
    """
    return answer(INFERENCE_PHASES, iterations_by_step(linked), linked)


_KEY = ("lane", "step", "phase", "requests", "context_requests", "generation_requests")
"""Columns that iterations of a stretch share."""


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


@analysis(
    BATCH_SIZES,
    Family.INFERENCE,
    needs=(Need.INFERENCE_ITERATIONS,),
    shown=("phase start_ns span_ns requests iterations tokens context_requests generation_requests"),
)
def batch_sizes(linked: LinkedTrace) -> pl.DataFrame:
    """How large are inference batches over time?

    Stretches of iterations of the same size, in the order of their starts.

    Args:
        linked: one rank.
    """
    found = iterations_by_step(linked).sort("lane", "start_ns", "event_id")
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in _KEY)
    tokens = pl.col("tokens")
    stretches = (
        found.with_columns(differs.cast(pl.Int64).cum_sum().alias("stretch"))
        .group_by("stretch", maintain_order=True)
        .agg(
            pl.col(*_KEY).first(),
            pl.col("start_ns").first(),
            ((pl.col("start_ns") + pl.col("span_ns")).max() - pl.col("start_ns").first()).alias("span_ns"),
            pl.len().alias("iterations"),
            pl.when(tokens.is_not_null().all()).then(tokens.sum()).alias("tokens"),
        )
        .sort("start_ns", "stretch")
    )
    return answer(BATCH_SIZES, stretches, linked)


_TOKEN_TIMES_KEY = ["step", "phase"]


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


@analysis(
    TOKEN_TIMES,
    Family.INFERENCE,
    needs=(Need.INFERENCE_ITERATIONS,),
    uses=(Need.DEVICE_WORK,),
    shown=(
        "phase iterations tokens ns_per_token tokens_per_second median_ns p95_ns median_interval_ns "
        "device_ns_per_token"
    ),
    formula=("per token = union of the iterations' spans / tokens; tokens per second is the inverse."),
    on_page=OnPage(),
    stored=Stored.ALWAYS,
)
def token_times(linked: LinkedTrace, per_step: bool = False, with_doubtful: bool = False) -> pl.DataFrame:
    """How long does a token take, in prefill and in decode?

    Tokens and their time by phase.

    An iteration's span reaches to its end on the host or to the end of the device work that it launched, whichever
    is later. Iterations that run at once count once in `covered_ns`. What a request waits for its next token is
    the interval between the starts of two decode iterations: the time of the scheduler between them is in it. A
    single
    iteration shows no rate: `tokens_per_second` is null then.

    Args:
        linked: one rank.
        per_step: rows for each step in which iterations started, instead of over all.
        with_doubtful: count iterations of doubtful steps in means and in time per token, too.
    """
    options = StepOptions(per_step, with_doubtful)
    found = by_step(iterations_by_step(linked), linked, options)
    order = [phase.value for phase in Phase]
    return (
        _sums(found)
        .join(_means(found), on=_TOKEN_TIMES_KEY, how="left", nulls_equal=True)
        .sort(pl.col("phase").cast(pl.Enum(order)))
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(TOKEN_TIMES, frame, linked))
    )


def _sums(found: pl.DataFrame) -> pl.DataFrame:
    return (
        _with_covered(found)
        .group_by(_TOKEN_TIMES_KEY)
        .agg(
            pl.len().alias("iterations"),
            _sum_if_known("requests"),
            _sum_if_known("tokens"),
            pl.col("covered_ns", "device_ns").sum(),
        )
    )


def _means(found: pl.DataFrame) -> pl.DataFrame:
    """Statistics of counted iterations, and their time per token."""
    counted = found.filter("in_means")
    statistics = counted.group_by(_TOKEN_TIMES_KEY).agg(
        *_statistics("span_ns", ""), *_statistics("interval_ns", "interval_")
    )
    ratios = _sums(counted).select(
        *_TOKEN_TIMES_KEY,
        _ratio("covered_ns", "tokens").alias("ns_per_token"),
        _ratio("device_ns", "tokens").alias("device_ns_per_token"),
        pl.when(pl.col("iterations") > 1)
        .then(_ratio("tokens", "covered_ns") * NS_PER_S)
        .alias("tokens_per_second"),
    )
    return statistics.join(ratios, on=_TOKEN_TIMES_KEY, nulls_equal=True)


def _with_covered(found: pl.DataFrame) -> pl.DataFrame:
    """Time of each iteration not covered by earlier ones of its step and phase."""
    end = pl.col("start_ns") + pl.col("span_ns")
    reach = end.cum_max().shift(1).over(_TOKEN_TIMES_KEY)
    covered = (end - pl.max_horizontal("start_ns", reach)).clip(0)
    return found.sort("start_ns", "event_id").with_columns(covered.alias("covered_ns"))


def _sum_if_known(column: str) -> pl.Expr:
    return pl.when(pl.col(column).is_not_null().all()).then(pl.col(column).sum()).alias(column)


def _ratio(amount: str, of: str) -> pl.Expr:
    """Null if either is 0 or not known."""
    return pl.when((pl.col(of) > 0) & (pl.col(amount) > 0)).then(pl.col(amount) / pl.col(of))


def _statistics(column: str, prefix: str) -> list[pl.Expr]:
    values = pl.col(column)
    return [
        mean_of(values, f"mean_{prefix}ns"),
        median_of(values, f"median_{prefix}ns"),
        p95_of(values, f"p95_{prefix}ns"),
    ]
