"""Sends, receives and collectives that one kernel carries out, in whose launch there is no op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import tracebraid
from tests.cases import cases
from tests.linked_ranks import linked_ranks
from tests.planted import Scene, Thread, write_ranks
from tests.planted.streams import Stream
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.collectives.transfers import waits
from tracebraid.chakra.plan.job_plan import plan_job
from tracebraid.chakra.plan.world import PlanOptions
from tracebraid.model.collectives import CollectiveType
from tracebraid.model.linked_ranks import LinkedRanks

T = CollectiveType
US = 1_000
MS = 1_000 * US
Ops = Sequence[tuple[str, int]]


def exchanges(
    folder: Path, spans: Sequence[tuple[int, int]], ops: Sequence[Ops], steps: int = 1, named: bool = True
) -> LinkedRanks:
    """Ranks of which each has, in each step, one group of ops and one kernel, from and to a moment in µs."""
    scenes = []
    for rank, (span, own) in enumerate(zip(spans, ops, strict=True)):
        scene = Scene(rank, world_size=len(spans))
        scene.host_name = "host"
        host, compute, stream = scene.thread(), scene.stream(), scene.stream(20)
        for step in range(steps):
            host.until(step * 2 * MS)
            with host.step(step):
                with host.op("aten::mm"):
                    host.launch(compute, "gemm", (span[0] - 20) * US)
                for name, peer in own:
                    host.issue(name, peer=peer if named else None)
                host.close_group(stream, (span[1] - span[0]) * US, at=(step * 2_000 + span[0]) * US)
                host.spend(50 * US)
        scenes.append(scene)
    return linked_ranks(tracebraid.open(write_ranks(folder, scenes)))


BOTH: Sequence[Ops] = [[("send", 1), ("recv", 1)], [("send", 0), ("recv", 0)]]


def test_two_ranks_that_exchange_wait_for_the_later_one(tmp_path: Path) -> None:
    found = exchanges(tmp_path, [(1_040, 1_140), (440, 1_140)], BOTH, steps=4)
    assert not found.findings
    rows = found.members.select("type", "name", "in_bytes", "out_bytes", "process_group", "collective").rows()
    assert rows == [("send_recv", "coalesced", 4096, 4096, "0", number) for number in (*range(4), *range(4))]
    assert found.collectives.select("type", "ranks", "missing").rows() == [("send_recv", [0, 1], [])] * 4
    parts = waits(found).select("waiting_ns", "transfer_ns", "waited_for", "is_bound").rows()
    assert parts == [(0, 100 * US, None, False)] * 4 + [(600 * US, 100 * US, 0, False)] * 4
    rows = plan_job("job", found, PlanOptions()).communication.select("type", "comm_type", "comm_size").rows()
    assert rows == [("COMM_COLL_NODE", "ALL_TO_ALL", 4096)] * 8


@cases(
    "spans, ops, expected",
    {
        # Each sends to the next rank of a ring, and waits for the one before alone.
        "ring": (
            [(100, 600), (500, 600), (200, 600)],
            [[("send", 1), ("recv", 2)], [("send", 2), ("recv", 0)], [("send", 0), ("recv", 1)]],
            [(100, 2), (0, None), (300, 1)],
        ),
        # The first has ended before the last has begun.
        "chain": (
            [(100, 400), (350, 700), (600, 710)],
            [[("send", 1)], [("recv", 0), ("send", 2)], [("recv", 1)]],
            [(0, None), (0, None), (0, None)],
        ),
        "a chain whose first rank is late": (
            [(600, 700), (100, 800), (300, 810)],
            [[("send", 1)], [("recv", 0), ("send", 2)], [("recv", 1)]],
            [(0, None), (500, 0), (0, None)],
        ),
        "only receives": (
            [(100, 600), (400, 600), (500, 600)],
            [[("recv", 1), ("recv", 2)], [("send", 0)], [("send", 0)]],
            [(400, 2), (0, None), (0, None)],
        ),
    },
)
def test_each_waits_for_those_that_it_receives_from(
    tmp_path: Path,
    spans: Sequence[tuple[int, int]],
    ops: Sequence[Ops],
    expected: Sequence[tuple[int, int | None]],
) -> None:
    found = exchanges(tmp_path, spans, ops)
    assert found.collectives.select("type", "ranks", "missing").rows() == [("send_recv", [0, 1, 2], [])]
    rows = waits(found).select("waiting_ns", "waited_for").rows()
    assert rows == [(waited * US, rank) for waited, rank in expected]


def test_a_peer_that_the_trace_does_not_name_is_the_other_of_two(tmp_path: Path) -> None:
    found = exchanges(tmp_path, [(1_040, 1_140), (440, 1_140)], BOTH, named=False)
    assert found.members.get_column("collective").to_list() == [0, 0]


def test_of_unknown_peers_nothing_is_known_and_the_numbers_are_told(tmp_path: Path) -> None:
    ops = [[("send", 1), ("recv", 1)], [("send", 0), ("recv", 0)], []]
    ranks = exchanges(tmp_path, [(100, 200), (100, 200), (100, 200)], ops, named=False)
    assert ranks.members.get_column("collective").null_count() == 3
    parts = waits(ranks).select("waiting_ns", "transfer_ns", "rest_ns", "is_bound").rows()
    assert parts == [(None, None, None, True)] * 3
    details = [
        (finding.code, finding.details["issued"], finding.details["matched"]) for finding in ranks.findings
    ]
    assert details == [("collectives-unmatched", 1, 0)] * 3


def test_a_peer_that_was_not_read_may_have_come_later(tmp_path: Path) -> None:
    ops: Sequence[Ops] = [[("send", 1), ("recv", 2)], [("recv", 0)], [("send", 0)]]
    exchanges(tmp_path, [(100, 200), (100, 200), (100, 200)], ops)
    (tmp_path / "kineto_trace_2.json").unlink()
    ranks = linked_ranks(tracebraid.open(tmp_path))
    assert ranks.collectives.select("ranks", "missing").rows() == [([0, 1], [2])]
    assert waits(ranks).get_column("is_bound").to_list() == [True, True]


def _send_alone(host: Thread, stream: Stream) -> None:
    host.issue("send", peer=1)
    host.close_group(stream, 9 * US)


def _several_collectives(host: Thread, stream: Stream) -> None:
    for nelems in (16, 48):
        host.issue("_allgather_base", nelems)
    host.close_group(stream, 9 * US, "ncclDevKernel_AllGather_RING_LL")


def _behind_a_send_of_its_own(host: Thread, stream: Stream) -> None:
    host.collective(stream, 9 * US, "send").args["Dst Rank"] = 1
    host.issue("recv", 16, peer=1)
    host.close_group(stream, 9 * US)


def _two_groups_of_ops(host: Thread, stream: Stream) -> None:
    for name in ("send", "recv"):
        host.issue(name, peer=1)
        host.close_group(stream, 9 * US)


def _compute_between(host: Thread, stream: Stream) -> None:
    host.issue("send", peer=1)
    with host.op("aten::copy_"):
        host.launch(host.scene.stream(), "copy", 9 * US)
    host.issue("recv", 16, peer=1)
    host.close_group(stream, 9 * US)


def _of_two_process_groups(host: Thread, stream: Stream) -> None:
    host.issue("send", peer=1)
    host.issue("recv", peer=1, group="7")
    host.close_group(stream, 9 * US)


def _of_two_types(host: Thread, stream: Stream) -> None:
    host.issue("_allgather_base")
    host.issue("allreduce")
    host.close_group(stream, 9 * US, "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)")


def _nothing_was_issued(host: Thread, stream: Stream) -> None:
    host.close_group(stream, 9 * US)
    host.issue("send", peer=1)


def _on_another_thread(host: Thread, stream: Stream) -> None:
    other = host.scene.thread("other")
    other.issue("send", peer=1)
    host.until(other.now)
    host.close_group(stream, 9 * US)


def _behind_a_launch_whose_kernel_is_lost(host: Thread, stream: Stream) -> None:
    host.issue("send", peer=1)
    host.call("cudaLaunchKernelExC")
    host.close_group(stream, 9 * US)


def _in_an_op_that_communicates(host: Thread, stream: Stream) -> None:
    host.issue("send", peer=1)
    with host.op("_C_custom_ar::all_reduce"):
        host.close_group(stream, 9 * US, "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)")


def _a_kernel_that_is_not_nccls(host: Thread, stream: Stream) -> None:
    host.issue("send", peer=1)
    host.close_group(stream, 9 * US, "void vllm::cross_device_reduce_1stage<float, 4>(vllm::RankData*)")


@cases(
    "scene_of, expected",
    {
        "a send alone": (_send_alone, [("send", 4096, 4096, 1)]),
        "collectives of one type": (_several_collectives, [("all_gather", 256, 512, None)]),
        "behind a send of its own": (
            _behind_a_send_of_its_own,
            [("send", 4096, 4096, 1), ("recv", 64, 64, 0)],
        ),
        "two groups": (_two_groups_of_ops, [("send", 4096, 4096, 1), ("recv", 4096, 4096, 0)]),
        "compute between them": (_compute_between, [("send_recv", 4096, 64, None)]),
        # What nothing proves stays unknown.
        "two process groups": (_of_two_process_groups, [("send_recv", None, None, None)]),
        "two types": (_of_two_types, [(None, None, None, None)]),
        "nothing was issued": (_nothing_was_issued, [("send_recv", None, None, None)]),
        "another thread": (_on_another_thread, [("send_recv", None, None, None)]),
        "a lost kernel": (_behind_a_launch_whose_kernel_is_lost, [("send_recv", None, None, None)]),
        "an op that communicates": (_in_an_op_that_communicates, [("all_reduce", None, None, None)]),
        "another library": (_a_kernel_that_is_not_nccls, [("all_reduce", None, None, None)]),
    },
)
def test_a_kernel_without_arguments_has_those_of_the_ops_that_were_issued_since_the_last_launch(
    scene_of: Callable[[Thread, Stream], None], expected: list[tuple[object, ...]]
) -> None:
    scene = Scene(world_size=2)
    scene.groups["7"] = [0, 1]
    host = scene.thread()
    with host.step(0):
        scene_of(host, scene.stream(20))
        host.spend(50 * US)
    rows = members(scene.linked()).select("type", "in_bytes", "out_bytes", "destination").rows()
    assert rows == expected


@pytest.mark.parametrize("steps", [1, 3])
def test_the_rank_that_computes_longer_holds_up_the_other(tmp_path: Path, steps: int) -> None:
    exchanges(tmp_path, [(1_040, 1_140), (440, 1_140)], BOTH, steps=steps)
    found = tracebraid.analyze("stragglers", tracebraid.open(tmp_path))
    rows = found.frame.select("rank", "caused_ns", "cause", "name").rows()
    assert rows == [(0, steps * 600 * US, "longer-kernel", "gemm")]
