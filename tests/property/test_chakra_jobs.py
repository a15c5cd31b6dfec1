"""Plans of any job, and generated jobs, can be run to their end."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted.chakra_plans import REPLICATE, SHRINK, disagreements, plan_of, stuck_ranks
from tests.planted.synthetic import DEVICE, bytes_by, checked
from tests.unit.linking.ranks.made_members import MadeJob
from tracebraid.chakra import (
    MessageJob,
    MessagePattern,
    Parallelism,
    TrainingSteps,
    Transformer,
    TransformerJob,
)
from tracebraid.chakra.plan.consistent_order import Rows, consistent_order
from tracebraid.errors import InputError
from tracebraid.model.collectives import text_of_ranks

_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
_SECOND_NS = 1_000_000_000


def program(seed: int, world: int, count: int, pairs: bool) -> MadeJob:
    """A job whose ranks communicate in several groups at once, each on a stream of its own, on clocks of their own.

    Sends end at once; a receive ends when its send was made; a collective when all have arrived. A stream goes on when
    what is on it has ended, and now and then waits for all that the rank has begun.
    """
    random = np.random.default_rng(seed)
    job = MadeJob(world, seed)
    clocks = random.integers(-_SECOND_NS, _SECOND_NS, world)
    groups = [
        list(range(world)),
        *(sorted(random.choice(world, size, False)) for size in random.integers(2, world + 1, 3)),
    ]
    free: dict[tuple[int, int], int] = defaultdict(int)
    latest = [0] * world
    numbers: dict[object, int] = defaultdict(int)
    for item in range(count):
        between_two = pairs and random.random() < 0.4
        group = len(groups) if between_two else int(random.integers(len(groups)))
        ranks = [int(rank) for rank in (random.choice(world, 2, False) if between_two else groups[group])]
        channel = (group, tuple(ranks))
        numbers[channel] += 1
        starts = {}
        for rank in ranks:
            waits_for = latest[rank] if random.random() < 0.5 else free[rank, group]
            starts[rank] = max(free[rank, group], waits_for) + int(random.integers(2_000, 40_000))
        last = max(starts.values())
        for number, rank in enumerate(ranks):
            is_send = between_two and number == 0
            arrived = starts[rank] if is_send else last
            end = arrived + int(random.integers(5_000, 60_000))
            free[rank, group], latest[rank] = end, max(latest[rank], end)
            ahead = 1_700_000_000_000_000_000 + int(clocks[rank])
            kind = ("send" if is_send else "recv") if between_two else _KINDS[(item + group) % len(_KINDS)]
            job.rows.append(
                {
                    "truth": item,
                    "rank": rank,
                    "event_id": item,
                    "type": kind,
                    "name": kind,
                    "stream": str(group),
                    "device": "0",
                    "process_group": f"pg{group}",
                    "communicator": f"c{group} {ranks if between_two else ''}",
                    "group_ranks": text_of_ranks(list(range(world)) if between_two else ranks),
                    "group_size": world if between_two else len(ranks),
                    "sequence": numbers[channel],
                    "source": ranks[0] if between_two else None,
                    "destination": ranks[1] if between_two else None,
                    "dtype": "float",
                    "in_bytes": int(1024 * (1 + item % 5)),
                    "out_bytes": int(1024 * (1 + item % 5)),
                    "issued_ns": starts[rank] + ahead - 1_000,
                    "start_ns": starts[rank] + ahead,
                    "end_ns": end + ahead,
                }
            )
    return job


@pytest.mark.full
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000), st.integers(2, 6), st.integers(1, 60), st.booleans())
def test_a_program_that_ends_ends_in_its_plan_in_its_own_order(
    seed: int, world: int, count: int, pairs: bool
) -> None:
    job = program(seed, world, count, pairs)
    plan = plan_of(job)
    assert stuck_ranks(plan) == []
    assert disagreements(plan) == []
    assert plan.communication.height == len(job.rows)
    assert not [name for name in plan.counts if name.startswith("alone") and name != "alone.single rank"]
    truth = pl.DataFrame(job.rows).select("rank", "event_id", "start_ns", "end_ns")
    rows = plan.communication.join(truth, on=["rank", "event_id"], how="left").sort("rank", "order")
    for _, own in rows.group_by("rank"):
        ordered = own.sort("order")
        ends = ordered.get_column("end_ns").to_numpy()
        # Nothing that began after another one had ended comes before it.
        assert (np.minimum.accumulate(ends[::-1])[::-1] > ordered.get_column("start_ns").to_numpy()).all()


@pytest.mark.full
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000), st.integers(2, 5), st.integers(1, 40))
def test_whatever_is_damaged_nobody_waits_for_ever_and_nothing_is_dropped(
    seed: int, world: int, count: int
) -> None:
    job = program(seed, world, count, pairs=True)
    random = np.random.default_rng(seed)
    kept = []
    for row in job.rows:
        damage = random.random()
        if damage < 0.1:
            continue
        if damage < 0.2:
            row["type"] = ("all_reduce", "gather", "send", None)[int(random.integers(4))]
        elif damage < 0.3:
            row["in_bytes"], row["out_bytes"] = [(None, None), (0, 0), (7, 2**40)][int(random.integers(3))]
        elif damage < 0.4:
            row["start_ns"], row["end_ns"] = row["end_ns"], row["start_ns"]
        elif damage < 0.5:
            row["group_ranks"] = [None, "[]", "[0,9]"][int(random.integers(3))]
        elif damage < 0.6:
            row["start_ns"] += int(random.integers(-200_000, 200_000))  # type: ignore[operator]
        elif damage < 0.65:
            row["destination"], row["source"] = row["source"], int(random.integers(-2, 9))
        kept.append(row)
    job.rows = kept
    plan = plan_of(job)
    assert stuck_ranks(plan) == []
    assert disagreements(plan) == []
    assert plan.communication.height == len(kept)
    assert (plan.communication.get_column("comm_size") > 0).all()


@pytest.mark.full
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from([4, 8]), st.data())
def test_worlds_that_are_shrunk_or_replicated_end_too(seed: int, world: int, data: st.DataObject) -> None:
    random = np.random.default_rng(seed)
    job = MadeJob(world, seed, communicators=True, sequences=True)
    for number in range(int(random.integers(1, 30))):
        match int(random.integers(3)):
            case 0:
                for first in range(0, world, 2):
                    job.collective("all_gather", group=f"tp{first}", ranks=[first, first + 1])
            case 1:
                for first in range(2):
                    job.collective(group=f"dp{first}", ranks=list(range(first, world, 2)))
            case _:
                job.collective(_KINDS[number % len(_KINDS)])
    present = data.draw(st.sets(st.integers(0, world - 1), min_size=2))
    shrunk = plan_of(job, sorted(present), SHRINK)
    assert stuck_ranks(shrunk) == []
    assert len(shrunk.ranks) == len(present)
    try:
        replicated = plan_of(job, sorted(present), REPLICATE)
    except InputError:
        return
    assert stuck_ranks(replicated) == []
    assert disagreements(replicated) == []
    assert replicated.communication.height == len(job.rows)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100_000), st.integers(2, 6), st.integers(1, 60), st.booleans())
def test_clocks_that_say_nothing_of_each_other_do_not_hide_the_order(
    seed: int, world: int, count: int, pairs: bool
) -> None:
    rows = program(seed, world, count, pairs).rows
    halves = [(row["truth"], row["type"] == "recv") for row in rows]
    items = {half: number for number, half in enumerate(dict.fromkeys(halves))}
    receives = [truth for truth, is_receive in items if is_receive]
    columns = [
        np.array(values, dtype=np.int64)
        for values in (
            [row["rank"] for row in rows],
            [items[half] for half in halves],
            [row["stream"] for row in rows],
            [row["start_ns"] for row in rows],
            [row["end_ns"] for row in rows],
            [items[truth, False] for truth in receives],
            [items[truth, True] for truth in receives],
        )
    ]
    given_rows = Rows(*columns)
    found = consistent_order(given_rows)
    assert not found.broken.any()
    first_of = dict(zip(given_rows.item.tolist(), found.order.tolist(), strict=True))
    assert [first_of[item] for item in given_rows.item.tolist()] == found.order.tolist()
    assert all(first_of[items[truth, False]] < first_of[items[truth, True]] for truth in receives)
    for rank in range(world):
        own = np.flatnonzero(given_rows.rank == rank)
        own = own[np.argsort(found.order[own])]
        earliest = np.minimum.accumulate(given_rows.end_ns[own][::-1])[::-1]
        assert (earliest > given_rows.start_ns[own]).all()


MOST_RANKS = 16


@st.composite
def transformer_jobs(draw: st.DrawFn) -> TransformerJob:
    experts = draw(st.sampled_from([0, 4]))
    degrees = draw(
        st.tuples(
            st.integers(1, 4),
            st.sampled_from([1, 2, 4]),
            st.sampled_from([1, 2, 3, 6]),
            st.sampled_from([1, 2, 4]) if experts else st.just(1),
        ).filter(lambda each: 2 <= each[0] * each[1] * each[2] * each[3] <= MOST_RANKS)
    )
    training = TrainingSteps(
        sequence=draw(st.integers(1, 64)),
        sequences=draw(st.integers(1, 3)),
        micro_batches=draw(st.integers(1, 5)),
        steps=draw(st.integers(1, 2)),
        recompute=draw(st.booleans()),
        bucket_bytes=draw(st.integers(1, 2**22)),
    )
    model = Transformer(
        6, hidden=64, heads=8, vocab=128, ffn=draw(st.sampled_from([None, 96])), experts=experts
    )
    return TransformerJob(model, training, DEVICE, Parallelism(*degrees, fully_sharded=draw(st.booleans())))


@pytest.mark.full
@settings(max_examples=40, deadline=None)
@given(transformer_jobs())
def test_no_transformer_can_hang(job: TransformerJob) -> None:
    ranks = checked(job)
    of_stage = job.ranks // job.parallelism.pipeline
    for rank in ranks:
        assert bytes_by(rank) == bytes_by(ranks[rank.rank // of_stage * of_stage])
    operations = sum(rank.nodes.get_column("num_ops").sum() for rank in ranks)
    assert operations > 0


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MessagePattern), st.integers(2, 20), st.integers(20, 1000), st.integers(1, 3))
def test_no_messages_can_hang(pattern: MessagePattern, ranks: int, size_bytes: int, repeats: int) -> None:
    checked(MessageJob(pattern, ranks, size_bytes, repeats))
