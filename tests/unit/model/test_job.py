"""Several questions, all ranks, one pass."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.builders import kineto_text, op, write
from tests.linked_ranks import linked_ranks
from tests.planted import Scene
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.capture_facts import CaptureFacts, capture_facts_of
from tracebraid.model.engine import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rank_files import Progress, RankFiles


class Loads:
    """Loads ranks, and keeps which, and which of those loaded before were still in memory."""

    def __init__(self, folder: Path) -> None:
        self.ranks: list[int] = []
        self.alive: list[list[int]] = []
        self._seen: list[weakref.ref[LinkedTrace]] = []
        for rank in range(3):
            header = {"distributedInfo": {"rank": rank, "world_size": 3}}
            write(folder / f"kineto_trace_{rank}.json", kineto_text([op(f"op{rank}", 0, 1)], header))
        self.job = Job(
            str(folder),
            tuple(RankFiles(rank, str(folder / f"kineto_trace_{rank}.json"), None) for rank in range(3)),
            self._load,
        )

    def _load(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        self.alive.append([one.rank for seen in self._seen if (one := seen()) is not None])
        self.ranks.append(files.rank)
        assert files.kineto is not None
        linked = link_traces(tracebraid.read_timeline(files.kineto, progress))
        self._seen.append(weakref.ref(linked))
        return linked


@pytest.fixture
def loads(tmp_path: Path) -> Iterator[Loads]:
    """No cycle may keep a rank in memory until the collector comes."""
    gc.disable()
    yield Loads(tmp_path)
    gc.enable()


def test_several_questions_read_each_rank_once_and_release_it_before_the_next(loads: Loads) -> None:
    asked = tracebraid.analyses
    steps, ops, breakdown = loads.job.ask(asked.steps, asked.ops, asked.breakdown)
    assert loads.ranks == [0, 1, 2]
    assert loads.alive == [[], [], []]
    assert steps.is_empty()
    assert ops.select("rank", "name").rows() == [(0, "op0"), (1, "op1"), (2, "op2")]
    assert breakdown.get_column("rank").to_list() == [0, 1, 2]


@pytest.mark.parametrize(
    "question", [tracebraid.analyses.ops, tracebraid.analyses.kernels, tracebraid.analyses.breakdown]
)
def test_each_public_question_releases_a_rank_before_the_next(
    loads: Loads, question: Callable[[Job], object]
) -> None:
    question(loads.job)
    assert loads.alive == [[], [], []]


def test_answers_of_one_pass_are_those_of_single_questions(loads: Loads) -> None:
    together = loads.job.ask(
        tracebraid.analyses.ops, lambda linked: tracebraid.analyses.ops(linked, per_step=True)
    )
    alone = tracebraid.analyses.ops(loads.job), tracebraid.analyses.ops(loads.job, per_step=True)
    assert all(one.equals(other) for one, other in zip(together, alone, strict=True))


def test_all_stages_of_a_rank_are_released_with_it(loads: Loads) -> None:
    def use(linked: LinkedTrace) -> int:
        return linked.compute_all().host_tree.height

    assert list(loads.job.each(use)) == [1, 1, 1]
    assert loads.alive == [[], [], []]


def test_a_rank_that_was_opened_is_not_read_again(loads: Loads) -> None:
    kept = loads.job[1]
    loads.job.ask(tracebraid.analyses.ops)
    assert loads.ranks == [1, 0, 2]
    assert loads.job[1] is kept


def test_some_ranks_in_the_order_that_is_asked_for(loads: Loads) -> None:
    assert list(loads.job.each(lambda linked: linked.rank, [2, 0])) == [2, 0]
    with pytest.raises(tracebraid.ArgumentError):
        list(loads.job.each(lambda linked: linked.rank, [9]))


def test_threads_that_open_a_rank_read_it_once(loads: Loads) -> None:
    found: list[LinkedTrace] = []
    threads = [threading.Thread(target=lambda: found.append(loads.job[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads.ranks == [0]
    assert len(set(map(id, found))) == 1


def test_no_question_has_no_answer(loads: Loads) -> None:
    assert loads.job.ask() == ()


def test_an_answer_is_a_table_of_all_ranks(loads: Loads) -> None:
    (named,) = loads.job.ask(lambda linked: pl.DataFrame({"rank": [linked.rank]}))
    assert named.get_column("rank").to_list() == [0, 1, 2]


def test_a_rank_that_could_not_be_opened_is_not_kept_by_a_later_pass(loads: Loads, tmp_path: Path) -> None:
    path = tmp_path / "kineto_trace_0.json"
    text = path.read_text()
    path.write_text("damaged")
    with pytest.raises(tracebraid.InputError):
        loads.job[0]
    path.write_text(text)
    loads.job.ask(tracebraid.analyses.ops)
    assert loads.alive[-2:] == [[], []]


def test_what_is_taken_of_a_rank_is_kept_and_the_rank_is_not(loads: Loads) -> None:
    names = {"ops": lambda linked: tracebraid.analyses.ops(linked).get_column("name").to_list()}
    assert [taken["ops"] for taken in loads.job.take(names)] == [["op0"], ["op1"], ["op2"]]
    assert (loads.ranks, loads.alive) == ([0, 1, 2], [[], [], []])
    both = list(loads.job.take({**names, "rank": lambda linked: linked.rank}))
    assert [taken["rank"] for taken in both] == [0, 1, 2]
    assert loads.ranks == [0, 1, 2] * 2
    assert list(loads.job.take(names)) == [{"ops": taken["ops"]} for taken in both]
    assert loads.ranks == [0, 1, 2] * 2


def test_a_second_question_about_the_whole_job_reads_no_rank_again(loads: Loads) -> None:
    assert tracebraid.analyses.clocks(loads.job).equals(tracebraid.analyses.clocks(loads.job))
    assert (loads.ranks, loads.alive) == ([0, 1, 2], [[], [], []])


def test_the_next_question_about_the_job_reads_no_rank_again(loads: Loads) -> None:
    tracebraid.analyses.collectives(loads.job)
    assert loads.ranks == [0, 1, 2]
    assert loads.alive == [[], [], []]
    tracebraid.analyses.clocks(loads.job)
    tracebraid.analyses.rank_waits(loads.job)
    tracebraid.analyses.matched_groups(loads.job)
    assert loads.ranks == [0, 1, 2]
    tracebraid.analyses.rank_steps(loads.job)
    assert loads.ranks == [0, 1, 2, 0, 1, 2], "it takes what nobody took before"


def test_ranks_are_linked_with_each_other_once_for_each_annotation(loads: Loads) -> None:
    first = linked_ranks(loads.job)
    assert linked_ranks(loads.job).collectives is first.collectives
    assert linked_ranks(loads.job.with_annotation("another")).collectives is not first.collectives


# --- What a capture says of its process is read from the trace; anything else there is left alo ------


def facts_of(facts: Any) -> CaptureFacts:
    scene = Scene()
    scene.facts = facts
    return capture_facts_of(scene.linked().timeline)


def test_what_was_noted_is_read() -> None:
    found = facts_of({"threads": 4, "cores": 2, "torch": "2.13.0+cpu", "resident_bytes": [1, 2, 3]})
    assert (found.threads, found.cores, found.torch) == (4, 2, "2.13.0+cpu")
    assert found.resident_bytes == (1, 2, 3)


@pytest.mark.parametrize(
    "facts",
    [
        {"threads": "4", "torch": 2, "resident_bytes": ["1"]},
        {"threads": -1, "device_bytes": [1, -1]},
        {"cores": True},
    ],
)
def test_other_types_are_left_alone(facts: dict[str, Any]) -> None:
    assert facts_of(facts) == CaptureFacts()
