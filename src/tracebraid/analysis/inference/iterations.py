"""The iterations of a language model in a trace, with the device work that each launched."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.device.graph_events import graph_events
from tracebraid.analysis.event_names import event_names
from tracebraid.analysis.inference.attention import iterations_by_shapes, runs_backward
from tracebraid.analysis.inference.markers import Marker, marker_of
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.answers.inference import INFERENCE_PHASES, Phase, PhaseEvidence
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["iterations", "iterations_by_step"]

_COUNTS = (
    "requests",
    "tokens",
    "context_requests",
    "context_tokens",
    "generation_requests",
    "generation_tokens",
)


def iterations_by_step(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The same with the `step` in which each starts; null outside of all."""
    moments = iterations(linked).with_columns(pl.col("start_ns").alias("ts_ns"))
    return step_of_moments(moments, step_windows(linked, annotation)).drop("ts_ns")


def iterations(linked: LinkedTrace) -> pl.DataFrame:
    """All columns of `model.answers.INFERENCE_PHASES` but `rank`, `step` and `doubtful`, and `lane`, the thread.

    Annotations of serving engines count first; where there are none, annotations that someone wrote by hand; where
    there are none of these, shapes; the last two not in a trace of training. Of annotations inside each other the
    outermost counts.
    """
    return linked.derived(_iterations)


def _iterations(linked: LinkedTrace) -> pl.DataFrame:
    found = _by_annotations(linked)
    if found.is_empty():
        found = _with_parts(iterations_by_shapes(linked))
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


def _by_annotations(linked: LinkedTrace) -> pl.DataFrame:
    named = [(name, marker_of(name)) for name in event_names(linked)]
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
