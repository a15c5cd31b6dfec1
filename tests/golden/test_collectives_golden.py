"""Collectives of real traces: of several ranks, of sampled ones, and of a single one."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.golden.test_analyze_golden import FILES, linked_of
from tracebraid.analysis.collectives.catalog import ANALYSES
from tracebraid.api.job.whole_job import linked_ranks
from tracebraid.model.collectives.transfer_method import TransferMethod
from tracebraid.model.linked_ranks import LinkedRanks

SAMPLED = "kineto/sampled_2_of_128"
DLRM = "pairs/dlrm_v100_8rank"
CLOCK_NS = 10_000
"""How well the ends of a collective agree between ranks of one host, with times in whole µs."""


def parts_add_up(ranks: LinkedRanks) -> None:
    found = next(a for a in ANALYSES if a.name == "collective_ranks").answer(ranks)
    parts = pl.sum_horizontal("waiting_ns", "transfer_ns", "rest_ns")
    assert found.select((parts == pl.col("dur_ns")).all()).item()
    assert found.select(pl.all_horizontal(pl.col("waiting_ns", "transfer_ns", "rest_ns") >= 0).all()).item()
    assert found.height == ranks.members.height


@pytest.mark.parametrize("name", FILES)
def test_every_trace_is_answered_as_a_job_of_one_rank(real_traces: Path, name: str) -> None:
    ranks = linked_ranks(linked_of(real_traces, name))
    for analysis in ANALYSES:
        found = analysis.answer(ranks)
        assert dict(found.schema) == analysis.table.polars_schema()
    parts_add_up(ranks)


@pytest.mark.parametrize("name", [DLRM, SAMPLED])
def test_parts_of_members_add_up(real_traces: Path, name: str) -> None:
    parts_add_up(linked_ranks(tracebraid.open(real_traces / name)))


def test_four_ranks_of_dlrm(real_traces: Path) -> None:
    job = tracebraid.open(real_traces / DLRM)
    found = tracebraid.collectives(job)
    assert found.height == 8
    assert found.get_column("ranks").to_list() == [[0, 1, 2, 3]] * 8
    # All end together: from the last arrival on it takes as long as the shortest member, clocks aside.
    members = tracebraid.collective_ranks(job)
    shortest = members.group_by("collective").agg(pl.col("dur_ns").min())
    both = found.join(shortest, on="collective")
    assert both.select(((pl.col("transfer_ns") - pl.col("dur_ns")).abs() <= CLOCK_NS).all()).item()
    # Four of eight ranks are missing, and the traces do not say so: nothing says that a transfer is no bound.
    assert found.get_column("is_bound").null_count() == 8
    totals = tracebraid.collective_totals(job).sort("caused_ns", descending=True)
    assert totals.item(0, "rank") == 2
    assert totals.item(0, "times_last") == 5
    assert totals["caused_ns"].sum() == totals["waiting_ns"].sum()


def test_a_single_rank_of_two_bounds_its_transfers(real_traces: Path) -> None:
    linked = linked_of(real_traces, "a100_ddp_nccl_rank0of2")
    found = tracebraid.collectives(linked)
    assert set(found.get_column("transfer_method")) == {TransferMethod.DURATION.value}
    assert found.filter(pl.col("group_size") == 2).get_column("is_bound").all()
    assert found.get_column("waiting_ns").null_count() == found.height
    assert found.get_column("bus_bytes_per_s").null_count() < found.height


def test_sampled_ranks_wait_only_where_they_are_matched(real_traces: Path) -> None:
    members = tracebraid.collective_ranks(tracebraid.open(real_traces / SAMPLED))
    alone = pl.col("collective").is_null()
    assert members.filter(alone).get_column("waiting_ns").null_count() == members.filter(alone).height
    assert members.filter(~alone).get_column("waiting_ns").null_count() == 0


def test_the_demo_has_no_bound() -> None:
    job = tracebraid.open(tracebraid.demo_path())
    found = tracebraid.collectives(job)
    assert found.height == 9
    assert set(found.get_column("transfer_method")) == {TransferMethod.LAST_ARRIVAL.value}
    assert not found.get_column("is_bound").any()
    assert found.get_column("bus_bytes_per_s").null_count() == 0
