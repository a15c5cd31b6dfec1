"""Nodes that no program should write: the check says what is wrong, in time, and never fails."""

from __future__ import annotations

import tracemalloc

import numpy as np
import polars as pl

from tests.chakra_ranks import collective, compute, rank_of
from tracebraid.chakra.checking.check_job import JobFacts, check_job
from tracebraid.chakra.checking.rank_facts import RankFacts, rank_facts
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.chakra.lint_code import LintCode, Simulator
from tracebraid.model.schema.chakra import CHAKRA_NODES
from tracebraid.reports.chakra_check import lint_text

_NAME_BYTES = 10_000_000


def made(before: np.ndarray, after: np.ndarray, nodes: int) -> ChakraRank:
    ids = np.arange(nodes)
    frame = pl.DataFrame({"node_id": ids}).with_columns(
        name=pl.lit("n"), type=pl.lit("COMP_NODE"), duration_micros=pl.lit(1)
    )
    deps = NodeDeps.of_pairs(before, after, ids)
    return ChakraRank(
        0, "0.0.4", (), CHAKRA_NODES.conform(frame, fill_missing=True), deps, NodeDeps.none(nodes)
    )


def found(facts: RankFacts) -> dict[LintCode, str]:
    return {finding.code: str(finding) for finding in facts.findings}


def test_a_chain_of_a_million_nodes_is_no_recursion() -> None:
    nodes = 1_000_000
    ids = np.arange(nodes)
    assert rank_facts(made(ids[:-1], ids[1:], nodes), "x").findings == ()


def test_a_circle_of_a_million_nodes_is_named_by_its_first() -> None:
    nodes = 1_000_000
    ids = np.arange(nodes)
    sentences = found(rank_facts(made(ids, np.roll(ids, -1), nodes), "x"))
    assert set(sentences) == {LintCode.DEPENDENCY_CYCLE, LintCode.NO_START_NODE}
    assert all(len(sentence) < 2000 for sentence in sentences.values())


def test_a_hundred_thousand_nodes_that_are_ready_at_once_are_warned_of() -> None:
    nodes = 100_002
    middle = np.arange(1, nodes - 1)
    first, last = np.zeros_like(middle), np.full_like(middle, nodes - 1)
    rank = made(np.concatenate([first, middle]), np.concatenate([middle, last]), nodes)
    assert set(found(rank_facts(rank, "x", Simulator.ASTRA_SIM))) == {LintCode.ASTRA_MANY_READY}


def test_collectives_without_any_order_that_meet_in_a_node_take_no_memory_of_their_square() -> None:
    many = [collective(number, size=number + 1) for number in range(3000)]
    nodes = [*many, *(compute(3000 + number, *range(0, 3000, 7)) for number in range(40))]
    tracemalloc.start()
    facts = rank_facts(rank_of(0, nodes), "x")
    check = check_job(JobFacts("x", [facts], [0]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {finding.code for finding in check.findings} == {LintCode.ORDER_BY_TIME}
    assert peak < 200_000_000


def test_names_and_groups_of_megabytes_and_of_control_characters_are_shortened() -> None:
    name = "\x1b[31m" + "x" * _NAME_BYTES
    nodes = [compute(0, 1, name=name), compute(1, 0, name=name), collective(2, group=name)]
    facts = rank_facts(rank_of(0, nodes), "x")
    check = check_job(JobFacts("x", [facts], [0], {name: [0, 9]}, "g"))
    for finding in check.findings:
        text = lint_text(finding)
        assert len(text) < 2000
        assert "\x1b" not in text


def test_ids_and_numbers_at_the_ends_of_int64_are_taken_as_they_are() -> None:
    most = 2**63 - 1
    nodes = [
        compute(most, us=most),
        compute(most - 1, most, us=most),
        compute(-(2**63), most - 1, us=-(2**63)),
        collective(5, most - 1, size=most),
    ]
    sentences = found(rank_facts(rank_of(0, nodes), "x"))
    assert set(sentences) == {LintCode.ID_NEGATIVE, LintCode.DURATION_NEGATIVE}


def test_a_job_of_which_no_file_could_be_read_has_its_findings() -> None:
    assert {finding.code for finding in check_job(JobFacts("x", [], [1])).findings} == {
        LintCode.RANKS_MISSING
    }
