"""Files of Chakra: read as written, the files of a job, nodes that are fed, statistics, and parts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.cases import cases
from tests.chakra_ranks import collective, compute, rank_of, receive, send
from tests.planted.chakra_rank import FIRST_ID, MISSING, made_rank
from tracebraid import chakra
from tracebraid.chakra import ChakraRank, Feeder, NodeDeps, NodeType, PartChoice
from tracebraid.chakra.job_files import find_chakra_files, read_comm_groups
from tracebraid.chakra.part import chosen_part
from tracebraid.chakra.schema import CHAKRA_NODES
from tracebraid.chakra.statistics import job_stats, rank_stats
from tracebraid.chakra.wire.messages import messages
from tracebraid.chakra.wire.reading import open_frames
from tracebraid.chakra.wire.writing import rank_bytes
from tracebraid.errors import ArgumentError, InputError, NotATraceError, OutputError

NODES = CHAKRA_NODES.conform(
    pl.DataFrame(
        {
            "node_id": [7, 3, 2**40],
            "name": ["matmul", "gradients Ü", ""],
            "type": ["COMP_NODE", "COMM_COLL_NODE", "COMM_SEND_NODE"],
            "start_time_micros": [None, 5, None],
            "duration_micros": [100, 0, 3],
            "is_cpu_op": [True, False, None],
            "comm_type": [None, "ALL_REDUCE", None],
            "comm_size": [None, 1 << 20, 8],
            "comm_dst": [None, None, 1],
            "comm_tag": [None, None, 4],
            "pg_name": [None, "2", None],
            "num_ops": [1 << 50, None, None],
            "tensor_size": [0, None, None],
            "shapes": ["[[2,3]]", None, None],
            "inputs": [None, '{"values":"[1]","types":"[\\"Int\\"]"}', None],
            "outputs": ['{"shapes":"[[2]]"}', None, None],
            "attributes": [
                '{"rf_id":5,"share":0.5,"op_schema":"","few":{"int32_list":[]},"raw":{"bytes_val":"AP8="},"flag":true}',
                '{"comm_size":{"type":"uint64_val"},"twice":[1,{"sint32_val":-3}]}',
                '{"infinite":{"double_val":"-Infinity"},"with":{"int64_val":3,"doc_string":"why"},"none":{}}',
            ],
        }
    ),
    fill_missing=True,
)

RANK = ChakraRank(
    0,
    "0.0.4",
    (("schema", "1.1.1"), ("pid", 12), ("share", 0.5), ("shrunk", True)),
    NODES,
    NodeDeps(np.array([0, 0, 1, 3]), np.array([7, 7, 3])),
    NodeDeps(np.array([0, 1, 1, 1]), np.array([3])),
)


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def parsed(path: Path) -> list[Any]:
    """The nodes of a file as protobuf reads them, each message in the bytes that it would write."""
    found = []
    for batch in open_frames(path).batches():
        for row, (start, stop) in enumerate(zip(batch.messages.start, batch.messages.stop, strict=True)):
            kind = messages().node if batch.first + row else messages().metadata
            found.append(kind.FromString(batch.data[start:stop]))
            assert found[-1].SerializeToString() == batch.data[start:stop]
    return found


@pytest.mark.parametrize("name", ["job.3.et", "job.3.et.gz"])
def test_a_rank_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    size_bytes = chakra.write(tmp_path / name, RANK)
    assert size_bytes == (tmp_path / name).stat().st_size
    found = chakra.read(tmp_path / name)
    assert (found.rank, found.version, found.findings) == (3, "0.0.4", ())
    assert tuple(found.attributes) == tuple(RANK.attributes)
    assert_frame_equal(plain(found.nodes), plain(NODES))
    for deps, expected in ((found.data_deps, RANK.data_deps), (found.ctrl_deps, RANK.ctrl_deps)):
        assert deps.first.tolist() == expected.first.tolist()
        assert deps.node_id.tolist() == expected.node_id.tolist()
    assert b"".join(rank_bytes(found)) == b"".join(rank_bytes(RANK))


def test_protobuf_reads_what_simulators_ask_for(tmp_path: Path) -> None:
    chakra.write(tmp_path / "a.0.et", RANK)
    _, first, second, third = parsed(tmp_path / "a.0.et")
    kinds = [{item.name: item.WhichOneof("value") for item in node.attr} for node in (first, second, third)]
    assert kinds[0]["is_cpu_op"] == "bool_val"
    assert kinds[0]["tensor_size"] == "uint64_val"
    assert kinds[1]["comm_type"] == "int64_val"
    assert kinds[1]["pg_name"] == "string_val"
    assert kinds[1]["comm_size"] == "uint64_val", "the type that the file had is kept"
    assert kinds[2]["comm_size"] == "int64_val"
    assert kinds[2]["comm_dst"] == kinds[2]["comm_tag"] == "int32_val"
    assert list(third.data_deps) == [7, 3]
    assert third.id == 2**40
    assert first.inputs.shapes == "[[2,3]]"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("type", "COMPUTE"),
        ("comm_type", "ALLREDUCE"),
        ("comm_tag", 2**31),
        ("duration_micros", -1),
        ("tensor_size", -1),
        ("attributes", '{"a":{"int65_val":1}}'),
        ("attributes", '{"a":{"int32_val":"x"}}'),
        ("attributes", "[1]"),
        ("inputs", '{"kinds":"x"}'),
    ],
)
def test_what_fits_no_field_is_refused_and_nothing_is_written(
    tmp_path: Path, column: str, value: object
) -> None:
    dtype = NODES.schema[column]
    wrong = NODES.with_columns(pl.lit(value).cast(dtype).alias(column))
    with pytest.raises(ArgumentError):
        chakra.write(tmp_path / "a.0.et", ChakraRank(0, "0.0.4", (), wrong, RANK.data_deps, RANK.ctrl_deps))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.0.et").write_bytes(b"mine")
    with pytest.raises(OutputError):
        chakra.write(tmp_path / "a.0.et", RANK)
    assert (tmp_path / "a.0.et").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"schema": "1.1.1", "nodes": []}', b"\x05hello", b"\xff" * 40]
)
def test_what_is_no_et_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.0.et").write_bytes(content)
    with pytest.raises(NotATraceError):
        chakra.read(tmp_path / "a.0.et")


def folder_of(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).write_bytes(b"")
    return str(folder)


def ranks(*paths: str) -> list[tuple[int, str]]:
    return [(file.rank, Path(file.path).name) for file in find_chakra_files(paths).files]


def test_the_files_of_a_folder_are_those_of_ranks_in_the_order_of_numbers(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "job.10.et", "job.2.et", "job.0.et.gz", "notes.txt", "job.et.log")
    assert ranks(folder) == [(0, "job.0.et.gz"), (2, "job.2.et"), (10, "job.10.et")]


def test_a_prefix_names_the_files_of_its_job_alone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "a.0.et", "a.1.et", "b.0.et")
    assert ranks(f"{folder}/a") == [(0, "a.0.et"), (1, "a.1.et")]
    assert find_chakra_files([f"{folder}/a"]).is_job


def test_a_single_file_is_no_job_and_needs_no_rank_in_its_name(tmp_path: Path) -> None:
    folder_of(tmp_path, "rank.et")
    found = find_chakra_files([str(tmp_path / "rank.et")])
    assert ([file.rank for file in found.files], found.is_job) == ([0], False)


@pytest.mark.parametrize("name", ["nothing", "job", "job.0.et"])
def test_what_is_not_there_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    folder_of(tmp_path, "other.0.et")
    with pytest.raises(InputError) as raised:
        find_chakra_files([str(tmp_path / name)])
    assert raised.value.path == str(tmp_path / name)


def test_a_folder_without_files_and_a_name_without_rank_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        find_chakra_files([folder_of(tmp_path, "x.json")])
    with pytest.raises(InputError):
        find_chakra_files([str(tmp_path / name) for name in ("a.et", "x.json")])


def test_the_comm_group_file_is_the_one_of_the_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "job.0.et", "comm_group.json", "network.json")
    assert find_chakra_files([folder]).groups_path == str(tmp_path / "comm_group.json")
    assert find_chakra_files([folder], "other.json").groups_path == "other.json"
    folder_of(tmp_path, "job.comm_groups.json")
    with pytest.raises(ArgumentError):
        find_chakra_files([folder])


@cases(
    "name, content, is_found",
    {
        "of the prefix, as STAGE names it": ("workload.json", '{"1": [0, 1], "2": [0]}', True),
        "of another prefix": ("other.json", '{"1": [0, 1]}', False),
        "no groups": ("workload.json", '{"nodes": [0, 1]}', False),
        "an empty object": ("workload.json", "{}", False),
        "no JSON": ("workload.json", "", False),
    },
)
def test_groups_in_a_file_of_the_prefix_are_found(
    tmp_path: Path, name: str, content: str, is_found: bool
) -> None:
    folder = folder_of(tmp_path, "workload.0.et", "workload.1.et")
    path = tmp_path / name
    path.write_text(content)
    expected = str(path) if is_found else ""
    assert find_chakra_files([folder]).groups_path == expected
    assert find_chakra_files([f"{folder}/workload"]).groups_path == expected
    folder_of(tmp_path, "comm_group.json")
    assert find_chakra_files([folder]).groups_path == str(tmp_path / "comm_group.json")


@pytest.mark.parametrize("text", ["", "[1]", '{"1": "all"}', '{"1": [0, "b"]}', '{"1": [0,', b"\xff\xfe{"])
def test_a_comm_group_file_of_another_kind_is_an_error(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "comm_group.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError):
        read_comm_groups(str(path))


def test_comm_groups_are_read(tmp_path: Path) -> None:
    path = tmp_path / "comm_group.json"
    path.write_text('{"1": [0, 1], "2": []}')
    assert read_comm_groups(str(path)) == {"1": [0, 1], "2": []}


def file_of(folder: Path, ids: list[int], data: dict[int, list[int]], ctrl: dict[int, list[int]]) -> Path:
    """An `.et` file of nodes with these ids, and what each waits for by its id."""
    frame = pl.DataFrame({"node_id": ids, "name": [f"node {node}" for node in ids], "type": "COMP_NODE"})
    frame = frame.with_columns(duration_micros=pl.lit(5))
    path = folder / "a.0.et"
    rank = ChakraRank(
        0, "0.0.4", (), CHAKRA_NODES.conform(frame, fill_missing=True), _deps(ids, data), _deps(ids, ctrl)
    )
    chakra.write(path, rank, overwrite=True)
    return path


def _deps(ids: list[int], named: dict[int, list[int]]) -> NodeDeps:
    lists = [named.get(node, []) for node in ids]
    first = np.concatenate([[0], np.cumsum([len(entry) for entry in lists])])
    return NodeDeps(
        first.astype(np.int64), np.array([node for entry in lists for node in entry], dtype=np.int64)
    )


def test_nodes_come_when_all_that_they_wait_for_is_done(tmp_path: Path) -> None:
    path = file_of(tmp_path, [30, 10, 20, 40], {40: [30, 10]}, {20: [10]})
    feeder = Feeder(path)
    assert (len(feeder), feeder.ready(), feeder.version) == (4, 2, "0.0.4")
    first, second = feeder.take(), feeder.take()
    assert [first["node_id"], second["node_id"], feeder.ready()] == [30, 10, 0]
    assert (first["name"], first["type"], first["duration_micros"]) == ("node 30", "COMP_NODE", 5)
    feeder.finish(30)
    assert feeder.ready() == 0, "node 40 waits for node 10, too"
    feeder.put_back(10)
    assert feeder.take()["node_id"] == 10
    feeder.finish(10)
    third = feeder.take()
    assert (third["node_id"], third["ctrl_deps"]) == (20, [10])
    assert feeder.take()["data_deps"] == [30, 10]
    for node in (20, 40):
        feeder.finish(node)
    assert (len(feeder), feeder.ready()) == (0, 0)


def test_control_dependencies_are_left_out_where_asked_for(tmp_path: Path) -> None:
    path = file_of(tmp_path, [1, 2], {}, {1: [2]})
    assert [node["node_id"] for node in Feeder(path)] == [2, 1]
    assert [node["node_id"] for node in Feeder(path, ctrl_deps=False)] == [1, 2]


def test_all_nodes_of_many_blocks_come_once_in_an_order_that_holds(tmp_path: Path) -> None:
    count = 5000
    ids = list(range(count))
    data = {node: [(node * 7919) % node, node // 2] for node in ids if node}
    feeder = Feeder(file_of(tmp_path, ids, data, {}))
    done: set[int] = set()
    for node in feeder:
        assert done.issuperset(node["data_deps"])
        done.add(node["node_id"])
    assert len(done) == count


def test_a_step_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    feeder = Feeder(file_of(tmp_path, [1, 2], {2: [1]}, {}))
    with pytest.raises(ArgumentError, match="node 1 "):
        feeder.finish(1)
    with pytest.raises(ArgumentError, match="node 9 "):
        feeder.put_back(9)
    assert feeder.take()["node_id"] == 1
    with pytest.raises(ArgumentError, match="1 are taken"):
        feeder.take()


@pytest.mark.parametrize(
    ("ids", "data", "named"),
    [
        ([1, 2, 3], {2: [99]}, "node 2 .* 99"),
        ([1, 2, 3], {1: [3], 3: [2], 2: [1]}, "circle: [123], [123], [123]$"),
        ([1, 2, 3], {2: [2]}, "themselves: 2"),
        ([1, 2, 2], {}, "one id: 2"),
    ],
)
def test_nodes_that_could_never_run_are_refused_by_name(
    tmp_path: Path, ids: list[int], data: dict[int, list[int]], named: str
) -> None:
    with pytest.raises(InputError) as caught:
        Feeder(file_of(tmp_path, ids, data, {}))
    assert re.search(named, caught.value.problem), caught.value.problem
    assert caught.value.where.startswith("byte ")


def test_files_that_cannot_be_fed_are_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, [1, 2], {}, {})
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match="truncated"):
        Feeder(path)
    path.write_bytes(content + b"\x02\x0f\x0f")
    with pytest.raises(InputError, match="no node"):
        Feeder(path)
    path.write_bytes(b"{}")
    with pytest.raises(NotATraceError):
        Feeder(path)


def test_a_rank_is_counted() -> None:
    nodes = [
        compute(0, us=100, is_cpu_op=True, kind="op", duration_ns=99_700),
        compute(1, 0, us=30, kind="kernel"),
        compute(2, 0, us=40, kind="kernel"),
        collective(3, 1, 2, size=1000, group="2", duration_micros=7),
        collective(4, 3, size=24, comm_type="BARRIER"),
        send(5, 0, to=1, size=8),
        receive(6, 0, source=1, size=16),
        compute(7, 8),
        compute(8, 7),
    ]
    stats = rank_stats(rank_of(3, nodes))
    (row,) = stats.ranks.to_dicts()
    assert row == {
        "rank": 3,
        "nodes": 9,
        "data_deps": 9,
        "ctrl_deps": 0,
        "never_run": 2,
        "host_us": 100,
        "compute_us": 72,
        "communication_us": 10,
        "communication_bytes": 1048,
        "depth": 4,
        "chain_us": 148,
        "widest": 4,
    }
    assert [row for row in stats.nodes.rows() if row[1] == "COMP_NODE"] == [
        (3, "COMP_NODE", None, 2, 2, None),
        (3, "COMP_NODE", "kernel", 2, 70, None),
        (3, "COMP_NODE", "op", 1, 100, 99_700),
    ]
    assert stats.communication.select("type", "pg_name", "nodes", "size_bytes").rows() == [
        ("ALL_REDUCE", "2", 1, 1000),
        ("BARRIER", None, 1, 24),
        ("COMM_RECV_NODE", None, 1, 16),
        ("COMM_SEND_NODE", None, 1, 8),
    ]


def test_all_ranks_are_summed_and_chains_are_the_longest() -> None:
    ranks = [rank_of(0, [compute(0, us=5)]), rank_of(1, [compute(0, us=2), collective(1, 0), compute(2, 1)])]
    stats = job_stats([rank_stats(rank) for rank in ranks])
    assert stats.ranks.select("rank", "nodes", "compute_us", "depth", "chain_us").rows() == [
        (0, 1, 5, 1, 5),
        (1, 3, 3, 3, 4),
        (None, 4, 8, 3, 5),
    ]
    assert stats.communication.rows() == [
        (1, "ALL_REDUCE", None, None, 1, 1024),
        (None, "ALL_REDUCE", None, None, 1, 1024),
    ]


def test_a_file_without_nodes_has_numbers_too() -> None:
    (row,) = rank_stats(rank_of(0, [])).ranks.to_dicts()
    assert set(row.values()) == {0}


def ids_of(choice: PartChoice) -> list[int]:
    return [node - FIRST_ID for node in chosen_part(made_rank(), choice).nodes.get_column("node_id")]


@pytest.mark.parametrize(
    ("choice", "rows"),
    [
        (PartChoice(), list(range(11))),
        (PartChoice(nodes=(13,)), [3]),
        (PartChoice(nodes=(13,), near=1), [3, 4, 5, 6, 7, 8, 9]),
        (PartChoice(nodes=(13,), near=2), [0, 3, 4, 5, 6, 7, 8, 9, 10]),
        (PartChoice(nodes=(13,), near=99), list(range(11))),
        (PartChoice(ids=(11, 13)), [1, 2, 3]),
        (PartChoice(name="parallel"), [5, 6, 7, 8, 9]),
        (PartChoice(name="<script>"), [0]),
        (PartChoice(step="1"), [5, 6, 7, 8, 9]),
        (PartChoice(step="1", top=2), [8, 9]),
        (PartChoice(types=(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)), [5, 6]),
        (PartChoice(types=(NodeType.COMP_NODE,), top=1, near=1), [5, 6, 7, 8, 9, 10]),
    ],
    ids=str,
)
def test_what_is_chosen(choice: PartChoice, rows: list[int]) -> None:
    assert ids_of(choice) == rows


def test_dependencies_within_the_part_are_kept_and_the_others_counted() -> None:
    part = chosen_part(made_rank(), PartChoice(ids=(10, 12)))
    assert sorted(part.edges.rows()) == [
        (10, 11, "data"),
        (10, 12, "control"),
        (11, 12, "data"),
        (12, 11, "data"),
        (MISSING, 12, "control"),
    ]
    assert part.missing == (MISSING,)
    assert part.left_out == 1
    assert part.nodes_of_file == 11
    whole = chosen_part(made_rank(), PartChoice())
    assert (whole.edges.height, whole.left_out) == (17, 0)


@pytest.mark.parametrize(
    "choice",
    [
        PartChoice(nodes=(7,)),
        PartChoice(step="2"),
        PartChoice(ids=(1, 9)),
        PartChoice(name="nothing of this name"),
        PartChoice(types=(NodeType.COMM_SEND_NODE,)),
    ],
    ids=str,
)
def test_a_part_without_nodes_is_refused(choice: PartChoice) -> None:
    with pytest.raises(ArgumentError):
        chosen_part(made_rank(), choice)
