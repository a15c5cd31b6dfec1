"""Jobs of many ranks: they open, answer, cost no more for each rank, and show no more than is legible."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tracebraid
from benchmarks.many_ranks import RankCopies, write_ranks
from benchmarks.whole_job_task import RANKS_PER_HOST, SKEW_NS, job_of_copies
from tests.builders import kernel, kineto_text, op, write
from tests.integration.command import run
from tracebraid.analysis.collectives.members.members import members
from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.model.job import Job

_RANKS = 64


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rank of two steps with collectives of three sizes, which name their group."""
    events = []
    for number in range(9):
        at = 1000.0 * number
        sizes: dict[str, Any] = {
            "In msg nelems": 64 << number % 3,
            "Out msg nelems": 64 << number % 3,
            "dtype": "Float",
        }
        group: dict[str, Any] = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2}
        events += [
            op("aten::add", at, 20.0, External_id=number + 1),
            kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 100, 400.0, number + 1, **sizes, **group),
        ]
    events += [op(f"ProfilerStep#{step}", 4500.0 * step, 4500.0, cat="user_annotation") for step in range(2)]
    config = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]
    header = {
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": config},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
    }
    path = tmp_path_factory.mktemp("template") / "trace.json"
    write(path, kineto_text(events, header))
    return path


@pytest.fixture(scope="module")
def folder(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("job") / "traces"
    write_ranks(RankCopies(_RANKS, template, None), path)
    return path


def answers(job: Job) -> dict[str, pl.DataFrame]:
    return {analysis.name: getattr(tracebraid, analysis.name)(job) for analysis in JOB_ANALYSES}


def test_written_ranks_have_their_groups_and_the_clocks_of_their_hosts(folder: Path) -> None:
    job = tracebraid.open(folder)
    clocks = tracebraid.clocks(job)
    offsets = clocks.get_column("offset_ns").to_list()
    assert offsets == pytest.approx([-(rank // RANKS_PER_HOST) * SKEW_NS for rank in range(_RANKS)], abs=2e5)
    sizes = tracebraid.matched_groups(job).get_column("group_size").unique().sort().to_list()
    assert sizes == [RANKS_PER_HOST, _RANKS]
    present = tracebraid.collectives(job).get_column("ranks").list.len().to_list()
    assert present.count(_RANKS) == 3


def test_the_same_arguments_write_the_same_bytes(template: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_ranks(RankCopies(3, template, None, steps=1), tmp_path / name)
    first, second = ([path.read_bytes() for path in sorted((tmp_path / name).iterdir())] for name in "ab")
    assert len(first) == 3
    assert first == second
    assert len(set(first)) == 3


def test_the_order_in_which_ranks_are_asked_changes_no_answer(folder: Path) -> None:
    job = tracebraid.open(folder)
    other = replace(job, files=tuple(reversed(job.files)), _kept={}, _taken={})
    expected, found = answers(job), answers(other)
    assert not expected["stragglers"].is_empty()
    for name, frame in expected.items():
        assert_frame_equal(frame, found[name])


def test_a_job_of_three_hundred_ranks_answers(template: Path) -> None:
    ranks = 300
    job = job_of_copies(tracebraid.read_timeline(template), ranks)
    assert tracebraid.clocks(job).height == ranks
    assert tracebraid.collective_ranks(job).get_column("rank").n_unique() == ranks


def test_metrics_search_no_table_of_all_ranks_for_each_rank(
    template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline, search = tracebraid.read_timeline(template), pl.DataFrame.filter
    searches: list[str] = []

    def counted(*given: Any, **named: Any) -> pl.DataFrame:
        searches.append("one")
        return search(*given, **named)

    counts = []
    for job in (job_of_copies(timeline, ranks) for ranks in (8, _RANKS)):
        tracebraid.metrics(job)
        searches.clear()
        with monkeypatch.context() as patched:
            patched.setattr(pl.DataFrame, "filter", counted)
            tracebraid.metrics(job)
        counts.append(len(searches))
    few, many = counts
    assert 0 < many < few + 8


def test_members_of_a_group_take_no_more_memory_where_it_has_more_ranks(template: Path) -> None:
    timeline = tracebraid.read_timeline(template)

    def of_rank(ranks: int) -> int:
        return int(members(job_of_copies(timeline, ranks)[0]).estimated_size())

    assert of_rank(1024) < 1.2 * of_rank(8)


def test_commands_show_few_of_many_ranks_and_say_how_many_more(folder: Path) -> None:
    text = run("summary", str(folder)).stdout
    assert f"{_RANKS - 16} more ranks" in text
    assert len(text.splitlines()) < 200
    whole = json.loads(run("summary", str(folder), "--json").stdout)
    assert len(whole["ranks"]) == _RANKS
