"""The slices of a rank are its events in the step, with what launched them and what they wait for."""

from __future__ import annotations

import polars as pl
import pytest

from tests.planted import Scene
from tests.planted.events import MEMORY, OP
from tracebraid.analysis.slices.choice import SliceChoice
from tracebraid.analysis.slices.rank_slices import RankSlices, rank_slices
from tracebraid.model.report.timeline_tables import SliceKind
from tracebraid.model.step import step_name


def _scene() -> Scene:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    for number in range(1, 4):
        with host.step(number, 50):
            with host.frame("train.py(10): step", 100), host.op("aten::mm", dims=[[2, 3], [3, 4]]):
                host.launch(stream, "gemm", 50_000)
            host.synchronize(stream)
        host.spend(1_000)
    return scene


@pytest.fixture(scope="module")
def scene() -> Scene:
    return _scene()


@pytest.fixture(scope="module")
def second(scene: Scene) -> RankSlices:
    return rank_slices(scene.linked(), SliceChoice((step_name(2),)))


def _in_step(scene: Scene, number: int) -> list[int]:
    step = scene.of(step_name(number))[0]
    return sorted(event.event_id for event in scene.events if step.ts <= event.ts < step.end)


def test_every_event_of_the_step_is_a_slice(scene: Scene, second: RankSlices) -> None:
    assert sorted(second.slices.get_column("event_id").to_list()) == _in_step(scene, 2)
    assert second.drawn.get_column("event_id").to_list() == _in_step(scene, 2)
    planted = {event.event_id: event for event in scene.events}
    for row in second.slices.iter_rows(named=True):
        event = planted[row["event_id"]]
        assert (row["name"], row["start_ns"], row["duration_ns"]) == (event.name, event.ts, event.dur)


def test_slices_know_what_launched_them(scene: Scene, second: RankSlices) -> None:
    rows = second.slices.get_column("event_id").to_list()
    kernel = scene.of("gemm")[1]
    found = second.slices.row(rows.index(kernel.event_id), named=True)
    assert kernel.call is not None
    assert kernel.op is not None
    assert (rows[found["call"]], rows[found["op"]]) == (kernel.call.event_id, kernel.op.event_id)
    assert (found["kind"], found["family"]) == (SliceKind.KERNEL.value, "gemm")


def test_ops_have_shapes_kind_and_line_of_code(scene: Scene, second: RankSlices) -> None:
    op = second.slices.filter(pl.col("event_id") == scene.of("aten::mm")[1].event_id).row(0, named=True)
    assert (op["kind"], op["shapes"], op["call_site"]) == (
        SliceKind.OP.value,
        "[[2, 3], [3, 4]]",
        "train.py(10): step",
    )
    assert op["level"] == 2


def test_the_synchronisation_waits_for_the_kernel(scene: Scene, second: RankSlices) -> None:
    rows = second.slices.get_column("event_id").to_list()
    ends = [(rows[row["before"]], row["kind"]) for row in second.links.iter_rows(named=True)]
    assert (scene.of("gemm")[1].event_id, "sync") in ends


def test_the_window_lasts_until_the_end_of_the_work_that_the_step_launched() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1), host.op("aten::mm"):
        late = host.launch(stream, "gemm", 500_000)
    found = rank_slices(scene.linked(), SliceChoice((step_name(1),)))
    assert found.window_ns == (scene.of(step_name(1))[0].ts, late.end)
    assert late.event_id in found.slices.get_column("event_id")


def test_of_merged_slices_every_event_is_counted(scene: Scene) -> None:
    linked = scene.linked()
    whole, few = (rank_slices(linked, SliceChoice((), most=most)) for most in (1_000, 12))
    assert few.merged_ns > 0 == whole.merged_ns
    assert few.slices.height <= 12 < whole.slices.height
    assert few.slices.get_column("count").sum() == whole.slices.height == few.drawn.height
    assert few.slices.get_column("busy_ns").sum() == whole.slices.get_column("duration_ns").sum()
    merged = few.slices.filter(pl.col("count") > 1)
    assert merged.get_column("kind").unique().to_list() == [SliceKind.MERGED.value]
    assert merged.get_column("name").null_count() == merged.height


def test_moments_are_not_drawn_and_work_that_overlaps_is() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    with host.step(1):
        host.spend(100)
        first = stream.run("a", 1_000, at=10)
        second = stream.run("b", 1_000, at=500)
        host.spend(2_000)
    scene.add("[memory]", MEMORY, scene.pid, scene.pid, 50, 0, {"Bytes": 8})
    late = scene.add("aten::late", OP, scene.pid, scene.pid, 90_000, 10)
    found = rank_slices(scene.linked(), SliceChoice((step_name(1),)))
    levels = dict(found.slices.select("event_id", "level").iter_rows())
    assert {levels[first.event_id], levels[second.event_id]} == {0, 1}
    assert late.event_id not in levels
    assert len(levels) == 3


@pytest.mark.parametrize("steps", [(), (step_name(7),)])
def test_without_events_or_without_the_step_there_is_nothing(steps: tuple[str, ...]) -> None:
    scene = Scene() if not steps else _scene()
    found = rank_slices(scene.linked(), SliceChoice(steps))
    assert (found.window_ns, found.slices.height, found.links.height, found.lanes.height) == (None, 0, 0, 0)
