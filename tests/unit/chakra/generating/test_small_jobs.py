"""Chains and patterns of messages: what each rank does, and that nobody waits for ever."""

from __future__ import annotations

from dataclasses import replace
from graphlib import CycleError

import polars as pl
import pytest

from tests.unit.chakra.generating.synthetic import GOLDEN, Waits, checked, deps_of, small_jobs
from tracebraid.chakra.generating.chain import chain_program, links_of_text
from tracebraid.chakra.generating.generate import generated_ranks
from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.workloads import (
    ChainJob,
    CollectiveLink,
    ComputeLink,
    MessageJob,
    MessagePattern,
)

JOBS = small_jobs()


@pytest.mark.parametrize("name", sorted(JOBS))
def test_no_job_can_hang(name: str) -> None:
    checked(JOBS[name])


def test_the_oracle_finds_ranks_that_wait_in_a_circle() -> None:
    first, second = (
        ChakraRank(
            rank, "", (), chain_program(chain).nodes(), chain_program(chain).data_deps(), NodeDeps.none(2)
        )
        for rank, chain in enumerate(
            ChainJob(2, links_of_text(text))
            for text in ("ALL_REDUCE 1 > ALL_GATHER 1", "ALL_GATHER 1 > ALL_REDUCE 1")
        )
    )
    groups = {"1": [0, 1]}
    swapped = [
        replace(
            rank, nodes=rank.nodes.with_columns(pg_name=pl.when(comm_type="ALL_GATHER").then(pl.lit("1")))
        )
        for rank in (first, second)
    ]
    with pytest.raises(CycleError):
        Waits(swapped, groups).check()
    with pytest.raises(AssertionError):
        Waits([first, second], {}).check()


def test_the_same_job_has_the_same_nodes() -> None:
    for first, second in zip(generated_ranks(JOBS["all_16"]), generated_ranks(JOBS["all_16"]), strict=True):
        assert first.nodes.equals(second.nodes)
        assert list(deps_of(first)) == list(deps_of(second))
        assert first.attributes == second.attributes


def test_a_chain_is_what_its_text_says() -> None:
    assert links_of_text(f"{GOLDEN} > broadcast 4KiB 10us") == (
        ComputeLink(100_000),
        CollectiveLink(CollectiveCommType.ALL_REDUCE, 2**20),
        ComputeLink(50_000),
        CollectiveLink(CollectiveCommType.BROADCAST, 4096, 10_000),
    )
    ranks = checked(ChainJob(4, links_of_text(GOLDEN), repeats=2))
    nodes = ranks[3].nodes
    assert list(nodes.get_column("type")) == ["COMP_NODE", "COMM_COLL_NODE", "COMP_NODE"] * 2
    assert list(nodes.get_column("duration_micros")) == [100, 0, 50] * 2
    assert list(deps_of(ranks[3])) == [[], [0], [1], [2], [3], [4]]
    assert nodes.get_column("pg_name").null_count() == 6


def test_short_computations_do_not_vanish() -> None:
    nodes = checked(ChainJob(2, links_of_text(" > ".join(["COMP 400ns"] * 1000))))[0].nodes
    assert nodes.get_column("duration_micros").sum() == 400
    assert nodes.get_column("duration_ns").sum() == 400_000


def test_a_ring_moves_what_it_must() -> None:
    for rank in checked(MessageJob(MessagePattern.RING_ALL_REDUCE, 7, 1_000_003)):
        sent = rank.nodes.filter(type="COMM_SEND_NODE").get_column("comm_size")
        assert len(sent) == 2 * 6
        assert 2 * 6 * (1_000_003 // 7) <= sent.sum() <= 2 * 6 * (1_000_003 // 7 + 1)
    gathered = checked(MessageJob(MessagePattern.RING_ALL_GATHER, 7, 1_000_003))
    for rank in gathered:
        came = rank.nodes.filter(type="COMM_RECV_NODE").get_column("comm_size").sum()
        own = came - 1_000_003
        assert own in (-(1_000_003 // 7), -(1_000_003 // 7 + 1))


@pytest.mark.parametrize("ranks", [2, 3, 6, 8, 13])
def test_a_tree_reaches_all_in_as_few_rounds_as_can_be(ranks: int) -> None:
    jobs = {
        pattern: checked(MessageJob(pattern, ranks, 64))
        for pattern in (MessagePattern.TREE_BROADCAST, MessagePattern.TREE_REDUCE)
    }
    for job in jobs.values():
        sends = sum(rank.nodes.filter(type="COMM_SEND_NODE").height for rank in job)
        assert sends == ranks - 1
        most = max(rank.nodes.height for rank in job)
        assert most <= (ranks - 1).bit_length() + 1
    down, up = jobs.values()
    for one, other in zip(down, up, strict=True):
        to = one.nodes.get_column("comm_dst").drop_nulls().sort().to_list()
        assert to == other.nodes.get_column("comm_src").drop_nulls().sort().to_list()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "COMP",
        "COMP 100",
        "COMP -5us",
        "ALL_REDUCE",
        "ALL_REDUCE 1MiB 5",
        "RUN 1us",
        "COMP 1us >",
        "COMP 1us 2us",
        f"COMP {'9' * 400}s",
        "ALL_REDUCE 99999999999GiB",
    ],
)
def test_what_is_no_chain_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        links_of_text(text)


@pytest.mark.parametrize(
    "job",
    [
        ChainJob(1, (ComputeLink(1),)),
        ChainJob(2, ()),
        ChainJob(2, (ComputeLink(1),), repeats=0),
        ChainJob(2, (ComputeLink(-1),)),
        ChainJob(2, (CollectiveLink(CollectiveCommType.ALL_REDUCE, 0),)),
        ChainJob(2, (CollectiveLink(CollectiveCommType.BARRIER, 4),)),
        MessageJob(MessagePattern.TREE_BROADCAST, 1, 4),
        MessageJob(MessagePattern.TREE_BROADCAST, 4, 0),
        MessageJob(MessagePattern.TREE_BROADCAST, 4, 4, repeats=-1),
        MessageJob(MessagePattern.RING_ALL_REDUCE, 8, 7),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(job: ChainJob | MessageJob) -> None:
    with pytest.raises(ArgumentError):
        list(generated_ranks(job))
