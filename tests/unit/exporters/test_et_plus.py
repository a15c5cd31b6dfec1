"""ET+: the Execution Trace with the times of events and nodes of device work."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, call, et_text, kernel, kineto_text, node, op, tensor, write
from tests.unit.linking.made import et_of, linked_of
from tracebraid import link, read_execution_trace, write_et_plus
from tracebraid.errors import ArgumentError, OutputError
from tracebraid.model.coverage import OrphanReason
from tracebraid.model.linked_trace import LinkedTrace

ADDED = ("ts", "inclusive_dur", "exclusive_dur")
BASE_NS = 1_700_000_000_000_000_000

EVENTS = [
    op("outer", 100.001, 90.5, Record_function_id=51),
    op("mm", 110.25, 50.125, Record_function_id=52),
    call("launch", 120, 5, 7),
    call("late", 900, 5, 8),
    kernel("gemm", 500.123, 9.001, 7),
    kernel("nccl", 400.5, 20, 7, **Json({"Collective name": "allreduce", "Process Group Name": "pg3"})),
    kernel("outside", 950, 3, 8, stream=20),
    kernel("lost", 50, 1, 99, cat="gpu_memset"),
]

NODES = et_of(
    node(20, "outer", 1001, rf_id=51),
    node(21, "mm", 20, [tensor(3, 4, [2, 3]), ("Int", 5, [])], [tensor(6, 7, [2, 3])], rf_id=52),
    node(22, "unlinked", 20, rf_id=60),
)


@pytest.fixture
def made() -> LinkedTrace:
    return linked_of(EVENTS, NODES, {"baseTimeNanoseconds": BASE_NS})


def load(path: Path) -> Json:
    """The file, with decimals as they are written."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return json.loads(text, parse_float=Decimal)


def exported(linked: LinkedTrace, folder: Path) -> Json:
    write_et_plus(linked, folder / "et_plus.json")
    return load(folder / "et_plus.json")


def by_name(found: Json) -> dict[str, Json]:
    return {one["name"]: one for one in found["nodes"]}


@cache
def demo_pair(demo: Path, rank: int) -> LinkedTrace:
    return link(demo / f"torch_et_{rank}.json.gz", demo / f"kineto_trace_{rank}.json.gz")


def test_without_the_added_keys_every_node_is_the_execution_traces(demo: Path, tmp_path: Path) -> None:
    found = exported(demo_pair(demo, 0), tmp_path)
    original = load(demo / "torch_et_0.json.gz")
    bare = [{key: value for key, value in one.items() if key not in ADDED} for one in found["nodes"]]
    assert bare == sorted(original["nodes"], key=lambda one: one["id"])


def test_the_header_is_the_execution_traces_with_the_clocks_base(demo: Path, tmp_path: Path) -> None:
    linked = demo_pair(demo, 1)
    found, original = exported(linked, tmp_path), load(demo / "torch_et_1.json.gz")
    for part in (found, original):
        part.pop("nodes")
    assert found == {**original, "baseTimeNanoseconds": linked.timeline.base_time_ns}


def test_linked_nodes_have_the_times_of_their_event_to_the_ns(made: LinkedTrace, tmp_path: Path) -> None:
    """On the clock of the Kineto file: relative to its base, float64 still tells nanoseconds apart."""
    found = exported(made, tmp_path)
    assert list(found) == ["schema", "pid", "time", "start_ts", "baseTimeNanoseconds", "nodes", "finish_ts"]
    assert found["baseTimeNanoseconds"] == BASE_NS
    nodes = by_name(found)
    for name, times in (("mm", ("110.250", "50.125", "50.125")), ("outer", ("100.001", "90.500", "40.375"))):
        assert [nodes[name][key] for key in ADDED] == list(map(Decimal, times))
    assert not set(ADDED) & set(nodes["unlinked"])


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("rank", [0, 1])
def test_nodes_are_sorted_by_id_and_ids_are_unique(demo: Path, tmp_path: Path, rank: int) -> None:
    ids = [one["id"] for one in exported(demo_pair(demo, rank), tmp_path)["nodes"]]
    assert ids == sorted(set(ids))


def test_times_of_an_old_trace_are_absolute(tmp_path: Path) -> None:
    events = [op("mm", 1_700_000_000_123_456, 7, Record_function_id=52)]
    found = exported(linked_of(events, et_of(node(20, "mm", 1001, rf_id=52))), tmp_path)
    assert found["baseTimeNanoseconds"] == 0
    assert by_name(found)["mm"]["ts"] == Decimal("1700000000123456.000")


def test_every_device_event_is_a_node_under_its_ops_node(made: LinkedTrace, tmp_path: Path) -> None:
    """It has the inputs, outputs and attributes of the op; orphans are under the root, with their reason."""
    found = exported(made, tmp_path)["nodes"]
    ids = [one["id"] for one in found]
    assert ids == sorted(set(ids))
    device = [one for one in found if "cat" in one]
    assert [one["name"] for one in device] == ["lost", "nccl", "gemm", "outside"], (
        "in the order of their starts"
    )
    assert min(one["id"] for one in device) > 1001
    lost, nccl, gemm, outside = device
    shown = [
        gemm[key] for key in ("ctrl_deps", "cat", "ph", "ts", "inclusive_dur", "exclusive_dur", "stream")
    ]
    assert shown == [21, "kernel", "X", Decimal("500.123"), Decimal("9.001"), Decimal("9.001"), 7]
    (mm,) = (one for one in found if one["name"] == "mm")
    assert all(gemm[key] == mm[key] for key in ("inputs", "outputs", "attrs"))
    assert [one["pg_name"] for one in found if "pg_name" in one] == [nccl["pg_name"]] == ["pg3"]
    assert (outside["orphan"], lost["orphan"]) == (OrphanReason.OUTSIDE_OF_OPS, OrphanReason.NO_CALL)
    assert outside["ctrl_deps"] == lost["ctrl_deps"] == 1
    assert "orphan" not in gemm


def test_a_device_event_whose_op_has_no_node_says_so(tmp_path: Path) -> None:
    events = [op("x", 0, 100, Record_function_id=77), call("launch", 20, 5, 7), kernel("k", 500, 9, 7)]
    found = by_name(exported(linked_of(events, et_of(node(20, "y", 1001, rf_id=1))), tmp_path))
    assert found["k"]["ctrl_deps"] == 1
    assert found["k"]["orphan"] == OrphanReason.LAUNCHER_WITHOUT_NODE


def test_names_are_escaped(tmp_path: Path) -> None:
    name = 'a "quoted"\n\\ name, \u00b5 and \U0001f600'
    events = [op(name, 0, 9, Record_function_id=5)]
    found = by_name(exported(linked_of(events, et_of(node(20, name, 1001, rf_id=5))), tmp_path))
    assert found[name]["ts"] == 0


def flat(node_id: int, name: str, parent: int, rf_id: int, **members: Any) -> Json:
    """A node of schema 1.0.1."""
    lists = ("inputs", "input_shapes", "input_types", "outputs", "output_shapes", "output_types")
    numbers = {"fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 1, "fw_tid": 0, "op_schema": ""}
    plain = {"name": name, "id": node_id, "rf_id": rf_id, "parent": parent, **numbers}
    return {**plain, **{key: [] for key in lists}, **members}


def test_schema_1_0_1_is_written_in_the_form_of_1_0_2(tmp_path: Path) -> None:
    value = [3, 4, 0, 6, 4, "cpu"]
    nodes = [
        flat(2, "[pytorch|profiler|execution_graph|thread]", 1, 0),
        flat(
            5,
            "aten::t",
            2,
            52,
            inputs=[value, 7],
            input_shapes=[[2, 3], []],
            input_types=["Tensor(float)", "Int"],
        ),
        flat(1, "[pytorch|profiler|execution_graph|process]", 1, 0),
    ]
    found = exported(linked_of([op("aten::t", 1, 9, Record_function_id=52)], nodes, schema="1.0.1"), tmp_path)
    assert found["schema"] == "1.0.2-chakra.0.0.4"
    assert [one["id"] for one in found["nodes"]] == [1, 2, 5]
    made = by_name(found)["aten::t"]
    assert made["ctrl_deps"] == 2
    assert made["inputs"] == {"values": [value, 7], "shapes": [[2, 3], []], "types": ["Tensor(float)", "Int"]}
    assert made["outputs"] == {"values": [], "shapes": [], "types": []}
    assert {one["name"]: one["value"] for one in made["attrs"]} == {
        "rf_id": 52,
        "fw_parent": 0,
        "seq_id": -1,
        "scope": 0,
        "tid": 1,
        "fw_tid": 0,
        "op_schema": "",
    }


def test_attributes_of_all_kinds_come_back(tmp_path: Path) -> None:
    extra = [
        {"name": "kernel_backend", "type": "string", "value": "triton"},
        {"name": "kernel_file", "type": "string", "value": "/tmp/x.py"},
        {"name": "collective_name", "type": "string", "value": "allreduce"},
        {"name": "in_msg_nelems", "type": "uint64", "value": 8},
        {"name": "in_split_size", "type": "string", "value": "[1,2]"},
        {"name": "pg_name", "type": "string", "value": "0"},
        {"name": "is_asynchronized_op", "type": "bool", "value": True},
        {"name": "tensor_range", "type": "string", "value": '{"0":[1,2]}'},
        {"name": "from_tomorrow", "type": "list", "value": [1, {"a": None}]},
    ]
    one = node(20, "record_param_comms", 1001, rf_id=5)
    one["attrs"] += extra
    found = by_name(exported(linked_of([op("x", 0, 1)], et_of(one)), tmp_path))
    written = {attr["name"]: (attr["type"], attr["value"]) for attr in found["record_param_comms"]["attrs"]}
    kinds = {"rf_id": "uint64", "fw_parent": "uint64", "scope": "uint64", "tid": "uint64", "fw_tid": "uint64"}
    expected = {a["name"]: (kinds.get(a["name"], a["type"]), a["value"]) for a in one["attrs"]}
    assert written == expected


def test_values_come_back_as_they_were_written(tmp_path: Path) -> None:
    values: list[tuple[str, Any, list[Any]]] = [
        ("Double", 0.000000, []),
        ("Double", "nan", []),
        ("String", 'say "hi" \u00b5', []),
        ("GenericList[Int,Int]", [1, 2], [[], []]),
        ("None", "<None>", []),
        ("Bool", True, []),
        ("Int", -(2**63), []),
    ]
    one = node(20, "x", 1001, values, rf_id=5)
    found = by_name(exported(linked_of([op("x", 0, 1)], et_of(one)), tmp_path))
    assert found["x"]["inputs"]["values"] == [value for _, value, _ in values]
    assert found["x"]["inputs"]["shapes"] == [shape for _, _, shape in values]
    assert found["x"]["inputs"]["types"] == [kind for kind, _, _ in values]


def test_a_node_whose_parent_is_not_there_keeps_it(tmp_path: Path) -> None:
    found = exported(linked_of([op("x", 0, 1)], et_of(node(20, "x", 999, rf_id=5))), tmp_path)
    assert by_name(found)["x"]["ctrl_deps"] == 999


def test_what_is_written_reads_as_an_execution_trace(made: LinkedTrace, tmp_path: Path) -> None:
    write_et_plus(made, tmp_path / "et_plus.json")
    again = read_execution_trace(tmp_path / "et_plus.json")
    assert made.et is not None
    assert again.nodes.head(made.et.nodes.height).equals(made.et.nodes)
    assert again.nodes.height == made.et.nodes.height + 4
    assert again.findings == ()


def test_the_same_input_gives_the_same_bytes(demo: Path, tmp_path: Path) -> None:
    for name in ("one.json", "two.json", "one.json.gz", "two.json.gz"):
        write_et_plus(demo_pair(demo, 0), tmp_path / name)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert (tmp_path / "one.json.gz").read_bytes() == (tmp_path / "two.json.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.json.gz").read_bytes()) == (tmp_path / "one.json").read_bytes()


@pytest.mark.full
def test_another_hash_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text(EVENTS))
    et = write(tmp_path / "torch_et_0.json", et_text(NODES))
    code = "import sys; from tracebraid import link, write_et_plus; write_et_plus(link(*sys.argv[1:3]), sys.argv[3])"
    own, other = tmp_path / "own.json.gz", tmp_path / "other.json.gz"
    write_et_plus(link(et, kineto), own)
    command = [sys.executable, "-c", code, str(et), str(kineto), str(other)]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
    assert own.read_bytes() == other.read_bytes()


def test_an_existing_file_is_replaced(made: LinkedTrace, tmp_path: Path) -> None:
    (tmp_path / "et_plus.json").write_text("old")
    assert exported(made, tmp_path)["nodes"]
    assert [path.name for path in tmp_path.iterdir()] == ["et_plus.json"]


def test_without_an_execution_trace_there_is_nothing_to_write(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="rank 0 has no Execution Trace"):
        write_et_plus(linked_of(EVENTS), tmp_path / "et_plus.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "place",
    [
        "no/such/folder/et.json",
        "folder",
        pytest.param("file/et.json", id="below a file"),
        pytest.param("n" * 300 + ".json", id="a name too long"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_error_and_leaves_nothing(
    made: LinkedTrace, tmp_path: Path, place: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OutputError, match=r"cannot be written|its folder does not exist"):
        write_et_plus(made, tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


@pytest.mark.full
def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text(EVENTS))
    et = write(tmp_path / "torch_et_0.json", et_text(NODES))
    target = write(tmp_path / "et_plus.json", "old")
    code = (
        "import resource, sys; from tracebraid import errors, link, write_et_plus; linked = link(*sys.argv[1:3])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_et_plus(linked, sys.argv[3])\n"
        "except errors.OutputError as error: print(error)"
    )
    command = [sys.executable, "-c", code, str(et), str(kineto), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert target.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == sorted([kineto, et, target])


def test_what_is_no_regular_file_is_never_replaced(made: LinkedTrace, tmp_path: Path) -> None:
    """`-o /dev/null`, as root, must not put a file in its place. A pipe stands in for it here."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_et_plus(made, pipe)
    except OutputError:
        pass
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_sendrecv_kernel_bears_the_name_that_chakra_takes(tmp_path: Path) -> None:
    name = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)"
    events = [op("mm", 0, 10, Record_function_id=52), call("launch", 1, 2, 7), kernel(name, 20, 5, 7)]
    found = exported(linked_of(events, et_of(node(20, "mm", 1001, rf_id=52))), tmp_path)["nodes"]
    assert found[-1]["name"] == "ncclDevKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)"
    assert found[-1]["kineto_name"] == name
    assert [one["name"] for one in found if "kineto_name" in one] == [found[-1]["name"]]


def test_the_traces_that_are_read_are_no_output(demo: Path, tmp_path: Path) -> None:
    for name in ("torch_et_0.json.gz", "kineto_trace_0.json.gz"):
        shutil.copy(demo / name, tmp_path / name)
    linked = link(tmp_path / "torch_et_0.json.gz", tmp_path / "kineto_trace_0.json.gz")
    (tmp_path / "same.json.gz").symlink_to(tmp_path / "torch_et_0.json.gz")
    for name in ("torch_et_0.json.gz", "kineto_trace_0.json.gz", "same.json.gz"):
        with pytest.raises(OutputError, match="one of the traces to read"):
            write_et_plus(linked, tmp_path / name)
    assert (tmp_path / "torch_et_0.json.gz").read_bytes() == (demo / "torch_et_0.json.gz").read_bytes()
