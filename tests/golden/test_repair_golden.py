"""Does a repair of real traces change the wrong parents alone, and does our own reader find all else as it was?"""

from __future__ import annotations

import dataclasses
import shutil
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

from tests.builders import kineto_text, op, write
from tests.et_tables import ET_TABLES
from tests.golden.linked import load, pair
from tests.misled import misled_copy, wrong_parents
from tests.unit.validation.made import codes
from tracebraid import check, link, read_execution_trace, repair, write_et_plus
from tracebraid.exporters.et_json import write_repaired_et
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.stage import computed

REAL = [
    "pairs/simple_add_a100/torch_et_0.json.gz",
    "pairs/dlrm_v100_8rank/torch_et_3.json.gz",
    "pairs/linear_2080ti/torch_et_0.json.gz",
    "et/resnet_1gpu_1.0.3.json.gz",
    "et/resnet_2gpu_1.1.0.json.gz",
]


def numbered_anew(et: ExecutionTrace) -> dict[int, int]:
    """Numbers of tensors in the order of their first uses by id: the reader's own follow the order of the file."""
    uses = et.tensor_uses.sort("node_id", "is_output", "position", "item")
    order = uses.get_column("tensor").unique(maintain_order=True).to_list()
    return {old: new for new, old in enumerate(order)}


def table(et: ExecutionTrace, name: str) -> pl.DataFrame:
    """A table with categories as text, and rows and tensors in an order that is not the file's."""
    frame = getattr(et, name)
    text = pl.col(column for column, kind in frame.schema.items() if kind == pl.Categorical).cast(pl.String)
    frame = frame.with_columns(text)
    if "tensor" in frame.columns:
        frame = frame.with_columns(pl.col("tensor").replace_strict(numbered_anew(et)))
    return frame.sort(pl.all())


def different(before: ExecutionTrace, after: ExecutionTrace) -> list[str]:
    """Names of the tables that are not equal."""
    return [name for name in ET_TABLES if not table(before, name).equals(table(after, name))]


@cache
def wrong_nodes(demo: Path, rank: int) -> list[int]:
    """The nodes whose parents are made wrong."""
    return sorted(wrong_parents(load(demo / f"torch_et_{rank}.json.gz")["nodes"]))


@pytest.fixture(scope="module")
def misled(tmp_path_factory: pytest.TempPathFactory, demo: Path) -> Path:
    """The bundled traces with wrong parents; tests only read them."""
    return misled_copy(demo, tmp_path_factory.mktemp("misled"))


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory, demo: Path, misled: Path) -> Path:
    """The same after a repair; tests only read them."""
    folder = Path(shutil.copytree(misled, tmp_path_factory.mktemp("repaired") / "job"))
    assert [(sorted(one.changed), one.written, one.left) for one in repair(folder)] == [
        (wrong_nodes(demo, 0), True, ()),
        (wrong_nodes(demo, 1), True, ()),
    ]
    return folder


@pytest.mark.full
def test_the_repaired_traces_have_nothing_to_complain_about(misled: Path, repaired: Path) -> None:
    assert codes(check(misled)) == ["parents-differ", "parents-differ"]
    assert codes(check(repaired)) == []


@pytest.mark.parametrize("rank", [0, 1])
def test_a_repair_gives_every_node_the_parent_that_was_recorded(
    demo: Path, repaired: Path, rank: int
) -> None:
    """What made the parents wrong is undone, and nothing else is changed."""
    name = f"torch_et_{rank}.json.gz"
    recorded, after = load(demo / name), load(repaired / name)
    assert len(wrong_nodes(demo, rank)) > 200
    assert after["nodes"] == sorted(recorded["nodes"], key=lambda one: one["id"])
    assert {**after, "nodes": 0} == {**recorded, "nodes": 0}
    assert different(*(read_execution_trace(folder / name) for folder in (demo, repaired))) == []


@pytest.mark.parametrize("rank", [0, 1])
def test_links_are_the_same_after_a_repair(misled: Path, repaired: Path, rank: int) -> None:
    before, after = pair(misled, rank), pair(repaired, rank)
    assert [one.code for one in before.findings] == ["parents-differ"]
    assert after.coverage == before.coverage
    assert after.host_links.equals(before.host_links)
    assert after.findings == ()


@pytest.mark.full
@pytest.mark.parametrize("rank", [0, 1])
def test_a_new_parent_is_the_shortest_linked_op_around_the_node(
    demo: Path, repaired: Path, rank: int
) -> None:
    """Sought without our reader, linker and nesting, for all nodes that moved."""
    ids = {one["id"]: attr["value"] for one in load(repaired / f"torch_et_{rank}.json.gz")["nodes"]
           for attr in one["attrs"] if attr["name"] == "rf_id"}  # fmt: skip
    parents = {one["id"]: one["ctrl_deps"] for one in load(repaired / f"torch_et_{rank}.json.gz")["nodes"]}
    events = load(demo / f"kineto_trace_{rank}.json.gz")["traceEvents"]
    ops = {
        one["args"]["Record function id"]: one
        for one in events
        if "Record function id" in one.get("args", {})
    }
    node_of = {rf_id: node for node, rf_id in ids.items() if rf_id in ops}
    tolerance_us = 1
    for node in wrong_nodes(demo, rank):
        mine = ops[ids[node]]
        around = [
            (one["dur"], rf_id)
            for rf_id, one in ops.items()
            if one["tid"] == mine["tid"] and rf_id in node_of and rf_id < ids[node]
            if one["ts"] <= mine["ts"] < one["ts"] + one["dur"]
            if mine["ts"] + mine["dur"] <= one["ts"] + one["dur"] + tolerance_us
        ]
        expected = node_of[min(around)[1]] if around else None
        assert parents[node] == expected or (expected is None and parents[node] in (1, 2))


def test_the_original_stays_beside_the_new_file(misled: Path, repaired: Path) -> None:
    for rank in (0, 1):
        name = f"torch_et_{rank}.json.gz"
        assert (repaired / f"{name}.orig").read_bytes() == (misled / name).read_bytes()
    assert sorted(one.name for one in repaired.iterdir()) == [
        "kineto_trace_0.json.gz",
        "kineto_trace_1.json.gz",
        "torch_et_0.json.gz",
        "torch_et_0.json.gz.orig",
        "torch_et_1.json.gz",
        "torch_et_1.json.gz.orig",
    ]


def test_a_second_repair_changes_nothing(repaired: Path) -> None:
    before = {one.name: one.read_bytes() for one in repaired.iterdir()}
    assert [one.written for one in repair(repaired)] == [False, False]
    assert {one.name: one.read_bytes() for one in repaired.iterdir()} == before


@pytest.mark.parametrize("rank", [0, 1])
def test_our_reader_finds_the_tables_of_a_repaired_trace_as_they_were(
    misled: Path, repaired: Path, rank: int
) -> None:
    """But for the parents, and for what follows from them: which tensor a node that is around another one gives."""
    before, after = (
        read_execution_trace(folder / f"torch_et_{rank}.json.gz") for folder in (misled, repaired)
    )
    hide = lambda et: dataclasses.replace(et, nodes=et.nodes.with_columns(parent_id=pl.lit(0)))  # noqa: E731
    changed = different(hide(before), hide(after))
    assert set(changed) <= {"tensors", "tensor_uses", "tensor_edges"}
    columns = ["node_id", "is_output", "position", "item"]
    assert (
        before.tensor_uses.select(columns)
        .sort(columns)
        .equals(after.tensor_uses.select(columns).sort(columns))
    )


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("rank", [0, 1])
def test_our_reader_finds_the_tables_of_et_plus_as_they_were(demo: Path, tmp_path: Path, rank: int) -> None:
    write_et_plus(pair(demo, rank), tmp_path / f"torch_et_{rank}.json.gz")
    before = read_execution_trace(demo / f"torch_et_{rank}.json.gz")
    after = read_execution_trace(tmp_path / f"torch_et_{rank}.json.gz")
    assert different(before, after) == []


@pytest.mark.full(keep=1)
@pytest.mark.traces
@pytest.mark.parametrize("name", REAL)
def test_our_reader_finds_the_tables_of_every_schema_as_they_were(
    real_traces: Path, tmp_path: Path, name: str
) -> None:
    """Written again because one operator lost its parent, with a timeline that says nothing of parents."""
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text([op("other", 0, 1)]))
    linked = link(real_traces / name, kineto)
    before = linked.et
    assert before is not None
    threads = before.nodes.filter(pl.col("is_root") & (pl.col("tid") > 0)).get_column("node_id")
    first = before.op_nodes.filter(pl.col("parent_id").is_in(threads.implode())).item(0, "node_id")
    lost = pl.when(pl.col("node_id") == first).then(999_999_999).otherwise("parent_id").alias("parent_id")
    without = dataclasses.replace(before, nodes=before.nodes.with_columns(lost))
    broken = dataclasses.replace(linked, stages=replace(linked.stages, et=computed(without)))
    assert write_repaired_et(broken, tmp_path / "new.json.gz").changed == (first,)
    after = read_execution_trace(tmp_path / "new.json.gz")
    assert different(before, after) == []
    assert after.findings == before.findings


@pytest.mark.full(keep=1)
@pytest.mark.traces
@pytest.mark.parametrize("name", REAL[3:])
def test_traces_of_two_runs_do_not_repair_each_other(
    real_traces: Path, demo: Path, tmp_path: Path, name: str
) -> None:
    """A hundred ops agree by chance in id and name; where these ran says nothing of the other run's nodes."""
    shutil.copy(real_traces / name, tmp_path / "torch_et_0.json.gz")
    shutil.copy(demo / "kineto_trace_0.json.gz", tmp_path / "kineto_trace_0.json.gz")
    assert {"another-run", "another-program"} <= set(codes(check(tmp_path)))
    assert [one.changed for one in repair(tmp_path)] == [()]
