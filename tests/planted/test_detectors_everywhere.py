"""All detectors on any trace: rows that fit, whatever is missing or wrong."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest
from hypothesis import given, settings

from tests.planted import Scene
from tests.planted.patterns import PATTERNS
from tests.planted.random_scenes import scenes
from tests.planted.scenes import clean
from tracebraid.analysis.antipatterns.catalog import rank_detectors
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Detector
from tracebraid.model.step import PROFILER_STEP

OF_STEPS = {"allocator-retry", "recompilation"}
"""Detectors that find nothing outside of steps."""

each = pytest.mark.parametrize("detector", rank_detectors(), ids=lambda detector: detector.name)


def check(detector: Detector, linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    rows = detector.detect(linked.with_annotation(annotation))
    assert dict(rows.schema) == EVIDENCE.polars_schema()
    saving = rows.get_column("saving_ns")
    assert (saving > 0).all()
    assert (saving <= rows.get_column("end_ns") - rows.get_column("start_ns")).all()
    assert rows.get_column("start_ns").is_sorted()
    return rows


@cache
def nothing() -> LinkedTrace:
    return Scene().linked()


@cache
def op_alone() -> LinkedTrace:
    scene = Scene(devices=())
    scene.thread().run("aten::add", 1)
    return scene.linked()


@cache
def kernel_alone() -> LinkedTrace:
    scene = Scene()
    scene.stream(7).run("kernel", 10_000, 0)
    return scene.linked()


@cache
def instant_kernels() -> LinkedTrace:
    scene = clean()
    for event in scene.events:
        if event.category == "kernel":
            event.dur = 0
    return scene.linked()


@pytest.mark.full
@settings(deadline=None, derandomize=True, max_examples=20)
@given(scene=scenes())
def test_any_scene_has_rows_that_fit(scene: Scene) -> None:
    linked = scene.linked()
    for detector in rank_detectors():
        check(detector, linked)


@each
def test_a_trace_of_nothing_has_no_evidence(detector: Detector) -> None:
    assert check(detector, nothing()).is_empty()
    assert check(detector, op_alone()).is_empty()


@each
def test_a_single_kernel_without_a_launch_is_no_evidence(detector: Detector) -> None:
    assert check(detector, kernel_alone()).is_empty()


def without(scene: Scene, *arguments: str) -> Scene:
    for event in scene.events:
        for name in arguments:
            event.args.pop(name, None)
    return scene


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", [detector.name for detector in rank_detectors()])
def test_a_pattern_without_shapes_or_correlations_gives_no_error(name: str) -> None:
    detector = next(detector for detector in rank_detectors() if detector.name == name)
    shapes = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    whole = PATTERNS[name].scenes[0].linked()
    found = check(detector, whole)
    for lost in (shapes, ("External id",), ("Sequence number", "Fwd thread id"), ("bytes",)):
        check(detector, without(PATTERNS[name].scenes[0], *lost).linked())
    # Without steps the same is found, in none.
    no_steps = check(detector, whole, "none of its annotations")
    assert no_steps.get_column("step").null_count() == no_steps.height
    assert no_steps.height or name in OF_STEPS or not found.height


@pytest.mark.parametrize("name", [detector.name for detector in rank_detectors()])
@pytest.mark.parametrize("value", ["[[-1, 3], [3, -1]]", "[[1e9, null], {}]"])
def test_odd_shapes_give_no_error(name: str, value: str) -> None:
    detector = next(detector for detector in rank_detectors() if detector.name == name)
    scene = PATTERNS[name].scenes[0]
    for event in scene.events:
        if "Input Dims" in event.args:
            event.args["Input Dims"] = value
    check(detector, scene.linked())


@each
def test_work_without_length_saves_nothing_impossible(detector: Detector) -> None:
    check(detector, instant_kernels())
