"""What a rank communicates: types, groups, peers, bytes and moments, from whatever the trace has."""

from __future__ import annotations

import polars as pl
import pytest

import tracebraid
from tests.captures import CAPTURES
from tests.planted import Scene
from tests.planted.devices import MI300X
from tracebraid.analysis.collectives.matched_groups import matched_groups
from tracebraid.analysis.collectives.members.members import members
from tracebraid.api.job.whole_job import linked_ranks
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.collectives.names import algorithm_of, library_of, protocol_of, type_of
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.schema.ranks import MEMBERS, RANKS

T = CollectiveType


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce", T.ALL_REDUCE),
        ("allreduce_coalesced", T.ALL_REDUCE),
        ("nccl:_all_gather_base", T.ALL_GATHER),
        ("_reduce_scatter_base", T.REDUCE_SCATTER),
        ("c10d::alltoall_base_", T.ALL_TO_ALL),
        ("all_to_allv", T.ALL_TO_ALL),
        ("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", T.BROADCAST),
        ("gloo:send", T.SEND),
        ("nccl:send 0->1", T.SEND),
        ("nccl:recv 1<-0", T.RECEIVE),
        ("c10d::recv_any_source_", T.RECEIVE),
        ("nccl:coalesced", T.SEND_RECEIVE),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", T.SEND_RECEIVE),
        ("gather", T.GATHER),
        ("scatter", T.SCATTER),
        ("reduce", T.REDUCE),
        ("barrier", T.BARRIER),
        ("void vllm::cross_device_reduce_1stage<float, 4>(vllm::RankData*)", T.ALL_REDUCE),
        ("symm_mem::multimem_all_reduce_", T.ALL_REDUCE),
        ("symm_mem::multimem_all_gather_out", T.ALL_GATHER),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", None),
        ("_c10d_functional::wait_tensor", None),
    ],
)
def test_a_name_says_the_type(name: str, kind: CollectiveType | None) -> None:
    assert type_of(name) == (None if kind is None else kind.value)


@pytest.mark.parametrize(
    ("kernel", "algorithm", "protocol"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "RING", "LL"),
        ("ncclKernel_AllReduce_TREE_LL128_Sum_float(ncclDevComm*, unsigned long)", "TREE", "LL128"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "RING", "SIMPLE"),
        ("ncclDevKernel_AllGather_NVLS_SIMPLE", "NVLS", "SIMPLE"),
        ("ncclDevKernel_Generic(ncclDevComm*)", None, None),
        ("my_RING_LL_kernel", None, None),
    ],
)
def test_a_kernel_of_nccl_says_algorithm_and_protocol(
    kernel: str, algorithm: str | None, protocol: str | None
) -> None:
    assert (algorithm_of(kernel), protocol_of(kernel)) == (algorithm, protocol)


def test_a_name_says_whose_it_is() -> None:
    found = [
        library_of(name) for name in ("gloo:all_reduce", "ncclDevKernel_Generic", "sgemm", "c10d::allreduce_")
    ]
    assert found == ["gloo", "NCCL", None, None]
    assert library_of("void vllm::cross_device_reduce_2stage<half, 8>()") == "vLLM"


def _scene(**options: object) -> Scene:
    scene = Scene(rank=3, world_size=4, **options)  # type: ignore[arg-type]
    scene.groups["7"] = [1, 3]
    return scene


@pytest.mark.parametrize(
    ("name", "given", "got"),
    [("allreduce", 64, 64), ("_allgather_base", 64, 128), ("_reduce_scatter_base", 64, 32)],
)
def test_a_member_has_group_bytes_and_the_moment_of_its_launch(name: str, given: int, got: int) -> None:
    scene = _scene()
    host, stream = scene.thread(), scene.stream(20)
    with host.step(1):
        kernel = host.collective(stream, 5_000, name, given // 4, "7")
    (row,) = members(scene.linked()).to_dicts()
    assert row["event_id"] == kernel.event_id
    assert (row["group_ranks"], row["group_size"], row["process_group"]) == ("[1,3]", 2, "7")
    assert (row["in_bytes"], row["out_bytes"], row["dtype"]) == (given, got, "Float")
    assert kernel.call is not None
    assert (row["issued_ns"], row["start_ns"], row["end_ns"]) == (kernel.call.ts, kernel.ts, kernel.end)
    assert (row["sequence"], row["step"], row["library"]) == (1, "ProfilerStep#1", "NCCL")
    assert row["in_split"] is None


def test_ranks_of_a_group_come_from_the_header_or_from_start_and_stride() -> None:
    for gone in (["Process Group Ranks"], ["Process Group Ranks", "Process Group Name"]):
        scene = _scene()
        kernel = scene.thread().collective(scene.stream(20), 5_000, "allreduce", 16, "7")
        for args in (kernel.args, *(event.args for event in kernel.ancestors())):
            for argument in gone:
                args.pop(argument, None)
        assert members(scene.linked()).get_column("group_ranks").to_list() == ["[1,3]"]


def test_peers_are_global_ranks_in_arguments_and_numbers_of_the_group_in_names() -> None:
    scene = _scene()
    host, stream = scene.thread(), scene.stream(20)
    sent = host.collective(stream, 5_000, "send", 16, "7")
    sent.args["Dst Rank"] = 1
    received = host.collective(stream, 5_000, "recv", 16, "7")
    received.args["Collective name"] = "nccl:recv 1<-0"
    rows = members(scene.linked()).select("type", "source", "destination").rows()
    assert rows == [("send", 3, 1), ("recv", 1, 3)]


@pytest.mark.parametrize(("world", "messages"), [(2, 4), (4, 12)])
def test_sends_and_receives_over_gloo_have_peers_though_sends_last_until_they_are_waited_for(
    world: int, messages: int
) -> None:
    """They are not matched: where sends are buffered, their ends say nothing of each other."""
    ranks = linked_ranks(tracebraid.open(CAPTURES / f"pipeline{world}"))
    rows = ranks.members.select("type", "source", "destination", "collective").rows()
    sends = sorted(row[1:3] for row in rows if row[0] == T.SEND.value)
    assert sends == sorted(row[1:3] for row in rows if row[0] == T.RECEIVE.value)
    assert len(sends) == messages
    assert all(abs(source - destination) == 1 for source, destination in sends)
    assert {row[3] for row in rows} == {None}


def test_kernels_of_nccl_on_amd_are_of_rccl() -> None:
    scene = _scene(devices=(MI300X,))
    scene.thread().collective(scene.stream(20), 5_000, "allreduce", 16, "7")
    assert members(scene.linked()).get_column("library").to_list() == ["RCCL"]


def test_on_the_host_the_range_of_the_backend_is_the_member() -> None:
    scene = Scene(world_size=2, devices=())
    host, backend = scene.thread(), scene.thread("pt_gloo_runner")
    host.run("c10d::allreduce_", 5_000, dims=[[[8]], [], [], [], [], []])
    with backend.annotation("gloo:all_reduce") as event:
        backend.spend(10_000)
    event.args |= {"Input Dims": [[8]], "Input type": ["float"]}
    (row,) = members(scene.linked()).to_dicts()
    assert (row["event_id"], row["library"], row["device"]) == (event.event_id, "gloo", "cpu")
    assert (row["in_bytes"], row["out_bytes"], row["group_ranks"]) == (32, 32, "[0,1]")


@pytest.mark.parametrize(
    ("groups", "asked", "peer"),
    [
        pytest.param({"0": [0, 1, 2, 3]}, 1, 1, id="the only group"),
        pytest.param({"0": [0, 1, 2, 3], "7": [1, 3]}, 2, 2, id="only one group has that number"),
        pytest.param({"0": [0, 1, 2, 3], "7": [0, 3]}, 0, 0, id="all groups agree"),
        pytest.param({"0": [0, 1, 2, 3], "7": [1, 3]}, 0, None, id="groups disagree"),
        pytest.param({"0": [0, 1, 2, 3]}, 3, None, id="itself"),
        pytest.param({"0": [0, 1, 2, 3]}, 9, None, id="no such rank"),
    ],
)
def test_peers_of_gloo_are_those_that_the_op_asked_for(
    groups: dict[str, list[int]], asked: int, peer: int | None
) -> None:
    scene = Scene(rank=3, world_size=4, devices=())
    scene.groups |= groups
    host = scene.thread()
    dims, types = [[[8]], [], [], []], ["TensorList", "", "Scalar", "Scalar"]
    for op, name in (("c10d::send", "gloo:send"), ("c10d::recv_", "gloo:recv")):
        with host.op(op, 5_000, dims=dims, types=types, concrete=["", "", str(asked), "0"]) as asking:
            with host.annotation(name) as event:
                host.spend(10_000)
            event.args |= {"Input Dims": [[8]], "Input type": ["float"]}
        # The op only asks: the range ends behind it.
        asking.dur -= 8_000
    # A range that no op around it asked for has no peer.
    with host.annotation("gloo:send"):
        host.spend(1_000)
    found = members(scene.linked()).select("type", "source", "destination").rows()
    assert found == [("send", 3, peer), ("recv", peer, 3), ("send", 3, None)]


def test_gloo_beside_a_device_counts_too() -> None:
    scene = _scene()
    host, backend, stream = scene.thread(), scene.thread("pt_gloo_runner"), scene.stream(20)
    host.collective(stream, 5_000, "allreduce", 16, "7")
    with backend.annotation("gloo:barrier"):
        backend.spend(10_000)
    found = members(scene.linked())
    assert sorted(found.select("type", "library", "device").rows()) == [
        ("all_reduce", "NCCL", "0"),
        ("barrier", "gloo", "cpu"),
    ]


@pytest.mark.parametrize(
    "damage", [{"Group size": -3}, {"Group size": 10**12}, {"In msg nelems": -5}, {"Dst Rank": -1}]
)
def test_damaged_arguments_are_unknown(damage: dict[str, int]) -> None:
    scene = _scene()
    kernel = scene.thread().collective(scene.stream(20), 5_000, "send", 16, "7")
    kernel.args.pop("Process Group Ranks")
    kernel.args |= damage
    (row,) = members(scene.linked()).to_dicts()
    assert row["in_bytes"] is None or row["in_bytes"] == 64
    assert row["destination"] is None
    assert row["group_size"] == 2


def test_an_empty_trace_has_no_members() -> None:
    found = members(Scene().linked())
    assert found.is_empty()
    assert found.schema == pl.Schema(MEMBERS.polars_schema())


def test_matched_groups_count_every_member_once() -> None:
    parts = []
    for rank in (1, 3):
        scene = Scene(rank, 4)
        scene.groups["7"] = [1, 3]
        host, stream = scene.thread(), scene.stream(20)
        for _ in range(5):
            host.collective(stream, 5_000, "allreduce", 16, "7")
        host.collective(stream, 5_000, "_allgather_base", 16, "7" if rank == 1 else "0")
        facts = RANKS.conform(pl.DataFrame({"rank": [rank]}), fill_missing=True)
        parts.append(RankParts(facts, members(scene.linked())))
    table = matched_groups(link_ranks(parts))
    assert (table["members"] == table["matched"] + table["unmatched"]).all()
    assert (table["unmatched"] == table["alone"] + table["open"]).all()
    assert table["members"].sum() == 12
    reduced = table.row(by_predicate=pl.col("type") == "all_reduce", named=True)
    assert (reduced["matched"], reduced["collectives"], reduced["complete"], reduced["by_sequence"]) == (
        10,
        5,
        5,
        5,
    )
    assert (reduced["names"], reduced["ranks"], reduced["missing"]) == ("7", "1, 3", None)
    assert sorted(table.filter(pl.col("type") == "all_gather")["alone"].to_list()) == [0, 1]
