"""The ranks of a timeline stand on the reference's clock, their collectives joined."""

from __future__ import annotations

import polars as pl

from tests.planted import Host, PlannedJob
from tracebraid.analysis.slices.choice import SliceChoice
from tracebraid.analysis.slices.rank_slices import rank_slices
from tracebraid.analysis.slices.timeline_view import timeline_view
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.report.timeline_tables import TIMELINE_TABLES, SliceKind
from tracebraid.model.step import step_name

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
