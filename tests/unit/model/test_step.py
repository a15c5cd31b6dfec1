"""Which names are those of steps."""

from __future__ import annotations

import polars as pl

from tracebraid.model.step import is_profiler_step, is_step_name, step_name

NAMES = [
    "ProfilerStep",
    "ProfilerStep#7",
    "ProfilerStep#x",
    "ProfilerSteps#7",
    "my ProfilerStep#7",
    "train#1",
    None,
]


def those(condition: pl.Expr) -> list[str]:
    return pl.DataFrame({"name": NAMES}).filter(condition).get_column("name").to_list()


def test_a_step_has_the_annotations_name_with_or_without_a_number() -> None:
    assert those(is_step_name(pl.col("name"))) == NAMES[:3]
    assert those(is_step_name(pl.col("name"), "train")) == ["train#1"]
    assert those(is_step_name(pl.col("name"), "train#1")) == ["train#1"]


def test_the_profiler_never_leaves_the_number_out() -> None:
    assert those(is_profiler_step(pl.col("name"))) == [step_name(7)]
