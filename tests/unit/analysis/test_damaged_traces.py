"""Traces in which something is missing or wrong: answers are partial or empty, of their schema, and never an error."""

from __future__ import annotations

import polars as pl
import pytest

import tracebraid
from tests.builders import call, kernel, op
from tests.planted import Scene, device_scene
from tests.planted.damaged import TRACES
from tests.unit.linking.made import linked_of
from tracebraid.analyses import catalog, copies, kernels, user_annotations
from tracebraid.model.analysis import Family, JobAnalysis, Need
from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.category import Role
from tracebraid.model.questions import Detector
from tracebraid.model.step import PROFILER_STEP

ANALYSES = [analysis for analysis in catalog() if not isinstance(analysis, JobAnalysis)]


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_every_answer_has_its_schema_and_finite_numbers(name: str) -> None:
    """It has no rows where the trace lacks what the analysis needs."""
    linked = linked_of(TRACES[name])
    for analysis in ANALYSES:
        answer = tracebraid.analyze(analysis.name, linked)
        assert answer.frame.is_empty() or not answer.is_unanswerable, analysis.name
        by_step = {"per_step": True} if "per_step" in analysis.options else {}
        for frame in (answer.frame, analysis.answer(linked, **by_step)):
            assert dict(frame.schema) == analysis.table.polars_schema(), analysis.name
            finite = frame.select(pl.col(pl.Float64).is_finite().all())
            assert all(all(row) for row in finite.rows()), analysis.name
    shown = 0 if Need.DEVICE_WORK in linked.hidden else len(linked.timeline.of_role(Role.DEVICE_WORK))
    assert kernels(linked).get_column("count").sum() == shown


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_every_detector_finds_what_its_schema_allows(name: str) -> None:
    linked = linked_of(TRACES[name])
    for detector in tracebraid.plugins.detectors():
        if isinstance(detector, Detector):
            for annotation in (PROFILER_STEP, "nothing"):
                found = detector.detect(linked.with_annotation(annotation))
                assert dict(found.schema) == EVIDENCE.polars_schema()
                long = found.get_column("end_ns") - found.get_column("start_ns")
                assert found.get_column("saving_ns").is_between(1, long).all()


def two_steps(*rows: str) -> Scene:
    """Steps with two launches each; and rows of these categories with the correlation and place of each launch."""
    scene, host, stream = device_scene()
    for number in range(2):
        with host.step(number), host.annotation("forward"), host.op("aten::mm", 20_000) as op:
            host.launch(stream, "gemm", 50_000)
            host.launch(stream, "relu", 9_000)
        host.synchronize(stream)
        for work, launch in [(event, event.call) for event in scene.events if event.call is not None]:
            for place in (work, launch, op):
                for row in rows:
                    scene.raw({**place.json(), "cat": row, "args": work.args | {"External id": 7}})
    return scene


@pytest.mark.parametrize("row", ["overhead", "gpu_user_annotation"])
def test_rows_that_inherit_a_correlation_are_nobodys_device_time(row: str) -> None:
    """Since torch 2.14 `overhead` rows carry that of the op they delay; annotations of the device may have one too."""
    without, linked = two_steps().linked(), two_steps(row).linked()
    differing = [
        analysis.name for analysis in ANALYSES if not analysis.answer(linked).equals(analysis.answer(without))
    ]
    assert differing == ["user_annotations"] * (row == "gpu_user_annotation")
    # They are rows of it, and add to those of no other.
    annotations = user_annotations(linked).filter(pl.col("name") == "forward")
    assert annotations.equals(user_annotations(without).filter(pl.col("name") == "forward"))
    assert linked.coverage == without.coverage
    assert tracebraid.metrics(linked).equals(tracebraid.metrics(without))
    paths = [tracebraid.critical_path(one, replays=0).segments for one in (linked, without)]
    assert paths[0].equals(paths[1])


def test_very_large_copies_have_a_bandwidth() -> None:
    name, size = "Memcpy DtoD (Device -> Device)", 40 * 10**9
    linked = linked_of([kernel(name, 20 * i, 10, i, cat="gpu_memcpy", bytes=size) for i in (1, 2)])
    (row,) = copies(linked).to_dicts()
    assert row["bandwidth_bytes_per_s"] == row["max_bandwidth_bytes_per_s"] == pytest.approx(4e15)


@pytest.mark.slow
def test_another_annotation_may_mark_the_steps() -> None:
    launch = [call("cudaLaunchKernel", 5, 2, 1), kernel("k", 9, 5, 1)]
    linked = linked_of([op("train#1", 0, 90, cat="user_annotation"), *launch])
    for analysis in ANALYSES:
        if analysis.family is Family.LAUNCHES:
            table = analysis.answer(linked.with_annotation("train"))
            assert set(table.get_column("step")) <= {"train#1", None}, analysis.name
