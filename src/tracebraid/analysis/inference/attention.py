"""Iterations by shapes: attention says how many tokens ask and how many are asked, embeddings where a pass begins.

Decode: a single query against more keys. Prefill: several queries, each of which sees no later key, behind a lookup
of the tokens' embeddings. A trace of training says nothing: reading a batch has the shapes of a prefill there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import polars as pl

from tracebraid.analysis.event_names import event_names
from tracebraid.model.answers.inference import Phase, PhaseEvidence
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["DECODE_CONFIDENCE", "PREFILL_CONFIDENCE", "iterations_by_shapes", "runs_backward"]

DECODE_CONFIDENCE = 0.8
"""A single query against many keys may also be attention over a user's history in a recommender."""

PREFILL_CONFIDENCE = 0.6
"""A forward pass for evaluation has the same shapes."""

_EMBEDDING = "aten::embedding"
_ENGINE = "autograd::engine::evaluate_function"


@dataclass(frozen=True)
class _Layout:
    """Which inputs of an attention op say what.

    Args:
        length: axis of the tokens in query and key; None: the tokens of all requests lie in one axis, the first.
        causal: input that says whether a query sees no later key.
        mask: input that holds a mask.
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
    """All ops, in the order of the file."""
    host = linked.timeline.host_ops.select(
        "event_id", as_text("input_dims", "concrete_inputs"), "sequence_number"
    )
    return (
        linked.timeline.of_role(Role.OP)
        .select("event_id", as_text("name"), "lane", "ts_ns", "dur_ns")
        .join(host, on="event_id", how="left", maintain_order="left")
    )


def runs_backward(linked: LinkedTrace) -> bool:
    """Whether autograd runs in the trace: it is one of training."""
    backward = linked.timeline.host_ops.get_column("fwd_thread_id").fill_null(0) > 0
    return bool(backward.any()) or any(name.startswith(_ENGINE) for name in event_names(linked))


def _facts(marks: pl.DataFrame) -> pl.DataFrame:
    """What each distinct call says: `tokens` (null: nothing), `requests`, `keys`, `decodes`, `prefills`, `opens`."""
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
    """Tokens of all requests in one axis: as many as requests in decode, more where some prompt is read."""
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
    """Where each iteration ends: with the last op that starts in it, and before the next begins."""
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
    """A list of an op's arguments; empty where it is damaged or missing."""
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _shape(shapes: list[Any], number: int | None) -> list[int]:
    """The shape of an input; empty where it has none, or is a list of tensors."""
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
