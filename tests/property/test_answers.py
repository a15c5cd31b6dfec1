"""Answers over random scenes: parts add up to what was planted, to the ns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings

from tests.planted import Planted, Scene
from tests.planted.events import ANNOTATION, KERNEL, OP
from tests.planted.random_scenes import scenes
from tests.planted.scenes import clean
from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.analysis.kernels.launchers import launchers
from tracebraid.analysis.ops.ops import ops
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.steps import steps
from tracebraid.analysis.validity.validity import validity
from tracebraid.model.column import Kind
from tracebraid.model.questions.analysis import Analysis

steady = settings(deadline=None, derandomize=True, max_examples=25)

WORK = (KERNEL, "gpu_memcpy", "gpu_memset")


def duration(events: Iterable[Planted]) -> int:
    return sum(event.dur for event in events)


def step_of(event: Planted) -> str | None:
    """The step around the launch of work."""
    around = [host.name for host in event.ancestors() if host.name.startswith("ProfilerStep#")]
    return around[0] if around else None


def assert_fits(analysis: Analysis, found: pl.DataFrame) -> None:
    assert dict(found.schema) == analysis.table.polars_schema(), analysis.name
    for column in analysis.table.columns:
        if column.kind is Kind.FLOAT:
            values = found.get_column(column.name)
            assert not (values.is_nan() | values.is_infinite()).any(), (analysis.name, column.name)


@steady
@given(scenes())
def test_every_answer_fits_its_table_and_depends_on_no_other(scene: Scene) -> None:
    linked, again = scene.linked(), scene.linked()
    found = {analysis.name: analysis.answer(linked) for analysis in ANALYSES}
    for analysis in reversed(ANALYSES):
        assert_fits(analysis, found[analysis.name])
        assert analysis.answer(again).equals(found[analysis.name]), analysis.name
        assert found[analysis.name].get_column("rank").unique().to_list() in ([], [scene.rank])


@steady
@given(scenes(device=False))
def test_every_answer_can_do_without_a_device(scene: Scene) -> None:
    linked = scene.linked()
    for analysis in ANALYSES:
        assert_fits(analysis, analysis.answer(linked))


@pytest.mark.parametrize("scene", [Scene(), Scene(devices=[])], ids=["empty", "no device"])
def test_every_answer_can_do_without_events(scene: Scene) -> None:
    linked = scene.linked()
    for analysis in ANALYSES:
        assert_fits(analysis, analysis.answer(linked))


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
@pytest.mark.parametrize("per_step", [False, True])
def test_every_answer_of_a_clean_scene_is_in_order_by_step_too(analysis: Analysis, per_step: bool) -> None:
    options: dict[str, Any] = {"per_step": per_step} if "per_step" in analysis.options else {}
    scene = clean(world_size=2)
    found = analysis.answer(scene.linked(), **options)
    assert_fits(analysis, found)
    assert found.equals(analysis.answer(scene.linked(), **options))


@steady
@given(scenes())
def test_the_parts_of_a_breakdown_add_up_to_the_span(scene: Scene) -> None:
    found = breakdown(scene.linked())
    parts = pl.sum_horizontal("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")
    assert found.select((parts == pl.col("span_ns")).all()).item() is not False
    assert all(
        found.select(pl.col(c).min() >= 0).item() is not False for c in found.columns if c.endswith("_ns")
    )
    hidden = pl.col("overlap_ns") + pl.col("exposed_communication_ns")
    assert found.select((hidden == pl.col("communication_ns")).all()).item() is not False


@steady
@given(scenes())
def test_a_breakdown_spans_the_work_and_each_step(scene: Scene) -> None:
    rows = {row["step"]: row for row in breakdown(scene.linked()).to_dicts()}
    work = scene.of_category(*WORK)
    if work:
        whole = rows[None]
        assert whole["start_ns"] == min(event.ts for event in work)
        assert whole["start_ns"] + whole["span_ns"] == max(event.end for event in work)
        for step in scene.of_category(ANNOTATION):
            if step.name in rows:
                assert (rows[step.name]["start_ns"], rows[step.name]["span_ns"]) == (step.ts, step.dur)


@steady
@given(scenes())
def test_launchers_add_up_to_the_work_of_each_step(scene: Scene) -> None:
    linked = scene.linked()
    work = scene.of_category(*WORK)
    over_all = launchers(linked)
    assert over_all.get_column("device_ns").sum() == duration(work)
    assert over_all.get_column("kernels").sum() == len(work)
    by_step = launchers(linked, per_step=True).group_by("step").agg(pl.col("device_ns").sum())
    # A step is a window of time: what another thread launches in it is of it too.
    main = [event for event in work if event.call is not None and event.call.tid == scene.pid]
    if len(main) == len(work):
        expected = {step_of(event): 0 for event in work}
        for event in work:
            expected[step_of(event)] += event.dur
        assert dict(by_step.iter_rows()) == expected


@steady
@given(scenes())
def test_kernels_add_up_to_the_work(scene: Scene) -> None:
    found = kernels(scene.linked())
    work = scene.of_category(*WORK)
    names = {event.name for event in work}
    sums = dict(found.group_by("name").agg(pl.col("total_ns").sum()).iter_rows())
    assert sums == {name: duration(e for e in work if e.name == name) for name in names}
    assert found.get_column("count").sum() == len(work)


@steady
@given(scenes())
def test_ops_add_up_to_the_work_that_they_launched(scene: Scene) -> None:
    found = ops(scene.linked())
    launched = [event for event in scene.of_category(*WORK) if event.op is not None]
    assert found.get_column("device_self_ns").sum() == duration(launched)
    host = scene.of_category(OP, ANNOTATION)
    assert found.get_column("count").sum() == len(host)
    assert found.get_column("host_self_ns").sum() == duration(op for op in host if op.op is None)


@steady
@given(scenes())
def test_steps_are_those_planted(scene: Scene) -> None:
    planted = [e for e in scene.of_category(ANNOTATION) if e.name.startswith("ProfilerStep#")]
    rows = steps(scene.linked()).select("step", "start_ns", "end_ns").rows()
    assert rows == [(event.name, event.ts, event.end) for event in planted]


def test_nothing_speaks_against_a_clean_scene() -> None:
    assert validity(clean(world_size=2).linked()).is_empty()
