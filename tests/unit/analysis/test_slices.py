"""Slices of a timeline: events on lines, what launched them, short ones merged, and all ranks on one clock."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.planted import Host, PlannedJob, Scene, device_scene
from tests.planted.events import MEMORY, OP
from tracebraid.analysis.slices import (
    MOST_OVERLAPPING,
    RankSlices,
    SliceChoice,
    levels_of,
    merged,
    merging_width,
    rank_slices,
    timeline_view,
)
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.report import TIMELINE_TABLES, SliceKind
from tracebraid.model.step import step_name


def _scene() -> Scene:
    scene, host, stream = device_scene()
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
    scene, host, stream = device_scene()
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
    scene, host, stream = device_scene()
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


_LINES = {"lane": pl.Int64, "ts_ns": pl.Int64, "dur_ns": pl.Int64, "depth": pl.Int64}


def _levels(slices: list[tuple[int, int, int]], depths: list[int | None] | None = None) -> pl.DataFrame:
    """The slices (lane, start, end) in their order, with their lines."""
    rows = [(lane, start, end - start) for lane, start, end in slices]
    found = [(*row, depth) for row, depth in zip(rows, depths or [None] * len(rows), strict=True)]
    frame = pl.DataFrame(found, schema=_LINES, orient="row")
    frame = frame.sort("lane", "ts_ns", "dur_ns", descending=[False, False, True])
    return frame.with_columns(levels_of(frame))


@cases(
    "slices, depths, levels",
    {
        "known nesting": (
            [(0, 0, 100), (0, 10, 90), (0, 20, 30), (0, 95, 99), (0, 100, 120)],
            [0, 1, 2, 1, 0],
            [0, 1, 2, 1, 0],
        ),
        "overlaps": (
            [(3, 0, 10), (3, 5, 15), (3, 8, 20), (3, 15, 16), (3, 20, 30), (4, 0, 10)],
            None,
            [0, 1, 2, 3, 0, 0],
        ),
        "inside one of two that overlap": ([(0, 0, 10), (0, 5, 15), (0, 11, 14)], None, [0, 1, 2]),
    },
)
def test_slices_have_lines(
    slices: list[tuple[int, int, int]], depths: list[int | None] | None, levels: list[int]
) -> None:
    assert _levels(slices, depths).get_column("level").to_list() == levels


def test_more_overlaps_than_lines_share_the_last() -> None:
    many = MOST_OVERLAPPING + 5
    found = _levels([(0, number, 1000 + number) for number in range(many)])
    assert found.height == many
    assert found.get_column("level").max() == MOST_OVERLAPPING - 1


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 60), st.integers(0, 30)).map(
            lambda row: (row[0], row[1], row[1] + row[2])
        ),
        max_size=40,
    )
)
def test_slices_of_a_line_never_overlap_and_inner_ones_lie_lower(slices: list[tuple[int, int, int]]) -> None:
    rows = _levels(slices).iter_rows(named=True)
    drawn = [(row["lane"], row["level"], row["ts_ns"], row["ts_ns"] + row["dur_ns"]) for row in rows]
    assert len(drawn) == len(slices)
    for number, (lane, level, start, end) in enumerate(drawn):
        for other_lane, other_level, other_start, other_end in drawn[number + 1 :]:
            if lane != other_lane or other_start >= end:
                continue
            assert level != other_level
            if other_end <= end and start < other_start:
                assert other_level > level


def _line(lengths_and_gaps: list[tuple[int, int]]) -> pl.DataFrame:
    """Slices of a line, one behind the other."""
    now, rows = 0, []
    for number, (length, gap) in enumerate(lengths_and_gaps):
        now += gap
        rows.append((number, 0, 0, now, length))
        now += length
    schema = dict.fromkeys(("event_id", "lane", "level", "ts_ns", "dur_ns"), pl.Int64())
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_few_slices_stay_as_they_are() -> None:
    slices = _line([(5, 0), (1, 1), (0, 3)])
    width = merging_width(slices, 3)
    found, rows = merged(slices, width)
    assert width == 0
    assert found.get_column("event_id").to_list() == [0, 1, 2] == rows.to_list()
    assert found.get_column("count").to_list() == [1, 1, 1]


def test_short_slices_become_a_slice_that_says_how_many_they_are() -> None:
    slices = _line([(100, 0), (1, 12), (2, 1), (3, 1), (100, 10)])
    found, rows = merged(slices, 16)
    assert found.select("start_ns", "end_ns", "count", "busy_ns", "event_id").rows() == [
        (0, 100, 1, 100, 0),
        (112, 120, 3, 6, None),
        (130, 230, 1, 100, 4),
    ]
    assert rows.to_list() == [0, 1, 1, 1, 2]


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=60), st.integers(1, 60)
)
def test_every_event_is_counted_and_lines_stay_without_overlaps(
    slices: list[tuple[int, int]], most: int
) -> None:
    line = _line(slices)
    width = merging_width(line, most)
    found, rows = merged(line, width)
    assert found.height <= most
    assert found.get_column("count").sum() == len(slices)
    assert found.get_column("busy_ns").sum() == sum(length for length, _ in slices)
    ends, starts = found.get_column("end_ns").to_list(), found.get_column("start_ns").to_list()
    assert all(end <= start for end, start in zip(ends[:-1], starts[1:], strict=True))
    for (_, _, _, start, length), row in zip(line.iter_rows(), rows, strict=True):
        assert starts[row] <= start
        assert start + length <= ends[row]
    assert found.filter(pl.col("count") > 1).height == 0 or width > 0


@pytest.mark.parametrize("most", [1, 2])
def test_lines_are_not_merged_with_each_other(most: int) -> None:
    slices = _line([(1, 0)] * 6).with_columns(pl.Series("level", [0, 1] * 3))
    found, _ = merged(slices, merging_width(slices, most))
    assert found.get_column("level").to_list() == [0, 1]
    assert found.get_column("count").to_list() == [3, 3]


_AHEAD_NS = 7_000_000
_STEPS = 4


def _job(ahead_ns: int = _AHEAD_NS) -> PlannedJob:
    job = PlannedJob(2, hosts=[Host("a"), Host("b", ahead_ns=ahead_ns)])
    for number in range(1, _STEPS + 1):
        with job.step(number):
            job.compute(100_000)
            job.collective("allreduce", transfer=50_000)
    return job


def _view(job: PlannedJob, steps: tuple[str, ...] = (step_name(2),)) -> dict[str, pl.DataFrame]:
    parts = [rank_slices(scene.linked(), SliceChoice(steps)) for scene in job.scenes]
    return timeline_view(parts, link_ranks(job.parts()))


def test_ranks_whose_clocks_differ_are_aligned() -> None:
    view = _view(_job())
    ends = view["timeline-slices"].filter(pl.col("kind").cast(pl.String) == SliceKind.COMMUNICATION.value)
    assert ends.height == 2
    assert ends.get_column("collective").n_unique() == 1
    end = (ends.get_column("start_ns") + ends.get_column("duration_ns")).to_list()
    assert abs(end[0] - end[1]) < _AHEAD_NS / 100
    assert view["timeline-ranks"].get_column("is_aligned").to_list() == [True, True]
    assert view["timeline-ranks"].get_column("start_ns").min() == 0


def test_rows_of_launches_and_links_are_those_of_the_whole_table() -> None:
    view = _view(_job())
    slices, tracks = view["timeline-slices"], view["timeline-tracks"]
    rank = tracks.get_column("rank").gather(slices.get_column("track"))
    kinds = slices.get_column("kind").cast(pl.String).to_list()
    launched = slices.with_row_index().filter(pl.col("call").is_not_null())
    assert launched.height == 4
    for row, call in launched.select("index", "call").iter_rows():
        assert rank[row] == rank[call]
        assert kinds[call] == SliceKind.CALL.value
    for before, after in view["timeline-links"].select("before", "after").iter_rows():
        assert rank[before] == rank[after]


@pytest.mark.slow
def test_tracks_count_their_slices() -> None:
    view = _view(_job())
    tracks = view["timeline-tracks"]
    counts = view["timeline-slices"].group_by("track").len().sort("track").get_column("len")
    assert tracks.get_column("slices").to_list() == counts.to_list()
    assert tracks.get_column("rank").to_list() == sorted(tracks.get_column("rank"))
    threads = tracks.filter(~pl.col("is_device")).get_column("label").to_list()
    assert len(threads) == 2


def test_a_rank_without_a_clock_starts_with_the_others() -> None:
    job = PlannedJob(2, hosts=[Host("a"), Host("b", ahead_ns=3_600_000_000_000)])
    with job.step(1):
        job.compute(100_000)
    ranks = _view(job, (step_name(1),))["timeline-ranks"]
    assert ranks.get_column("start_ns").to_list() == [0, 0]
    assert False in ranks.get_column("is_aligned").to_list()


def test_without_slices_all_tables_are_there_and_empty() -> None:
    view = _view(_job(), ("no such step",))
    assert list(view) == list(TIMELINE_TABLES)
    for name, table in TIMELINE_TABLES.items():
        assert (view[name].height, dict(view[name].schema)) == (0, table.polars_schema())
