"""The copies inside the host's ops that change the element type or the layout of a tensor."""

from __future__ import annotations

import json

import polars as pl

from tracebraid.analysis.antipatterns.evidence.work_of_ops import work_of_ops
from tracebraid.analysis.efficiency.calls import calls_of
from tracebraid.analysis.efficiency.element_types import BITS
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["copies_between_tensors"]

_COPY = "aten::copy_"
_FLOATS = ("double", "float", "c10::Half", "c10::BFloat16", "c10::Float8_e4m3fn", "c10::Float8_e5m2")


def copies_between_tensors(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """One row per `aten::copy_` between tensors of known shapes, that copies nothing from or to the host.

    Columns: those of `work_of_ops`; target, source (C++ names of element types), is_cast (between two types of
    floats), shape (of the target, as JSON), source_strides (as JSON, null: not recorded), same_layout (null: the
    strides were not recorded).

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_copies, annotation)


def _copies(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    key = ["input_dims", "input_types", "input_strides"]
    calls = calls_of(linked).filter((pl.col("name") == _COPY) & pl.col("input_dims").is_not_null())
    unique = calls.select(key).unique(maintain_order=True)
    judged = pl.concat(
        [
            unique,
            pl.DataFrame(
                [_row(*row) for row in unique.iter_rows()],
                schema={
                    "target": pl.String,
                    "source": pl.String,
                    "shape": pl.String,
                    "same_layout": pl.Boolean,
                },
                orient="row",
            ),
        ],
        how="horizontal",
    )
    calls = calls.join(judged, on=key, how="left", nulls_equal=True, maintain_order="left").filter(
        pl.col("shape").is_not_null()
    )
    floats = list(_FLOATS)
    is_cast = (
        pl.col("target").is_in(floats)
        & pl.col("source").is_in(floats)
        & (pl.col("target") != pl.col("source"))
    )
    work = work_of_ops(linked, annotation, calls.get_column("event_id"))
    return (
        work.filter(~pl.col("leaves"))
        .join(
            calls.select(pl.col("event_id").alias("op_event"), "target", "source", "shape", "same_layout"),
            on="op_event",
            how="inner",
            maintain_order="left",
        )
        .with_columns(is_cast.alias("is_cast"))
    )


def _row(
    dims: str | None, types: str | None, strides: str | None
) -> tuple[str | None, str | None, str | None, bool | None]:
    """Target's and source's types, the shape, and whether both are laid out alike; null where that is unknown."""
    shapes, names, steps = (_list(text) for text in (dims, types, strides))
    if len(shapes) < 2 or len(names) < 2 or not shapes[0] or shapes[0] != shapes[1]:
        return (None, None, None, None)
    known = len(steps) > 1 and isinstance(steps[0], list) and isinstance(steps[1], list)
    if not all(isinstance(name, str) and name in BITS for name in names[:2]) or not isinstance(
        shapes[0], list
    ):
        return (None, None, None, None)
    alike = _moving(shapes[0], steps[0]) == _moving(shapes[0], steps[1]) if known else None
    return (str(names[0]), str(names[1]), json.dumps(shapes[0]), alike)


def _moving(shape: list[object], strides: object) -> list[object]:
    """Strides of dimensions that have more than one element: those of the others say nothing."""
    found = strides if isinstance(strides, list) else []
    return [stride for size, stride in zip(shape, found, strict=False) if size != 1]


def _list(text: str | None) -> list[object]:
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
