"""Batch sizes over time."""

from __future__ import annotations

from tests.planted import Scene
from tests.planted.scenes import clean
from tests.unit.analysis.inference.serving import annotated
from tracebraid.analysis.inference.batch_sizes import batch_sizes
from tracebraid.model.answers import BATCH_SIZES


def test_iterations_of_the_same_size_make_a_stretch() -> None:
    names = [
        "step[EXTEND bs=2 toks=64]",
        *["step[DECODE bs=2]"] * 3,
        "step[DECODE bs=1]",
        "step[DECODE bs=2]",
    ]
    scene, planted = annotated(names)
    found = batch_sizes(scene.linked())
    assert found.select("phase", "requests", "iterations", "tokens").rows() == [
        ("prefill", 2, 1, 64),
        ("decode", 2, 3, 6),
        ("decode", 1, 1, 1),
        ("decode", 2, 1, 2),
    ]
    assert found.row(1, named=True)["start_ns"] == planted[1].ts
    assert found.row(1, named=True)["span_ns"] == planted[3].end - planted[1].ts


def test_a_step_ends_a_stretch() -> None:
    scene = Scene()
    host = scene.thread()
    for number in (1, 2):
        with host.step(number), host.annotation("step[DECODE bs=2]", 5):
            pass
    assert batch_sizes(scene.linked()).get_column("step").to_list() == ["ProfilerStep#1", "ProfilerStep#2"]


def test_sizes_that_are_not_known_are_alike() -> None:
    scene, _ = annotated(["decode", "decode"])
    found = batch_sizes(scene.linked())
    assert found.select("requests", "iterations", "tokens").rows() == [(None, 2, None)]


def test_training_has_no_rows() -> None:
    found = batch_sizes(clean().linked())
    assert found.is_empty()
    assert dict(found.schema) == BATCH_SIZES.polars_schema()
