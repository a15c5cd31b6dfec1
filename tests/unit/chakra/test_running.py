"""Ranks of Chakra nodes run on networks, as ASTRA-sim runs them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.chakra_run import BINARY, Cycles, astra_sim
from tests.cases import cases
from tests.chakra_jobs import random_job
from tests.chakra_ranks import collective, compute, rank_of, receive, send
from tracebraid.chakra import (
    Algorithm,
    ChakraRun,
    ChakraRunNote,
    CollectiveCommType,
    CollectiveSettings,
    Dimension,
    Lanes,
    Network,
    SimulatorOptions,
    Topology,
)
from tracebraid.chakra.running.collective_cost import Collective, cost_of
from tracebraid.chakra.running.meetings import Groups
from tracebraid.chakra.running.results import ChainPart, Waiting
from tracebraid.chakra.running.run_ranks import run_ranks
from tracebraid.errors import ArgumentError, InputError

Nodes = Sequence[Mapping[str, Any]]
RING = Network("ring", (Dimension(Topology.RING, 50 * 2**30 / 1e9, 500.0),))
"""Of ASTRA-sim's own example of four ranks."""

MEASURED = Network("measured", ())
TRAINING = (compute(0, us=100), collective(1, 0, size=1 << 20), compute(2, 1, us=50))
ALL_REDUCE_NS = 43_000
"""Of 1 MiB among four, on that ring, as ASTRA-sim counts."""


def run(
    *ranks: Nodes,
    networks: Sequence[Network] = (RING,),
    lanes: Lanes = Lanes.ASTRA_SIM,
    groups: Mapping[str, tuple[int, ...]] | None = None,
    how: CollectiveSettings | None = None,
    rendezvous_bytes: int | None = None,
) -> ChakraRun:
    made = [(f"job.{number}.et", rank_of(number, nodes)) for number, nodes in enumerate(ranks)]
    known = Groups("groups.json", groups or {})
    return run_ranks(made, known, networks, how or CollectiveSettings(), lanes, rendezvous_bytes)


def waits(found: ChakraRun) -> list[tuple[int, int, str, int, int | None]]:
    columns = ("rank", "node_id", pl.col("why").cast(pl.String), "other_rank", "other_node_id")
    return found.waits.select(*columns).rows()


def test_four_equal_ranks_take_the_cycles_of_astra_sim() -> None:
    found = run(*[TRAINING] * 4)
    assert found.ranks.get_column("end_ns").to_list() == [193_000] * 4
    assert found.ranks.get_column("not_computing_ns").to_list() == [ALL_REDUCE_NS] * 4
    assert found.is_finished
    assert found.notes == ()


def test_the_time_of_a_rank_is_divided_without_rest() -> None:
    late = (compute(0, us=300), collective(1, 0, size=1 << 20), compute(2, 1, us=50))
    found = run(TRAINING, TRAINING, TRAINING, late)
    assert found.end_ns == 393_000
    for row in found.ranks.iter_rows(named=True):
        parts = row["compute_ns"] + row["host_ns"] + row["exposed_communication_ns"] + row["idle_ns"]
        assert parts == row["end_ns"]
    assert found.ranks.get_column("waiting_ns").to_list() == [200_000] * 3 + [0]


def test_the_chain_ends_with_the_run_and_names_who_came_last() -> None:
    late = (compute(0, us=300, name="slow"), collective(1, 0, size=1 << 20), compute(2, 1, us=50))
    chain = run(TRAINING, TRAINING, late, TRAINING).chain
    rows = {row["name"]: row for row in chain.iter_rows(named=True)}
    assert rows["slow"]["ranks"] == [2]
    assert rows["slow"]["duration_ns"] == 300_000
    assert rows["ALL_REDUCE"]["duration_ns"] == ALL_REDUCE_NS
    assert rows["ALL_REDUCE"]["part"] == ChainPart.COLLECTIVE.value
    assert chain.get_column("duration_ns").sum() == 393_000


def test_several_networks_are_compared() -> None:
    fast = Network("fast", (Dimension(Topology.SWITCH, 500.0, 100.0),))
    found = run(*[TRAINING] * 4, networks=(RING, fast, MEASURED))
    assert found.runs.get_column("network").to_list() == ["ring", "fast", "measured"]
    assert found.runs.get_column("speedup")[0] == 1.0
    assert found.runs.get_column("end_ns").is_sorted(descending=True)


def test_measured_communication_takes_what_the_file_says_behind_the_last_arrival() -> None:
    def nodes(us: int, taken_ns: int) -> Nodes:
        return compute(0, us=us), collective(1, 0, size=None, duration_ns=taken_ns)

    found = run(nodes(10, 1500), nodes(30, 1700), networks=(MEASURED,))
    assert found.ranks.get_column("end_ns").to_list() == [31_500, 31_700]
    assert found.ranks.get_column("waiting_ns").to_list() == [20_000, 0]


def test_a_receive_ends_when_the_message_comes_and_takes_no_lane() -> None:
    sender = (compute(0, us=100), send(1, 0, to=1, size=1 << 20))
    receiver = (receive(0, source=0, size=1 << 20), compute(1, us=20), compute(2, 0, 1, us=5))
    found = run(sender, receiver)
    message_ns = 500 + int((1 << 20) / RING.dimensions[0].bandwidth_bytes_per_ns)
    assert found.ranks.get_column("end_ns").to_list() == [100_000 + message_ns, 105_000 + message_ns]
    kinds = found.collectives.select(pl.col("kind").cast(pl.String), "count", "nodes").rows()
    assert sorted(kinds) == [("RECEIVE", 1, 1), ("SEND", 1, 1)]


def test_sends_and_receives_of_one_tag_meet_in_their_order() -> None:
    sender = (send(0, to=1), compute(1, 0, us=10), send(2, 1, to=1))
    receiver = (receive(0, source=0), receive(1, 0, source=0))
    first, second = run(sender, receiver).ranks.get_column("end_ns")
    assert first == second


def test_one_lane_runs_one_after_another_by_id_and_streams_at_once() -> None:
    nodes = [compute(number, us=10, stream=number) for number in range(5)]
    assert run(nodes, nodes).end_ns == 50_000
    assert run(nodes, nodes, lanes=Lanes.STREAMS).end_ns == 10_000
    same = [compute(number, us=10, stream=7) for number in range(5)]
    assert run(same, same, lanes=Lanes.STREAMS).end_ns == 50_000
    assert run(same, same, lanes=Lanes.UNLIMITED).end_ns == 10_000


def test_the_host_has_a_lane_of_its_own() -> None:
    nodes = (compute(0, us=10, is_cpu_op=True), compute(1, us=10), compute(2, us=10, is_cpu_op=True))
    found = run(nodes, nodes)
    assert found.end_ns == 20_000
    assert found.ranks.select("host_ns", "compute_ns").row(0) == (20_000, 10_000)


def test_nodes_of_no_duration_take_1_ns_as_in_astra_sim() -> None:
    nodes = (compute(0, us=0), compute(1, 0, us=0))
    assert run(nodes, nodes).end_ns == 2
    assert run(nodes, nodes, lanes=Lanes.STREAMS).end_ns == 0


def test_exact_durations_count_where_lanes_are_streams() -> None:
    nodes = (compute(0, us=1, duration_ns=600, stream=7), compute(1, 0, us=0, duration_ns=700, stream=7))
    found = run(nodes, nodes)
    assert (found.end_ns, found.notes) == (1_001, (ChakraRunNote.MICROSECONDS, ChakraRunNote.NO_COLLECTIVES))
    assert run(nodes, nodes, lanes=Lanes.STREAMS).end_ns == 1_300


def test_a_broadcast_is_replayed_in_the_lanes_of_astra_sim_alone() -> None:
    nodes = (collective(0, size=1 << 20, comm_type="BROADCAST", duration_micros=7),)
    late = (compute(0, us=50), collective(1, 0, size=1 << 20, comm_type="BROADCAST", duration_micros=7))
    found = run(nodes, late)
    assert found.ranks.get_column("end_ns").to_list() == [7_000, 57_000]
    assert ChakraRunNote.BROADCAST_REPLAYED in found.notes
    met = run(nodes, late, lanes=Lanes.STREAMS)
    assert min(met.ranks.get_column("end_ns").to_list()) > 57_000


@pytest.mark.parametrize("lanes", list(Lanes))
def test_a_broadcast_of_a_rank_to_itself_lasts_as_the_file_says(lanes: Lanes) -> None:
    alone = collective(0, size=1 << 20, comm_type="BROADCAST", duration_micros=70, group="1")
    found = run((alone,), (compute(0, us=10),), lanes=lanes, groups={"1": (0,)})
    assert found.ranks.get_column("end_ns").to_list() == [70_000, 10_000]


def test_steps_count_from_the_end_of_the_step_before() -> None:
    nodes = (
        *(compute(0, us=10, step="a"), collective(1, 0, size=1 << 20, step="a")),
        *(compute(2, 1, us=30, step="b"), compute(3, 2, us=1)),
    )
    steps = run(*[nodes] * 4).steps.filter(pl.col("rank").is_null())
    assert steps.select("step", "duration_ns").rows() == [("a", 10_000 + ALL_REDUCE_NS), ("b", 30_000)]


def test_groups_meet_by_their_own_order() -> None:
    groups = {"1": (0, 1), "2": (2, 3)}

    def nodes(group: str, us: int) -> Nodes:
        return compute(0, us=us), collective(1, 0, group=group), collective(2, 1, group=group)

    found = run(nodes("1", 1), nodes("1", 2), nodes("2", 30), nodes("2", 40), groups=groups)
    ends = found.ranks.get_column("end_ns").to_list()
    assert max(ends[:2]) < min(ends[2:])
    assert found.collectives.get_column("count").to_list() == [4]


def test_groups_beside_a_group_without_a_number_are_noted() -> None:
    """ASTRA-sim numbers the messages of the group of all ranks by all collectives that a rank has issued."""
    beside = [
        (collective(0, group="1"), collective(1, 0)),
        (collective(0, group="1"), collective(1, 0)),
        (collective(1),),
    ]
    found = run(*beside, groups={"1": (0, 1)})
    assert found.is_finished
    assert found.notes == (ChakraRunNote.UNNUMBERED_GROUP,)
    numbered = [[{**node, "pg_name": node["pg_name"] or "2"} for node in nodes] for nodes in beside]
    assert run(*numbered, groups={"1": (0, 1), "2": (0, 1, 2)}).notes == ()


def test_a_missing_member_is_named_with_the_node_that_its_rank_waits_at() -> None:
    found = run(
        (collective(1, group="1"), collective(2, 1, group="2")),
        (collective(5, group="2"), collective(6, 5, group="1")),
        groups={"1": (0, 1), "2": (0, 1)},
    )
    assert not found.is_finished
    missing = Waiting.MEMBER_MISSING.value
    assert waits(found) == [(0, 1, missing, 1, 5), (1, 5, missing, 0, 1)]
    assert found.runs.get_column("speedup").to_list() == [None]


def test_a_member_that_ended_without_coming_is_named() -> None:
    found = run(TRAINING, (compute(0),), TRAINING)
    missing = Waiting.MEMBER_MISSING.value
    assert waits(found) == [(0, 1, missing, 1, None), (2, 1, missing, 1, None)]


@pytest.mark.parametrize("other", [{"size": 2048}, {"comm_type": "ALL_GATHER"}])
def test_members_that_disagree_are_named(other: dict[str, Any]) -> None:
    found = run((collective(0),), (collective(9, **other),))
    disagree = Waiting.MEMBERS_DISAGREE.value
    assert waits(found) == [(0, 0, disagree, 1, 9), (1, 9, disagree, 0, 0)]
    assert found.waits.get_column("other_what").n_unique() == 2


@pytest.mark.parametrize("other", [{"tag": 3}, {"size": 65}, {"to": 2}])
def test_a_receive_without_its_send_waits_for_ever(other: dict[str, Any]) -> None:
    sender = (send(0, **{"to": 1, **other}), compute(1, 0))
    found = run(sender, (receive(4, source=0),), (compute(0),))
    assert waits(found) == [(1, 4, Waiting.SEND_MISSING.value, 0, None)]
    assert "tag 0, 64 bytes" in found.waits.get_column("what")[0]


def test_a_send_needs_no_receive_as_in_astra_sim() -> None:
    assert run((send(0, to=1),), (compute(0),)).is_finished


_MIB = 1 << 20
_SENDER = (compute(0, us=100), send(1, 0, to=1, size=_MIB))
_RECEIVER = (compute(0, us=300), receive(1, 0, source=0, size=_MIB))
_MESSAGE_NS = 500 + int(_MIB / RING.dimensions[0].bandwidth_bytes_per_ns)


@cases(
    "sender_us, receiver_us, rendezvous_bytes, ends_ns, waits_ns, note",
    {
        "a send that waits": (100, 300, _MIB, (300_000 + _MESSAGE_NS,) * 2, (200_000, _MESSAGE_NS), ()),
        "all sends wait": (100, 300, 0, (300_000 + _MESSAGE_NS,) * 2, (200_000, _MESSAGE_NS), ()),
        "a receive that waits": (
            300,
            100,
            _MIB,
            (300_000 + _MESSAGE_NS,) * 2,
            (0, 200_000 + _MESSAGE_NS),
            (),
        ),
        "a send below the size": (
            *(100, 300, _MIB + 1, (100_000 + _MESSAGE_NS, 300_000), (0, 0)),
            (ChakraRunNote.NO_RENDEZVOUS,),
        ),
        "no size": (100, 300, None, (100_000 + _MESSAGE_NS, 300_000), (0, 0), ()),
        "a size beyond 64 bits": (
            *(100, 300, 10**30, (100_000 + _MESSAGE_NS, 300_000), (0, 0)),
            (ChakraRunNote.NO_RENDEZVOUS,),
        ),
    },
)
def test_sends_from_a_size_on_wait_for_their_receive(
    sender_us: int,
    receiver_us: int,
    rendezvous_bytes: int | None,
    ends_ns: tuple[int, int],
    waits_ns: tuple[int, int],
    note: tuple[ChakraRunNote, ...],
) -> None:
    sender = (compute(0, us=sender_us, name="sender"), *_SENDER[1:])
    receiver = (compute(0, us=receiver_us, name="receiver"), *_RECEIVER[1:])
    found = run(sender, receiver, rendezvous_bytes=rendezvous_bytes)
    assert tuple(found.ranks["end_ns"]) == ends_ns
    assert tuple(found.ranks["waiting_ns"]) == waits_ns
    assert found.notes == note
    assert found.chain["duration_ns"].sum() == found.end_ns
    assert ("sender" if sender_us > receiver_us else "receiver") in found.chain["name"]


def test_sends_that_wait_for_each_other_are_named() -> None:
    first = (send(0, to=1, size=_MIB), receive(1, 0, source=1, size=_MIB))
    second = (send(5, to=0, size=_MIB), receive(6, 5, source=0, size=_MIB))
    assert run(first, second).is_finished
    missing = Waiting.RECEIVE_MISSING.value
    stuck = run(first, second, rendezvous_bytes=_MIB)
    assert waits(stuck) == [(0, 0, missing, 1, 5), (1, 5, missing, 0, 0)]
    alone = run((send(0, to=1),), (compute(0),), rendezvous_bytes=0)
    assert waits(alone) == [(0, 0, missing, 1, None)]


_ROOFLINE = CollectiveSettings(memory_bytes_per_ns=1600.0, roofline=True, peak_tflops=900.0)


@cases(
    "node, taken_ns",
    {
        "bound by its operations": ({"num_ops": 9 * 10**12, "tensor_size": 10**6}, 10_000_000),
        "bound by its bytes": ({"num_ops": 10**6, "tensor_size": 16 * 10**6}, 10_000),
        "as its duration does not matter": ({"num_ops": 9 * 10**12, "tensor_size": 1, "us": 7}, 10_000_000),
        "parts of a ns are cut": ({"num_ops": 1_799_999, "tensor_size": 1}, 1),
        "without bytes": ({"num_ops": 10**12, "tensor_size": 0}, 0),
        "without operations": ({"num_ops": 0, "tensor_size": 16 * 10**6}, 10_000),
        "on the host": ({"num_ops": 9 * 10**12, "tensor_size": 1, "us": 7, "is_cpu_op": True}, 7_000),
        "without a size": ({"num_ops": 9 * 10**12, "us": 7}, 7_000),
    },
)
@pytest.mark.parametrize("lanes", list(Lanes))
def test_work_takes_what_the_roofline_of_astra_sim_says(
    node: dict[str, Any], taken_ns: int, lanes: Lanes
) -> None:
    """num_ops / min(bandwidth * num_ops / tensor_size, peak), in whole ns."""
    nodes = [compute(0, **{"us": 0, **node})]
    found = run(nodes, nodes, lanes=lanes, how=_ROOFLINE)
    assert found.end_ns == taken_ns
    by_duration = taken_ns == 7_000
    assert (ChakraRunNote.ROOFLINE in found.notes) != by_duration
    assert (ChakraRunNote.NO_WORK in found.notes) == ("tensor_size" not in node)


def test_operations_without_a_duration_need_a_roofline() -> None:
    nodes = [compute(0), compute(3, us=0, num_ops=10**9, tensor_size=10**6)]
    with pytest.raises(InputError, match="node 3: it has operations") as error:
        run(nodes, nodes)
    assert "roofline-enabled" in str(error.value.advice)
    assert run(nodes, nodes, how=_ROOFLINE).end_ns == 1_000 + 1_111


def test_one_rank_runs_and_the_answer_says_so() -> None:
    found = run(TRAINING)
    assert found.end_ns == 150_001
    assert found.notes == (ChakraRunNote.SINGLE_RANK,)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((compute(0), compute(1, 7)), "node 1: it depends on node 7, which the file does not contain"),
        (
            (compute(0, 2), compute(1, 0), compute(2, 1)),
            "3 nodes wait for each other in a circle: 0 > 2 > 1 > 0",
        ),
        ((compute(5, 5),), "node 5: 1 nodes wait for each other in a circle: 5 > 5"),
        ((compute(3), compute(3)), "node 3: its id occurs twice"),
        ((collective(1, group="4"),), r"node 1: its process group 4 is not known"),
        ((collective(1, group="1"),), r"node 1: its process group 1 is of ranks 1, 2, without rank 0"),
        ((collective(1, comm_type=None),), "node 1: it is a collective without a comm_type"),
        ((collective(1, size=None),), "node 1: it communicates without a comm_size"),
        ((send(1, to=9),), "node 1: it sends to or receives from rank 9, and the job has ranks 0 to 2"),
        ((receive(1, source=None),), "node 1: it sends to or receives from no rank"),
        ((send(1, to=0),), "node 1: it sends to or receives from rank 0"),
    ],
)
def test_what_cannot_be_run_is_located(nodes: Nodes, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        run(nodes, TRAINING, TRAINING, groups={"1": (1, 2)})
    assert error.value.path == "job.0.et"
    assert error.value.advice


def test_a_group_that_names_an_absent_rank_is_refused() -> None:
    with pytest.raises(InputError, match=r"its process group 1 names rank 5, and the job has ranks 0 to 1"):
        run((collective(0, group="1"),), (collective(0, group="1"),), groups={"1": (0, 1, 5)})


def test_a_network_of_another_number_of_ranks_is_refused() -> None:
    eight = Network("eight", (Dimension(Topology.RING, 50.0, 500.0, 8),))
    with pytest.raises(ArgumentError, match="the network eight has 8 ranks, and the job has 4"):
        run(*[TRAINING] * 4, networks=(eight,))


def test_no_files_are_refused() -> None:
    with pytest.raises(InputError, match=r"there is no \.et file"):
        run()


def test_an_empty_rank_ends_at_once() -> None:
    found = run((), ())
    assert (found.end_ns, found.is_finished) == (0, True)
    assert found.chain.height == 0


@st.composite
def jobs(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """Ranks with the same collectives in the same order, and other work between them."""
    sizes = draw(st.lists(st.integers(1, 1 << 22), min_size=1, max_size=4))
    ranks = []
    for _ in range(draw(st.integers(2, 4))):
        nodes: list[dict[str, Any]] = []
        for size in sizes:
            work = draw(st.integers(1, 4))
            before = len(nodes)
            for _ in range(work):
                deps = draw(st.sets(st.integers(0, len(nodes) - 1), max_size=2)) if nodes else set()
                nodes.append(
                    compute(len(nodes), *deps, us=draw(st.integers(0, 50)), stream=draw(st.integers(0, 2)))
                )
            last = [before - 1] if before else []
            nodes.append(collective(len(nodes), len(nodes) - 1, *last, size=size, stream=9))
        ranks.append(nodes)
    return ranks


@pytest.mark.full
@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(jobs())
def test_runs_keep_their_promises(ranks: list[list[dict[str, Any]]]) -> None:
    """Dependencies hold, no lane runs two at once, more lanes are never slower where the order is free of choices."""
    fast = Network("fast", (Dimension(Topology.RING, 1000.0, 10.0),))
    found = run(*ranks, networks=(RING, fast))
    assert found.is_finished
    free = run(*ranks, networks=(RING, fast), lanes=Lanes.UNLIMITED)
    assert np.all(free.runs["end_ns"].to_numpy() <= found.runs["end_ns"].to_numpy())
    assert free.runs["end_ns"][1] <= free.runs["end_ns"][0]
    for network, end_ns in found.runs.select("network", "end_ns").rows():
        chain = found.chain.filter(pl.col("network") == network)
        assert chain["duration_ns"].sum() == end_ns
        own = found.ranks.filter(pl.col("network") == network)
        assert (own["idle_ns"] >= 0).all()
        assert (own["exposed_communication_ns"] <= own["communication_ns"]).all()


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(jobs())
def test_equal_ranks_end_together_and_wait_for_nobody(ranks: list[list[dict[str, Any]]]) -> None:
    found = run(*[ranks[0]] * 3).ranks
    assert found["end_ns"].n_unique() == 1
    assert found["waiting_ns"].sum() == 0


BYTES_PER_NS = 2**30 / 1e9
"""Of a bandwidth of 1 in ASTRA-sim's network files."""

TOPOLOGIES = {"Ring": Topology.RING, "Switch": Topology.SWITCH, "FullyConnected": Topology.FULLY_CONNECTED}
KINDS = ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL")
GROUP_ENDPOINT_NS = 25
"""Endpoint delay of the recorded runs with groups, which ASTRA-sim does not use there."""


def even_ns(asked: Collective, network: Network, how: CollectiveSettings) -> NDArray[np.int64]:
    """What it takes, for each member, where all come at once."""
    return cost_of(asked, network, how).even_ns


@cache
def recorded() -> dict[str, Any]:
    """The recorded cycle counts."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("astra_sim_run_cycles.json").read_text())
    return found


def dimension(
    topology: str, bandwidth: float = 50, latency: float = 500, ranks: int | None = None
) -> Dimension:
    return Dimension(TOPOLOGIES[topology], bandwidth * BYTES_PER_NS, latency, ranks)


def how_with(algorithm: str, **others: Any) -> CollectiveSettings:
    same = {CollectiveCommType[kind]: (Algorithm(algorithm),) for kind in KINDS}
    return CollectiveSettings(algorithms=same, **others)


def asked_for(kind: str, size_bytes: int, ranks: int) -> Collective:
    return Collective(CollectiveCommType[kind], size_bytes, tuple(range(ranks)), ranks)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("algorithm", [algorithm.value for algorithm in Algorithm])
def test_all_ranks_take_what_astra_sim_counts(topology: str, algorithm: str) -> None:
    network = Network("", (dimension(topology),))
    checked = 0
    for kind in KINDS:
        for ranks, size_bytes, cycles in recorded()["all_ranks"].get(f"{topology} {algorithm} {kind}", []):
            taken = even_ns(asked_for(kind, size_bytes, ranks), network, how_with(algorithm))
            assert taken.tolist() == [cycles] * ranks, (kind, ranks, size_bytes)
            checked += 1
    assert checked >= 60


def test_several_dimensions_take_what_astra_sim_counts() -> None:
    for topologies, ranks, bandwidths, latencies, algorithm, chunks, active, kind, size, cycles in recorded()[
        "dimensions"
    ]:
        network = Network("", tuple(map(dimension, topologies, bandwidths, latencies, ranks)))
        asked = how_with(algorithm, chunks=chunks, active_chunks=active)
        taken = even_ns(asked_for(kind, size, prod(ranks)), network, asked)
        assert taken.max() == cycles, (topologies, ranks, algorithm, chunks, active, kind, size)


def test_groups_take_what_astra_sim_counts_on_each_member() -> None:
    for topology, algorithm, groups, kind, size_bytes, cycles in recorded()["groups"]:
        taken = np.zeros(len(cycles), dtype=np.int64)
        asked = how_with(algorithm, endpoint_delay_ns=GROUP_ENDPOINT_NS)
        for members in groups:
            one = Collective(CollectiveCommType[kind], size_bytes, tuple(members), len(cycles))
            taken[members] = even_ns(one, Network("", (dimension(topology),)), asked)
        assert taken.tolist() == cycles, (topology, algorithm, groups, kind, size_bytes)


def test_a_single_member_has_nobody_to_talk_to() -> None:
    alone = Collective(CollectiveCommType.ALL_REDUCE, 1 << 20, (3,), 8)
    assert even_ns(alone, Network("", (dimension("Ring"),)), CollectiveSettings()).tolist() == [1]


@pytest.mark.parametrize("kind", list(CollectiveCommType))
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_more_bandwidth_is_never_slower(kind: CollectiveCommType, topology: str) -> None:
    taken = [
        even_ns(
            asked_for(kind.name, 1 << 22, 8),
            Network("", (dimension(topology, bandwidth),)),
            CollectiveSettings(),
        ).max()
        for bandwidth in (1, 10, 100, 1000)
    ]
    assert taken == sorted(taken, reverse=True)
    assert taken[-1] < taken[0]


@pytest.mark.parametrize(("kind", "ranks"), [("ALL_TO_ALL", 4), ("ALL_REDUCE", 6)])
def test_halving_doubling_says_what_it_cannot_do(kind: str, ranks: int) -> None:
    with pytest.raises(ArgumentError, match="halvingDoubling"):
        even_ns(
            asked_for(kind, 4096, ranks), Network("", (dimension("Switch"),)), how_with("halvingDoubling")
        )


OF_JOBS = (Topology.RING, Topology.SWITCH, Topology.FULLY_CONNECTED)
LIVE = 6
"""Jobs that are run on ASTRA-sim itself, where there is one."""


def network(seed: int) -> Network:
    return Network("", (Dimension(OF_JOBS[seed % len(OF_JOBS)], 50 * 2**30 / 1e9, 500.0),))


def ours(seed: int) -> Cycles:
    job = random_job(seed)
    ranks = [(f"job.{number}.et", rank_of(number, nodes)) for number, nodes in enumerate(job.ranks)]
    found = run_ranks(ranks, Groups("", job.groups), [network(seed)], CollectiveSettings(), Lanes.ASTRA_SIM)
    assert found.is_finished
    return found.ranks.select("end_ns", "not_computing_ns").rows()


@pytest.mark.slow
def test_random_jobs_take_the_recorded_cycles() -> None:
    recorded = json.loads(Path(__file__).with_name("astra_sim_jobs.json").read_text())
    assert len(recorded) == 24
    for seed, cycles in recorded.items():
        assert ours(int(seed)) == [tuple(pair) for pair in cycles], seed


@pytest.mark.skipif(BINARY not in os.environ, reason=f"{BINARY} names no ASTRA-sim")
@pytest.mark.parametrize("seed", range(100, 100 + LIVE))
def test_random_jobs_take_the_cycles_of_astra_sim(seed: int) -> None:
    job = random_job(seed)
    ranks = [rank_of(number, nodes) for number, nodes in enumerate(job.ranks)]
    assert ours(seed) == astra_sim(ranks, job.groups, SimulatorOptions(network(seed)))
