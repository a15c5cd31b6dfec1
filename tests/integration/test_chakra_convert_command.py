"""`tracebraid chakra convert`, `chakra stats` and `chakra-converter` on linked traces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.integration.command import fail, run
from tracebraid.chakra import ChakraRank

Node = dict[str, Any]


def host(node_id: int, name: str, parent: int, ts: float, dur: float, **members: object) -> Node:
    attrs = [{"name": "tid", "type": "uint64", "value": members.pop("tid", 1)}]
    attrs += [
        {"name": name, "type": "string", "value": value}
        for name, value in members.pop("attrs", {}).items()  # type: ignore[attr-defined]
    ]
    times = {"ts": ts, "inclusive_dur": dur, "exclusive_dur": members.pop("own", dur)}
    return {"id": node_id, "name": name, "ctrl_deps": parent, "attrs": attrs, **times, **members}


def device(node_id: int, name: str, parent: int, ts: float, dur: float, **members: object) -> Node:
    made = {"id": node_id, "name": name, "ctrl_deps": parent, "cat": "kernel", "ph": "X", "ts": ts}
    return {**made, "inclusive_dur": dur, "exclusive_dur": dur, "stream": 7, **members}


def tensors(*counts: int) -> dict[str, object]:
    return {
        "inputs": {"values": [[1, 2, 0, count, 4, "cuda:0"] for count in counts], "shapes": [], "types": []}
    }


ROOTS = [
    {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1},
    {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1},
]
NODES = [
    *ROOTS,
    host(3, "aten::linear", 2, 10.0, 6.0, own=2.0),
    host(4, "aten::mm", 3, 12.0, 4.0),
    host(5, "nccl:all_reduce", 2, 20.0, 3.0, **tensors(100)),
    host(6, "aten::item", 2, 30.0, 5.0, sync_dep=[9, 77]),
    host(7, "autograd", 2, 13.0, 1.0, tid=2, inter_thread_dep=6),
    device(8, "gemm", 4, 14.0, 0.4),
    device(9, "gemm", 4, 15.0, 0.4),
    device(10, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 5, 22.0, 3.0, stream=20, pg_name="tp"),
]


def et_plus(path: Path, nodes: list[Node]) -> Path:
    text = json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": nodes})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def waits_of(rank: ChakraRank) -> dict[int, set[int]]:
    """By the starts of the nodes, in us."""
    deps, names = rank.data_deps, rank.nodes.get_column("start_time_micros").fill_null(0).to_list()
    ids = rank.nodes.get_column("node_id").to_list()
    assert ids == list(range(len(ids)))
    return {
        names[row]: {names[before] for before in deps.node_id[deps.first[row] : deps.first[row + 1]].tolist()}
        for row in range(len(ids))
    }


def test_a_rank_becomes_nodes_with_times_order_and_communication(tmp_path: Path) -> None:
    source = et_plus(tmp_path / "et_plus_0.json", NODES)
    converted = tracebraid.chakra.convert(source, tmp_path / "job.3.et")
    (counts,) = converted.counts
    assert (counts.nodes, counts.untimed, counts.host, counts.device, counts.communications) == (
        10,
        2,
        5,
        3,
        1,
    )
    assert (counts.waits_contradicted, counts.waits_unknown) == (1, 1)
    rank = tracebraid.chakra.read(tmp_path / "job.3.et")
    assert rank.nodes.select("name", "type", "is_cpu_op", "duration_ns").rows()[:3] == [
        ("aten::linear", "COMP_NODE", True, 2000),
        ("aten::mm", "COMP_NODE", True, 4000),
        ("autograd", "COMP_NODE", True, 1000),
    ]
    # Keyed by start in us: 0 linear, 2 mm, 3 autograd, 4 and 5 gemm, 10 the range, 12 its kernel, 20 item.
    assert waits_of(rank) == {
        0: set(),
        2: {0},
        3: set(),
        4: {2},
        5: {4},
        10: {2},
        12: {10},
        20: {10, 5},
    }
    (kernel,) = rank.nodes.filter(pl.col("comm_type").is_not_null()).to_dicts()
    assert (kernel["comm_type"], kernel["comm_size"], kernel["is_cpu_op"]) == ("ALL_REDUCE", 400, False)
    assert int(kernel["pg_name"]) > 0
    assert tracebraid.chakra.check(tmp_path / "job.3.et").findings == ()


def test_durations_below_a_microsecond_keep_their_sum(tmp_path: Path) -> None:
    kernels = [device(100 + number, "k", 4, 50.0 + number, 0.3) for number in range(1000)]
    tracebraid.chakra.convert(et_plus(tmp_path / "a.json", [*NODES, *kernels]), tmp_path / "a.et")
    nodes = tracebraid.chakra.read(tmp_path / "a.et").nodes.filter(pl.col("name") == "k")
    assert abs(int(nodes.get_column("duration_micros").sum()) - 300) <= 1


@pytest.mark.parametrize(
    ("above", "kernel", "expected"),
    [
        ({"name": "nccl:all_to_all", **tensors(64)}, "ncclDevKernel_SendRecv(x)", ("ALL_TO_ALL", 256)),
        (
            {"name": "nccl:_all_gather_base", **tensors(64)},
            "ncclDevKernel_AllGather_RING(x)",
            ("ALL_GATHER", 256),
        ),
        ({"name": "nccl:barrier"}, "ncclDevKernel_AllReduce_Sum(x)", ("BARRIER", 1)),
        ({"name": "nccl:reduce", **tensors(8)}, "ncclDevKernel_Reduce_Sum(x)", ("REDUCE", 32)),
        (
            {
                "name": "record_param_comms",
                "attrs": {
                    "collective_name": "_reduce_scatter_base",
                    "dtype": "BFloat16",
                    "in_msg_nelems": 10,
                },
            },
            "ncclDevKernel_ReduceScatter_Sum(x)",
            ("REDUCE_SCATTER", 20),
        ),
    ],
)
def test_collectives_of_all_kinds_are_known(
    tmp_path: Path, above: Node, kernel: str, expected: tuple[str, int]
) -> None:
    node = dict(above)
    nodes = [*ROOTS, host(3, node.pop("name"), 2, 1.0, 2.0, **node), device(4, kernel, 3, 2.0, 5.0)]
    tracebraid.chakra.convert(et_plus(tmp_path / "a.json", nodes), tmp_path / "a.et")
    found = tracebraid.chakra.read(tmp_path / "a.et").nodes.filter(pl.col("comm_type").is_not_null())
    assert found.select("comm_type", "comm_size").rows() == [expected]


def test_sends_and_receives_have_the_peers_of_their_ranges(tmp_path: Path) -> None:
    for rank, name in enumerate(("nccl:send 0->1", "nccl:recv 1<-0")):
        range_of = host(3, name, 2, 1.0, 2.0, **tensors(16))
        nodes = [*ROOTS, range_of, device(4, "ncclDevKernel_SendRecv(x)", 3, 2.0, 5.0)]
        et_plus(tmp_path / f"linked_{rank}.json", nodes)
    tracebraid.chakra.convert(sorted(tmp_path.glob("*.json")), tmp_path / "job")
    assert tracebraid.chakra.check(tmp_path / "job").findings == ()
    sent, received = (tracebraid.chakra.read(tmp_path / "job" / f"job.{rank}.et").nodes for rank in (0, 1))
    assert sent.filter(pl.col("comm_dst") == 1).get_column("comm_size").to_list() == [64]
    assert received.filter(pl.col("comm_src") == 0).height == 1


def test_communication_of_unknown_size_stays_compute_and_is_counted(tmp_path: Path) -> None:
    nodes = [*ROOTS, host(3, "x", 2, 1.0, 2.0), device(4, "ncclDevKernel_AllReduce_Sum(x)", 3, 2.0, 5.0)]
    (counts,) = tracebraid.chakra.convert(et_plus(tmp_path / "a.json", nodes), tmp_path / "a.et").counts
    assert (counts.communications, counts.communications_as_compute) == (0, 1)
    assert tracebraid.chakra.read(tmp_path / "a.et").nodes.height == 2


def test_a_size_that_a_rank_does_not_say_is_that_of_another(tmp_path: Path) -> None:
    """As of a scatter, of which the root alone has an input."""
    for rank, members in enumerate((tensors(64), {})):
        nodes = [*ROOTS, host(3, "gloo:scatter", 2, 1.0, 2.0, **members)]
        et_plus(tmp_path / f"linked_{rank}.json", nodes)
    converted = tracebraid.chakra.convert(sorted(tmp_path.glob("*.json")), tmp_path / "job")
    assert [counts.communications for counts in converted.counts] == [1, 1]
    assert tracebraid.chakra.check(tmp_path / "job").findings == ()


def test_several_ranks_get_dense_numbers_groups_and_equal_sizes(tmp_path: Path) -> None:
    groups = json.dumps([{"pg_name": "tp", "ranks": [2, 5]}, {"pg_name": "0", "ranks": []}])
    lists = host(9, "## process_group:init ##", 2, 0.0, 0.5)
    lists["inputs"] = {"values": [groups], "shapes": [[]], "types": ["String"]}
    folder = tmp_path / "linked"
    folder.mkdir()
    for world_rank, elements in ((2, 100), (5, 150), (7, 1)):
        pairs = (("tp", elements), ("0", 8)) if world_rank != 7 else (("0", 8),)
        nodes = [*ROOTS, lists]
        for number, (group, count) in enumerate(pairs):
            ts = 10.0 * (number + 1)
            nodes.append(host(20 + number, "nccl:all_reduce", 2, ts, 3.0, **tensors(count)))
            kernel = "ncclDevKernel_AllReduce_Sum(x)"
            nodes.append(device(30 + number, kernel, 20 + number, ts + 1, 3.0, pg_name=group))
        et_plus(folder / f"et_plus_{world_rank}.json.gz", nodes)
    converted = tracebraid.chakra.convert(folder, tmp_path / "job", prefix="p")
    assert [path.name for path in converted.paths] == ["p.0.et", "p.1.et", "p.2.et"]
    members = json.loads((tmp_path / "job" / "comm_groups.json").read_text())
    assert sorted(members.values()) == [[0, 1], [0, 1, 2]]
    assert tracebraid.chakra.check(tmp_path / "job", simulator="astra-sim").runs
    sizes = tracebraid.chakra.read(tmp_path / "job" / "p.0.et").nodes.get_column("comm_size").drop_nulls()
    assert sizes.to_list() == [600, 32]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("form", ["et+", "trace_link"])
def test_the_demo_converts_from_all_forms_and_loses_nothing(tmp_path: Path, form: str) -> None:
    job = tracebraid.open(tracebraid.demo_path())
    write = tracebraid.write_et_plus
    if form == "trace_link":
        from tracebraid.exporters.et_plus import write_trace_link_et as write
    for rank in job.ranks:
        write(job[rank], tmp_path / f"linked_{rank}.json")
    linked = sorted(tmp_path.glob("linked_*"))
    converted = tracebraid.chakra.convert(linked, tmp_path / "job")
    assert tracebraid.chakra.check(tmp_path / "job").findings == ()
    for rank, counts in enumerate(converted.counts):
        assert counts.nodes == counts.host + counts.device + counts.untimed
        assert counts.communications == 9
        assert counts.communications_as_compute == 0
        nodes = tracebraid.chakra.read(converted.paths[rank]).nodes
        assert nodes.get_column("duration_ns").sum() > 0
    stats = tracebraid.chakra.stats(tmp_path / "job")
    (row,) = stats.communication.filter(pl.col("rank").is_null()).to_dicts()
    assert (row["type"], row["nodes"]) == ("ALL_REDUCE", 18)
    shown = run("chakra", "stats", tmp_path / "job")
    assert (shown.returncode, "ALL_REDUCE" in shown.stdout) == (0, True)
    assert len(json.loads(run("chakra", "stats", tmp_path / "job", "--json").stdout)["ranks"]) == 3


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    source = et_plus(tmp_path / "a.json", NODES)
    for name in ("a.0.et", "b.0.et"):
        tracebraid.chakra.convert(source, tmp_path / name)
    assert (tmp_path / "a.0.et").read_bytes() == (tmp_path / "b.0.et").read_bytes()


# --- bad input ----------------------------------------------------------------------------------------


def test_what_is_no_et_plus_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "o.et"
    unlinked = [{key: value for key, value in node.items() if key not in ("ts",)} for node in NODES]
    et_plus(tmp_path / "et.json", unlinked)
    assert "time" in fail("chakra", "convert", tmp_path / "et.json", "-o", out)
    (tmp_path / "kineto.json").write_text('{"traceEvents": [{"ph": "X", "ts": 1}]}')
    assert "Kineto" in fail("chakra", "convert", tmp_path / "kineto.json", "-o", out)
    assert "no such file" in fail("chakra", "convert", tmp_path / "none.json", "-o", out)
    (tmp_path / "empty").mkdir()
    assert "no ET+ files" in fail("chakra", "convert", tmp_path / "empty", "-o", out)
    twice = [et_plus(tmp_path / name, NODES) for name in ("a_1.json", "b_1.json")]
    done = run("chakra", "convert", *twice, "-o", out)
    assert (done.returncode, done.stdout, "rank 1" in done.stderr) == (2, "", True)
    assert not out.exists()


def test_a_file_that_is_there_stays_and_a_broken_node_is_left_out(tmp_path: Path) -> None:
    source = et_plus(tmp_path / "a.json", NODES)
    out = tmp_path / "a.0.et"
    out.write_text("mine")
    assert "exists" in fail("chakra", "convert", source, "-o", out)
    assert out.read_text() == "mine"
    text = source.read_text()
    source.write_text(text.replace('"aten::mm", "ctrl_deps": 3', '"aten::mm", "ctrl_deps": "three"'))
    out.unlink()
    done = run("chakra", "convert", source, "-o", out)
    assert (done.returncode, "warning" in done.stderr) == (0, True)
    assert tracebraid.chakra.read(out).nodes.height == 7


def test_nodes_with_odd_members_do_no_harm(tmp_path: Path) -> None:
    wide = [host(1000, "x" * 2_000_000, 2, 60.0, 1.0), device(1001, "k", 1000, 61.0, -5.0)]
    wide += [
        host(1002, "c", 1003, 62.0, 1.0),
        host(1003, "d", 1002, 61.5, 1.0),
        host(1000, "again", 2, 70.0, 1.0),
    ]
    wide += [
        device(1004, "k", 999, 1e300, 1.0),
        device(1005, "k", 3, 63.0, 1.0, stream="seven", sync_dep=[1005]),
    ]
    source = et_plus(tmp_path / "a.json", [*NODES, *wide])
    (counts,) = tracebraid.chakra.convert(source, tmp_path / "a.0.et").counts
    assert counts.repeated == 1
    assert tracebraid.chakra.check(tmp_path / "a.0.et").runs
    assert (
        int(
            np.min(tracebraid.chakra.read(tmp_path / "a.0.et").nodes.get_column("duration_micros").to_numpy())
        )
        >= 0
    )


# --- chakra_converter ---------------------------------------------------------------------------------


def test_chakra_converter_takes_the_peer_s_options(tmp_path: Path) -> None:
    source, out = et_plus(tmp_path / "a.json", NODES), tmp_path / "a.0.et"
    out.write_bytes(b"old")
    options = ("--input", source, "--output", out)
    done = run("chakra-converter", "--log-filename", tmp_path / "log", "PyTorch", *options, "--simulate")
    assert (done.returncode, "1 rank, 8 nodes" in done.stdout) == (0, True)
    assert tracebraid.chakra.read(out).nodes.height == 8
    text = run("chakra-converter", "Text", *options, "--num-npus", 4, "--num-passes", 1)
    assert (text.returncode, text.stdout, "chakra generate" in text.stderr) == (2, "", True)
    of_text = run("chakra-converter", "PyTorch", *options, "--num-npus", 4)
    assert (of_text.returncode, of_text.stdout, "--num-npus" in of_text.stderr) == (2, "", True)
