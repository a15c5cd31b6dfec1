"""Members of collectives: types, groups, peers, bytes and moments, from whatever the trace has."""

from __future__ import annotations

import json

import polars as pl
import pytest

import tracebraid
from tests.builders import node
from tests.captures import CAPTURES
from tests.cases import cases
from tests.linked_ranks import linked_ranks
from tests.planted import Scene
from tests.planted.devices import MI300X
from tests.unit.linking.made import et_of
from tracebraid.analysis.collectives.matched_groups import matched_groups
from tracebraid.analysis.collectives.members import members
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.collectives import CollectiveType, algorithm_of, library_of, protocol_of, type_of
from tracebraid.model.linked_ranks import RankParts
from tracebraid.model.schema.links import RANKS

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
    ("kernel", "algorithm", "protocol", "library"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "RING", "LL", "NCCL"),
        ("ncclKernel_AllReduce_TREE_LL128_Sum_float(ncclDevComm*, unsigned long)", "TREE", "LL128", "NCCL"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "RING", "SIMPLE", "NCCL"),
        ("ncclDevKernel_AllGather_NVLS_SIMPLE", "NVLS", "SIMPLE", "NCCL"),
        ("ncclDevKernel_Generic(ncclDevComm*)", None, None, "NCCL"),
        ("my_RING_LL_kernel", None, None, None),
        ("gloo:all_reduce", None, None, "gloo"),
        ("c10d::allreduce_", None, None, None),
        ("void vllm::cross_device_reduce_2stage<half, 8>()", None, None, "vLLM"),
    ],
)
def test_a_kernel_says_algorithm_protocol_and_library(
    kernel: str, algorithm: str | None, protocol: str | None, library: str | None
) -> None:
    assert (algorithm_of(kernel), protocol_of(kernel), library_of(kernel)) == (algorithm, protocol, library)


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


@pytest.mark.slow
@pytest.mark.parametrize(("world", "messages"), [(2, 4), (4, 12)])
def test_sends_and_receives_over_gloo_meet_though_sends_last_until_they_are_waited_for(
    world: int, messages: int
) -> None:
    ranks = linked_ranks(tracebraid.open(CAPTURES / f"pipeline{world}"))
    rows = ranks.members.select("type", "source", "destination", "collective").rows()
    sends = sorted(row[1:3] for row in rows if row[0] == T.SEND.value)
    assert sends == sorted(row[1:3] for row in rows if row[0] == T.RECEIVE.value)
    assert len(sends) == messages
    assert all(abs(source - destination) == 1 for source, destination in sends)
    assert sorted(row[3] for row in rows) == sorted([*range(messages)] * 2)
    assert ranks.collectives.get_column("agrees").all()
    assert not ranks.findings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "collectives"), [("all_to_all3", 4), ("collectives2", 9), ("collectives4", 9), ("fsdp4", 5)]
)
def test_all_that_ranks_communicate_over_gloo_is_matched_in_the_order_of_issue(
    name: str, collectives: int
) -> None:
    ranks = linked_ranks(tracebraid.open(CAPTURES / name))
    assert ranks.members.get_column("issued_ns").null_count() == 0
    orders = [
        part.sort("issued_ns").get_column("collective").to_list()
        for part in ranks.members.partition_by("rank")
    ]
    assert orders == [[*range(collectives)]] * ranks.ranks.height
    assert ranks.collectives.get_column("missing").list.len().sum() == 0
    assert not ranks.findings


def test_on_amd_kernels_are_of_rccl_and_gloo_beside_a_device_counts_too() -> None:
    scene = _scene(devices=(MI300X,))
    host, backend = scene.thread(), scene.thread("pt_gloo_runner")
    host.collective(scene.stream(20), 5_000, "allreduce", 16, "7")
    with backend.annotation("gloo:barrier"):
        backend.spend(10_000)
    assert sorted(members(scene.linked()).select("type", "library", "device").rows()) == [
        ("all_reduce", "RCCL", "0"),
        ("barrier", "gloo", "cpu"),
    ]


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
    ("dims", "kind", "size"),
    [
        ([], "float", 4),
        ([], "c10::BFloat16", 2),
        ([0], "float", 0),
        ([], "Scalar", None),
        ([], "", None),
        ([[]], "TensorList", None),
    ],
)
def test_a_tensor_of_no_dimensions_is_one_element(dims: list[object], kind: str, size: int | None) -> None:
    scene = _scene(devices=())
    host = scene.thread()
    with host.annotation("gloo:all_reduce") as event:
        host.spend(1_000)
    event.args |= {"Input Dims": [dims], "Input type": [kind]}
    (row,) = members(scene.linked()).to_dicts()
    assert (row["in_bytes"], row["out_bytes"]) == (size, size)


BASE, LIST = "c10d::alltoall_base_", "c10d::alltoall_"
_SHAPES = [[24, 64], [64, 64], [], [], [], [], []]
_OF_LIST = [[[8, 64], [8, 64], [8, 64]], [[8, 64], [16, 64], [40, 64]], [], []]


@cases(
    "op, dims, values, expected",
    {
        "splits": (BASE, _SHAPES, ["[8, 8, 8]", "[8, 16, 40]"], (16_384, 6_144, "[8, 16, 40]", "[8, 8, 8]")),
        "no splits": (BASE, [[24, 64], [24, 64], [], [], []], ["[]", "[]"], (6_144, 6_144, "[]", "[]")),
        "splits that were left out": (BASE, _SHAPES, ["", ""], (16_384, 6_144, None, None)),
        "no shapes": (BASE, None, None, (16_384, None, None, None)),
        "damaged splits": (BASE, _SHAPES, ["[8, 8", "[x]"], (16_384, 6_144, None, None)),
        "lists of tensors": (LIST, _OF_LIST, None, (16_384, 6_144, "[512, 1024, 2560]", "[512, 512, 512]")),
        "an op of another type": ("c10d::barrier", _SHAPES, None, (16_384, None, None, None)),
    },
)
def test_an_all_to_all_on_the_host_has_the_sizes_of_the_op_that_asked_for_it(
    op: str, dims: list[object] | None, values: list[str] | None, expected: tuple[object, ...]
) -> None:
    scene = Scene(world_size=3, devices=())
    host, backend = scene.thread(), scene.thread("pt_gloo_runner")
    with host.op(op, 5_000, dims=dims) as asking:
        asking.args["Record function id"] = 10
    if values is not None:
        asking.args["Concrete Inputs"] = ["", "", "", *values, "False", "-1"]
    with backend.annotation("gloo:all_to_all") as event:
        backend.spend(10_000)
    event.args |= {"Record function id": 11, "Input Dims": [[64, 64]], "Input type": ["float"]}
    (row,) = members(scene.linked()).to_dicts()
    assert tuple(row[name] for name in ("in_bytes", "out_bytes", "in_split", "out_split")) == expected


def test_splits_that_kineto_left_out_are_those_of_the_execution_trace() -> None:
    scene = Scene(world_size=40, devices=())
    host, backend = scene.thread(), scene.thread("pt_gloo_runner")
    with host.op(BASE, 5_000, dims=[[80, 64], [40, 64], [], [], []]) as asking:
        asking.args |= {"Record function id": 10, "Concrete Inputs": [""] * 7}
    with backend.annotation("gloo:all_to_all") as event:
        backend.spend(10_000)
    event.args |= {"Record function id": 11, "Input Dims": [[40, 64]], "Input type": ["float"]}
    given = [
        ("Tensor(float)", [1, 1, 0, 1, 4, "cpu"], [80, 64]),
        ("Tensor(float)", [2, 2, 0, 1, 4, "cpu"], [40, 64]),
    ]
    rows = [("GenericList[Int]", [size] * 40, [0]) for size in (2, 1)]
    asked = node(20, BASE, 1001, [*given, ("Object", "<Object>", [0]), *rows], rf_id=10)
    (row,) = members(scene.linked(et_of(asked))).to_dicts()
    assert [json.loads(row[name]) for name in ("out_split", "in_split")] == [[2] * 40, [1] * 40]
    assert (row["out_bytes"], row["in_bytes"]) == (20_480, 10_240)


@cases(
    "op, shapes, expected",
    {
        "none were given": (BASE, None, "[]"),
        "shapes of lists": (LIST, _OF_LIST, "[512, 1024, 2560]"),
        # The arguments of a list of tensors have no splits, whatever its sizes.
        "lists without shapes": (LIST, None, None),
    },
)
def test_splits_of_nccl_are_those_of_its_arguments_and_of_lists_of_tensors(
    op: str, shapes: list[object] | None, expected: str | None
) -> None:
    scene = _scene()
    kernel = scene.thread().collective(scene.stream(20), 5_000, "all_to_all", 4096, "7")
    (asking,) = scene.of(BASE)
    asking.name = op
    if shapes is not None:
        asking.args["Input Dims"] = shapes
    (row,) = members(scene.linked()).to_dicts()
    assert (row["event_id"], row["in_bytes"], row["out_bytes"]) == (kernel.event_id, 16_384, 16_384)
    assert row["in_split"] == expected


def test_a_range_on_the_host_was_issued_by_the_last_op_before_it_in_the_order_of_numbers() -> None:
    """One thread of gloo begins the second of two before another one begins the first."""
    scene = _scene(devices=())
    host, late, early = scene.thread(), scene.thread("gloo 1"), scene.thread("gloo 2")
    asked = []
    for number in (10, 20):
        with host.op("c10d::allreduce_", 1_000) as op:
            op.args["Record function id"] = number
        asked.append(op.ts)
    late.now = host.now + 9_000
    early.now = host.now
    for thread, number in ((late, 11), (early, 21)):
        with thread.annotation("gloo:all_reduce") as event:
            thread.spend(5_000)
        event.args |= {"Record function id": number, "Input Dims": [[8]], "Input type": ["float"]}
    with early.annotation("gloo:all_reduce"):
        early.spend(5_000)
    found = members(scene.linked()).select("start_ns", "issued_ns").sort("start_ns").get_column("issued_ns")
    assert found.to_list() == [asked[1], None, asked[0]]


@pytest.mark.slow
@cases(
    "groups, requested, peer",
    {
        "the only group": ({}, 1, 1),
        "only one group has that number": ({"7": [1, 3]}, 2, 2),
        "all groups agree": ({"7": [0, 3]}, 0, 0),
        "groups disagree": ({"7": [1, 3]}, 0, None),
        "itself": ({}, 3, None),
        "no such rank": ({}, 9, None),
    },
)
def test_peers_of_gloo_are_those_that_the_op_requested(
    groups: dict[str, list[int]], requested: int, peer: int | None
) -> None:
    scene = Scene(rank=3, world_size=4, devices=())
    scene.groups |= groups
    host = scene.thread()
    dims, types = [[[8]], [], [], []], ["TensorList", "", "Scalar", "Scalar"]
    for op, name in (("c10d::send", "gloo:send"), ("c10d::recv_", "gloo:recv")):
        with host.op(op, 5_000, dims=dims, types=types, concrete=["", "", str(requested), "0"]) as requesting:
            with host.annotation(name) as event:
                host.spend(10_000)
            event.args |= {"Input Dims": [[8]], "Input type": ["float"]}
        # The op only requests: the range ends behind it.
        requesting.dur -= 8_000
    # A range that no op around it requested has no peer.
    with host.annotation("gloo:send"):
        host.spend(1_000)
    found = members(scene.linked()).select("type", "source", "destination").rows()
    assert found == [("send", 3, peer), ("recv", peer, 3), ("send", 3, None)]


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
    # In a group of two the peer is the other one.
    assert row["destination"] == 1
    assert row["group_size"] == 2


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
    reduced = table.filter(type="all_reduce")
    assert reduced.select("matched", "collectives", "complete", "by_sequence").rows() == [(10, 5, 5, 5)]
    assert reduced.select("names", "ranks", "missing").rows() == [("7", "1, 3", None)]
    assert sorted(table.filter(type="all_gather")["alone"].to_list()) == [0, 1]
