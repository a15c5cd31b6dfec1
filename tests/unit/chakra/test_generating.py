"""Generated jobs: transformers by their formulas, chains, rings and trees, and ASTRA-sim's cycles."""

from __future__ import annotations

import json
import os
from graphlib import CycleError
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

import tracebraid
from tests.planted.synthetic import GOLDEN, Waits, bytes_by, checked, deps_of, small_jobs, transformer
from tests.unit.chakra.astra_sim_runs import RECORDED, network_of, simulated
from tracebraid.chakra import (
    Accelerator,
    ChainJob,
    ChakraRank,
    CollectiveCommType,
    CollectiveLink,
    ComputeLink,
    MessageJob,
    MessagePattern,
    NodeDeps,
    Parallelism,
    TrainingSteps,
    TransformerJob,
    links_of_text,
)
from tracebraid.chakra.generating.generate import chain_program, comm_groups, generated_ranks
from tracebraid.errors import ArgumentError
from tracebraid.model.device_peaks import Precision
from tracebraid.model.pipeline import passes_of_stage

H, LAYERS, VOCAB, S, MICRO = 512, 8, 1024, 128, 4
E = 2  # bytes of bf16
ACTIVATION = S * H * E


def module_sum(job: TransformerJob, column: str, ending: str) -> int:
    """Of all ranks, over computations whose module ends so."""
    return sum(
        int(
            rank.nodes.filter(pl.col("module").cast(pl.String).str.ends_with(ending)).get_column(column).sum()
        )
        for rank in generated_ranks(job)
    )


# --- operations -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "degrees",
    [Parallelism(data=2), Parallelism(tensor=4), Parallelism(2, 2, 4), Parallelism(pipeline=8)],
    ids=str,
)
def test_operations_are_those_of_the_formula_however_they_are_divided(degrees: Parallelism) -> None:
    """Narayanan et al., 2021: 72 b s l h^2 (1 + s / 6 h + V / 12 l h), all passes without recomputation."""
    done = sum(
        module_sum(transformer(degrees), "num_ops", ending)
        for ending in ("attention", "feed_forward", "output")
    )
    tokens = S * MICRO * degrees.data
    paper = 72 * tokens * LAYERS * H**2 * (1 + S / (6 * H) + VOCAB / (12 * LAYERS * H))
    assert done == pytest.approx(paper, rel=1e-12)


def test_operations_are_six_for_each_weight_and_token_beside_attention_s_scores() -> None:
    """Kaplan et al., "Scaling laws for neural language models", 2020: C = 6 N D, without the embedding."""
    job = transformer(Parallelism(data=2))
    done = sum(module_sum(job, "num_ops", ending) for ending in ("attention", "feed_forward", "output"))
    weights = LAYERS * 12 * H**2 + VOCAB * H
    tokens = S * MICRO * 2
    assert done - 3 * 4 * tokens * S * H * LAYERS == 6 * weights * tokens


def test_recomputation_adds_a_forward_pass_of_the_layers() -> None:
    once = transformer(Parallelism(data=2))
    again = replace(once, training=replace(once.training, recompute=True))
    for ending in ("attention", "feed_forward"):
        assert 3 * module_sum(again, "num_ops", ending) == 4 * module_sum(once, "num_ops", ending)


def test_experts_multiply_the_operations_of_tokens_and_not_of_weights() -> None:
    dense = module_sum(transformer(Parallelism(expert=1, data=4)), "num_ops", "feed_forward")
    routed = module_sum(transformer(Parallelism(expert=4), experts=8), "num_ops", "feed_forward")
    assert routed == 2 * dense  # two experts of each token


def test_time_is_that_of_operations_or_of_bytes_whichever_is_longer() -> None:
    device = Accelerator(flops_per_s=2e14, bytes_per_s=1e12, efficiency=0.5)
    job = replace(transformer(Parallelism(data=2)), accelerator=device)
    nodes = next(generated_ranks(job)).nodes.filter(type="COMP_NODE")
    for ops, moved, took in nodes.select("num_ops", "tensor_size", "duration_ns").iter_rows():
        assert took == round(max(ops / 1e14, moved / 5e11) * 1e9)
    assert nodes.select(pl.all_horizontal(pl.col("num_ops", "tensor_size") > 0)).to_series().all()
    micros, exact_ns = nodes.select(pl.col("duration_micros", "duration_ns").sum()).row(0)
    assert abs(micros - exact_ns / 1000) <= 0.5


# --- bytes ------------------------------------------------------------------------------------------
def test_tensor_parallel_bytes_are_megatron_s() -> None:
    """Four all-reduces of b s h for each layer and micro-batch; one of the embedding, one of the output, the loss."""
    for rank in checked(transformer(Parallelism(tensor=4))):
        layers = 4 * LAYERS * ACTIVATION
        ends = 2 * ACTIVATION + 3 * 4 * S
        assert bytes_by(rank) == {("tensor", "ALL_REDUCE"): MICRO * (layers + ends)}


def test_data_parallel_bytes_are_those_of_the_weights() -> None:
    weights = LAYERS * (12 * H**2 + 2 * H) + 2 * VOCAB * H + H
    for rank in checked(transformer(Parallelism(data=4))):
        assert bytes_by(rank) == {("data", "ALL_REDUCE"): weights * E}


def test_buckets_hold_what_was_asked_for() -> None:
    job = transformer(Parallelism(data=2))
    cap = 4 * 2**20
    job = replace(job, training=replace(job.training, bucket_bytes=cap))
    sizes = next(generated_ranks(job)).nodes.get_column("comm_size").drop_nulls().to_list()
    largest = 8 * H * H * E + H * E
    assert len(sizes) > 3
    assert all(cap <= size < cap + largest for size in sizes[:-1])
    assert 0 < sizes[-1] < cap + largest


def test_fully_sharded_bytes_are_a_pass_three_times() -> None:
    """A gather of all shards before each use, forward and backward, and a scatter of the gradients."""
    weights = LAYERS * (12 * H**2 + 2 * H) + 2 * VOCAB * H + H
    for rank in checked(transformer(Parallelism(data=4, fully_sharded=True))):
        assert bytes_by(rank) == {
            ("data", "ALL_GATHER"): 2 * MICRO * weights * E // 4,  # what each rank gives
            ("data", "REDUCE_SCATTER"): MICRO * weights * E,
        }
        optimizer = rank.nodes.filter(module="optimizer").get_column("num_ops").sum()
        assert optimizer == 12 * weights // 4


def test_expert_parallel_bytes_are_those_of_the_tokens_and_replicas_are_others_for_experts() -> None:
    job = transformer(Parallelism(data=2, expert=4), experts=8)
    attention, router, expert = 4 * H**2 + H, H * 8 + H, 8 * H**2
    dense = LAYERS * (attention + router) + 2 * VOCAB * H + H
    for rank in checked(job):
        assert bytes_by(rank) == {
            # Out and back, forward and backward: each token goes to two experts.
            ("expert", "ALL_TO_ALL"): MICRO * LAYERS * 4 * 2 * ACTIVATION,
            ("data", "ALL_REDUCE"): dense * E,
            ("expert_data", "ALL_REDUCE"): LAYERS * 2 * expert * E,  # two of the eight on each rank
        }
    groups = comm_groups(job)
    assert sorted(groups.values()) == sorted([[0, 1, 2, 3], [4, 5, 6, 7], [0, 4], [1, 5], [2, 6], [3, 7]])


def test_pipelines_pass_on_activations_and_gradients() -> None:
    ranks = checked(transformer(Parallelism(tensor=2, pipeline=4)))
    for rank in ranks:
        stage = rank.rank // 2
        neighbours = (stage > 0) + (stage < 3)
        of_rank = bytes_by(rank)
        assert of_rank["pipeline", "COMM_SEND_NODE"] == MICRO * neighbours * ACTIVATION
        assert of_rank["pipeline", "COMM_RECV_NODE"] == MICRO * neighbours * ACTIVATION
        peers = set(rank.nodes.get_column("comm_dst").drop_nulls()) | set(
            rank.nodes.get_column("comm_src").drop_nulls()
        )
        assert peers == {peer for peer in (rank.rank - 2, rank.rank + 2) if 0 <= peer < 8}


# --- layout and schedule ----------------------------------------------------------------------------
def test_groups_are_laid_out_as_documented() -> None:
    groups = comm_groups(transformer(Parallelism(2, 2, 2, 2), experts=2))
    as_lists = list(groups.values())
    assert list(groups) == [str(number) for number in range(1, len(groups) + 1)]
    assert [0, 1] in as_lists  # tensor
    assert [0, 2] in as_lists  # expert
    assert [0, 2, 4, 6] in as_lists  # data, outside of experts
    assert [0, 4] in as_lists  # data, of experts
    assert len(as_lists) == 8 + 8 + 4 + 8
    assert comm_groups(transformer(Parallelism(data=4))) == {}, "all ranks need no group"


def test_a_stage_runs_one_forward_and_one_backward() -> None:
    assert list(passes_of_stage(0, 3, 4)) == [
        *((True, 0), (True, 1)),
        *((True, 2), (False, 0), (True, 3), (False, 1)),
        *((False, 2), (False, 3)),
    ]
    assert list(passes_of_stage(2, 3, 2)) == [(True, 0), (False, 0), (True, 1), (False, 1)]
    assert list(passes_of_stage(0, 8, 2)) == [(True, 0), (True, 1), (False, 0), (False, 1)]


def test_steps_follow_each_other() -> None:
    training = TrainingSteps(sequence=128, steps=3)
    nodes = next(generated_ranks(transformer(Parallelism(data=2), training))).nodes
    of_step = [nodes.filter(step=str(step)).select("type", "comm_size", "num_ops") for step in range(3)]
    assert all(one.equals(other) for one, other in pairwise(of_step))
    assert nodes.height == sum(frame.height for frame in of_step)


# --- what cannot be ---------------------------------------------------------------------------------
def changed(**changes: Any) -> TransformerJob:
    job = transformer(Parallelism(data=2))
    known = {"model": job.model, "training": job.training, "accelerator": job.accelerator}
    parts: dict[str, Any] = {"parallelism": replace(job.parallelism, **changes.pop("parallelism", {}))}
    for name, part in known.items():
        parts[name] = replace(part, **changes.pop(name, {}))
    assert not changes
    return TransformerJob(**parts)


@pytest.mark.parametrize(
    "changes",
    [
        {"parallelism": {"tensor": 3}},
        {"parallelism": {"pipeline": 3}},
        {"parallelism": {"data": 1}},
        {"parallelism": {"data": 0}},
        {"parallelism": {"tensor": -2}},
        {"parallelism": {"expert": 2}},
        {"parallelism": {"expert": 3}, "model": {"experts": 8}},
        {"model": {"hidden": 0}},
        {"model": {"hidden": 500}},
        {"model": {"ffn": -1}},
        {"model": {"layers": 0}},
        {"model": {"experts": -1}},
        {"model": {"experts": 2, "top_k": 3}},
        {"model": {"experts": 2, "top_k": 0}},
        {"model": {"vocab": 1023}, "parallelism": {"tensor": 2}},
        {"training": {"sequence": 0}},
        {"training": {"micro_batches": 0}},
        {"training": {"steps": -1}},
        {"training": {"bucket_bytes": 0}},
        {"accelerator": {"flops_per_s": 0}},
        {"accelerator": {"bytes_per_s": -1.0}},
        {"accelerator": {"flops_per_s": float("nan")}},
        {"accelerator": {"efficiency": 1.5}},
        {"accelerator": {"precision": Precision.FP4}},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    job = changed(**changes)
    with pytest.raises(ArgumentError):
        next(generated_ranks(job))
    with pytest.raises(ArgumentError):
        comm_groups(job)


def test_what_64_bits_cannot_say_is_refused() -> None:
    with pytest.raises(ArgumentError):
        next(generated_ranks(changed(model={"hidden": 8 * 10**12})))


def test_more_nodes_than_a_rank_can_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracebraid.chakra.generating.program.MOST_NODES", 100)
    with pytest.raises(ArgumentError):
        next(generated_ranks(changed(training={"steps": 10**12})))


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


CYCLES: dict[str, list[int]] = json.loads(RECORDED.read_text())


def test_every_job_is_recorded() -> None:
    assert list(CYCLES) == list(JOBS)
    assert CYCLES["golden"] == [193_000] * 4


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(JOBS))
def test_our_run_agrees_with_astra_sim(name: str, tmp_path: Path) -> None:
    done = tracebraid.chakra.generate(JOBS[name], tmp_path / "job")
    ranks = tracebraid.chakra.run(done.path, network_of(JOBS[name])).ranks.sort("rank")
    assert ranks.get_column("end_ns").to_list() == CYCLES[name]


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["golden", "ring-all-reduce_5", "all_sharded_16", "three_64"])
def test_the_check_finds_nothing(name: str, tmp_path: Path) -> None:
    done = tracebraid.chakra.generate(JOBS[name], tmp_path / "job")
    found = tracebraid.chakra.check(done.path)
    assert len(found.ranks) == JOBS[name].ranks
    assert found.findings == ()


@pytest.mark.skipif("ASTRA_SIM" not in os.environ, reason="needs ASTRA-sim, whose binary ASTRA_SIM names")
@pytest.mark.parametrize("name", sorted(JOBS))
def test_astra_sim_runs_it_to_the_end(name: str, tmp_path: Path) -> None:
    assert simulated(JOBS[name], tmp_path / "job") == CYCLES[name]
