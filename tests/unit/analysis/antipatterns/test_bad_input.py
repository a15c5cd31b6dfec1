"""Detectors of whatever a trace holds: bounds hold, and nothing raises."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings

from tests.builders import Json
from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tracebraid import api
from tracebraid.analysis.antipatterns.catalog import DETECTORS
from tracebraid.model.answers import EVIDENCE
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.detector import Detector


@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenes())
def test_savings_are_bounded_in_any_scene(scene: Scene) -> None:
    advice = api.advise(scene.linked(), 0)
    by_step = advice.by_step
    assert (by_step.get_column("further_ns") >= 0).all()
    assert (by_step.get_column("further_ns") <= by_step.get_column("saving_ns")).all()
    together = by_step.group_by("step").agg(pl.col("further_ns").sum(), pl.col("step_ns").first())
    assert (together.get_column("further_ns") <= together.get_column("step_ns")).all()
    assert advice.items.get_column("share").is_between(0, 1).all()


def bad_scenes() -> dict[str, Scene]:
    empty, instant, damaged = Scene(), Scene(devices=()), Scene()
    instant.thread().run("aten::mm", 0)
    host, stream = damaged.thread(), damaged.stream(7)
    with host.step(1):
        stream.run("kernel without a launch", 1000)
        host.call("cudaStreamSynchronize", 0)
        host.call("cudaMalloc", 0)
    momentary = Scene()
    momentary.stream(7).run("kernel without duration", 0)
    events: list[Json] = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::item", "pid": 1, "tid": 1, "ts": 1.0, "dur": 0},
        {
            "ph": "X",
            "cat": "gpu_memcpy",
            "name": "Memcpy HtoD (Pageable -> Device)",
            "pid": 0,
            "tid": 7,
            "ts": 2.0,
        },
        {"ph": "X", "cat": "kernel", "name": "", "pid": 0, "tid": 7, "ts": 3.0, "dur": -1, "args": {}},
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": "ProfilerStep#2",
            "pid": 1,
            "tid": 1,
            "ts": 0.0,
            "dur": 9,
        },
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": "ProfilerStep#3",
            "pid": 1,
            "tid": 1,
            "ts": 1.0,
            "dur": 3,
        },
    ]
    for event in events:
        damaged.raw(event)
    return {"empty": empty, "instant": instant, "damaged": damaged, "momentary": momentary}


@cache
def bad_trace(name: str) -> LinkedTrace:
    return bad_scenes()[name].linked()


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.name)
@pytest.mark.parametrize("name", bad_scenes())
@pytest.mark.parametrize("annotation", ["ProfilerStep", "nothing"])
def test_bad_input_gives_evidence_of_the_schema(detector: Detector, name: str, annotation: str) -> None:
    found = detector.detect(bad_trace(name), annotation)
    assert found.schema == pl.Schema(EVIDENCE.polars_schema())
    long = found.get_column("end_ns") - found.get_column("start_ns")
    assert (found.get_column("saving_ns") <= long).all()
    assert (found.get_column("saving_ns") > 0).all()
