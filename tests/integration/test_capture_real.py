"""Traces that torch writes here and now: captured in processes of their own, then linked and checked op by op."""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl
import pytest

from tests.builders import Json
from tests.conftest import ROOT
from tests.integration.calm import shared_capture
from tests.integration.running import run_command, run_script
from tracebraid import link, write_et_plus
from tracebraid import open as open_job
from tracebraid.analyses import breakdown, ops, steps
from tracebraid.analysis.inference.phases import inference_phases
from tracebraid.model.linked_trace import LinkedTrace

pytestmark = [
    pytest.mark.torch,
    pytest.mark.compiler,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]

SINGLE = """
import sys
from pathlib import Path
import torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs, targets = torch.randn(8, 16), torch.randint(0, 4, (8,))
folder = Path(sys.argv[1])
observer = ExecutionTraceObserver().register_callback(str(folder / "torch_et_0.json"))
with profile(
    activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer
) as profiler:
    for _ in range(2):
        with record_function("## step ##"):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        profiler.step()
observer.unregister_callback()
profiler.export_chrome_trace(str(folder / "kineto_trace_0.json"))
"""


@dataclass(frozen=True)
class Rank:
    """One rank's traces: as the files have them, and linked."""

    events: dict[int, Json]
    nodes: dict[int, Json]
    linked: LinkedTrace

    @cached_property
    def rf_ids(self) -> dict[int, int]:
        """The rf_id of each node that stands for an op."""
        found = {}
        for node_id, node in self.nodes.items():
            if not node["name"].startswith("[pytorch|profiler|"):
                found[node_id] = next(a["value"] for a in node["attrs"] if a["name"] == "rf_id")
        return found

    @cached_property
    def in_both(self) -> dict[int, int]:
        """Event to node, of those whose record-function id is in both files."""
        event_of = {event["args"]["Record function id"]: number for number, event in self.events.items()}
        return {event_of[rf]: node for node, rf in self.rf_ids.items() if rf in event_of}

    @cached_property
    def node_of_event(self) -> dict[int, int | None]:
        """The links that were made."""
        return dict(self.linked.host_links.select("event_id", "node_id").iter_rows())


def load(path: Path) -> Json:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def rank_of(folder: Path, rank: int, suffix: str) -> Rank:
    et, kineto = folder / f"torch_et_{rank}{suffix}", folder / f"kineto_trace_{rank}{suffix}"
    events = [event for event in load(kineto)["traceEvents"] if event["ph"] == "X"]
    host = {i: e for i, e in enumerate(events) if e.get("cat") in ("cpu_op", "user_annotation")}
    return Rank(host, {node["id"]: node for node in load(et)["nodes"]}, link(et, kineto))


def run(*command: object) -> None:
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Rank:
    folder = tmp_path_factory.mktemp("single")
    run("-c", SINGLE, folder)
    return rank_of(folder, 0, ".json")


@pytest.fixture(scope="module")
def ddp_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks of DDP over gloo, by the script that makes the bundled traces, with the native recorder."""

    def capture(folder: Path) -> None:
        folder.mkdir()
        run(ROOT / "tools" / "capture_demo.py", "--out", folder)

    return shared_capture(tmp_path_factory, "ddp", capture)


@pytest.fixture(scope="module")
def ddp(ddp_folder: Path) -> list[Rank]:
    return [rank_of(ddp_folder, rank, ".json.gz") for rank in (0, 1)]


@pytest.fixture(scope="module")
def by_torch(tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    """Two ranks of DDP over gloo, whose Execution Traces PyTorch's observer wrote."""

    def capture(folder: Path) -> None:
        folder.mkdir()
        done = run_script("ranks.py", folder, "ddp", folder / "store", RECORDER="torch")
        assert done.returncode == 0, done.stderr

    folder = shared_capture(tmp_path_factory, "by_torch", capture)
    return [rank_of(folder, rank, ".json.gz") for rank in (0, 1)]


# --- one process ------------------------------------------------------------------------------------


def test_a_training_step_links_every_op_that_is_in_both(single: Rank) -> None:
    assert len(single.in_both) > 100
    assert {event: single.node_of_event[event] for event in single.in_both} == single.in_both


def test_a_training_step_links_nothing_that_is_in_one_alone(single: Rank) -> None:
    made = {event: node for event, node in single.node_of_event.items() if node is not None}
    assert made == single.in_both


def test_linked_ops_have_equal_names(single: Rank) -> None:
    assert [single.events[e]["name"] for e in single.in_both] == [
        single.nodes[n]["name"] for n in single.in_both.values()
    ]


def test_a_training_step_is_covered_in_full(single: Rank) -> None:
    coverage = single.linked.coverage
    assert coverage.host_ops.by_method == {"record_function_id": coverage.host_ops.total}
    assert coverage.share == 1.0
    assert coverage.et_nodes.total - coverage.et_nodes.linked <= 1


def test_parents_and_nesting_agree_on_a_clean_trace(single: Rank) -> None:
    assert [finding.code for finding in single.linked.findings] == []
    assert list(differing(single)) == []


def test_every_node_that_ran_backward_has_its_forward_op(single: Rank) -> None:
    pairs = single.linked.forward_backward
    names = {number: event["name"] for number, event in single.events.items()}
    found = {(names[f], names[b]) for f, b in pairs.select("forward_event", "backward_event").iter_rows()}
    assert {("aten::addmm", "AddmmBackward0"), ("aten::relu", "ReluBackward0")} <= found


def test_an_annotation_gives_the_steps_of_a_training(single: Rank) -> None:
    linked = single.linked.with_annotation("## step ##")
    assert steps(linked).height == 2
    rows = breakdown(linked).filter(pl.col("step").is_not_null()).to_dicts()
    assert [row["device"] for row in rows] == ["cpu", "cpu"]
    assert all(row["compute_ns"] + row["idle_ns"] == row["span_ns"] > 0 for row in rows)


def test_ops_have_the_shapes_of_their_inputs(single: Rank) -> None:
    table = ops(single.linked).filter(name="aten::addmm")
    shapes = [json.loads(text) for text in table.get_column("input_dims")]
    assert sorted(row[:3] for row in shapes) == [
        [[4], [8, 32], [32, 4]],
        [[32], [8, 16], [16, 32]],
    ]


def test_et_plus_of_a_capture_gives_every_node_back(single: Rank, tmp_path: Path) -> None:
    write_et_plus(single.linked, tmp_path / "et_plus.json")
    added = ("ts", "inclusive_dur", "exclusive_dur")
    found = load(tmp_path / "et_plus.json")["nodes"]
    assert {n["id"]: {k: v for k, v in n.items() if k not in added} for n in found} == single.nodes
    assert sum("ts" in node for node in found) == len(single.in_both)


# --- two ranks --------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_two_ids_differ_in_a_ddp_capture(ddp: list[Rank]) -> None:
    """Else the tests below would not tell a join by the wrong id from one by the right id."""
    for rank in ddp:
        args = [event["args"] for event in rank.events.values()]
        assert sum(one["External id"] != one["Record function id"] for one in args) > 0.9 * len(args)


def test_a_ddp_capture_links_every_op_that_is_in_both_to_the_right_node(ddp: list[Rank]) -> None:
    for rank in ddp:
        assert len(rank.in_both) > 1000
        assert {event: rank.node_of_event[event] for event in rank.in_both} == rank.in_both
        assert [rank.events[e]["name"] for e in rank.in_both] == [
            rank.nodes[n]["name"] for n in rank.in_both.values()
        ]


def test_a_ddp_capture_links_nothing_else(ddp: list[Rank]) -> None:
    for rank in ddp:
        made = {event: node for event, node in rank.node_of_event.items() if node is not None}
        assert made == rank.in_both


def differing(rank: Rank) -> Iterator[tuple[int, int | None, int]]:
    """(node, node of the op around it in time, its parent in the Execution Trace), where the latter two differ."""
    around = dict(rank.linked.host_tree.select("event_id", "op_event").iter_rows())
    for event, node in rank.in_both.items():
        outer = around[event]
        by_time = rank.node_of_event[outer] if outer is not None else None
        parent = rank.nodes[node]["ctrl_deps"]
        if by_time != (parent if parent in rank.rf_ids else None):
            yield node, by_time, parent


def encloses(outer: Json, inner: Json) -> bool:
    """Whether one event lies in another one on its thread; ends may stick out by some ns of rounding."""
    ends = [event["ts"] + event["dur"] for event in (outer, inner)]
    return outer["tid"] == inner["tid"] and outer["ts"] <= inner["ts"] < ends[0] and ends[1] <= ends[0] + 0.01


def test_the_bundled_capture_has_the_parents_of_its_ops_and_no_finding(ddp: list[Rank]) -> None:
    """Gloo's functions run as asynchronous ranges: whom they lie around they have not called."""
    for rank in ddp:
        assert rank.linked.et is not None
        assert rank.linked.et.recorder == "native"
        assert [finding.code for finding in rank.linked.findings] == []


@pytest.mark.full
def test_where_pytorchs_observer_writes_parents_differ_only_after_the_first_collective(
    by_torch: list[Rank],
) -> None:
    """PyTorch's observer keeps one stack per thread, and gloo's operators end on another thread than they began on.

    How far the damage reaches differs from run to run: up to the next steps, where no collective is under way.
    """
    for rank in by_torch:
        first = min(event["ts"] for event in rank.events.values() if event["name"].startswith("c10d::"))
        event_of = {node: event for event, node in rank.in_both.items()}
        wrong = list(differing(rank))
        assert len(wrong) < 0.5 * len(rank.in_both)
        assert all(rank.events[event_of[node]]["ts"] >= first for node, _, _ in wrong)


@pytest.mark.full
def test_where_parents_differ_the_nesting_in_time_is_the_nearer_one(by_torch: list[Rank]) -> None:
    """The Execution Trace's parent had ended, is on another thread, or lies around the op that is nearer in time."""
    for rank in by_torch:
        event_of = {node: event for event, node in rank.in_both.items()}
        for node, by_time, parent in differing(rank):
            child = rank.events[event_of[node]]
            if by_time is not None:
                assert encloses(rank.events[event_of[by_time]], child)
            if parent in event_of and encloses(rank.events[event_of[parent]], child):
                assert by_time is not None
                assert encloses(rank.events[event_of[parent]], rank.events[event_of[by_time]])


@pytest.mark.full
def test_wrong_parents_of_pytorchs_observer_are_counted(by_torch: list[Rank]) -> None:
    """As proven, as unproven, or as what ran while an asynchronous range was open, such as gloo's own.

    Gloo begins the range of a collective on a thread of its own: no op lies around it, and the one that issued it is
    its parent.
    """
    codes = {"parents-differ", "parents-unproven", "parents-asynchronous"}
    for rank in by_torch:
        event_of = {node: event for event, node in rank.in_both.items()}
        begun_by_gloo = {
            (node, by_time, parent)
            for node, by_time, parent in differing(rank)
            if rank.events[event_of[node]]["name"].startswith("gloo:")
            and rank.nodes[parent]["name"].startswith("c10d::")
        }
        told = sum(finding.count for finding in rank.linked.findings if finding.code in codes)
        assert told == len({*differing(rank)} - begun_by_gloo)


def test_a_ddp_capture_opens_as_a_job_of_two_ranks(ddp_folder: Path) -> None:
    job = open_job(ddp_folder)
    assert (job.ranks, job.findings) == ([0, 1], ())
    assert [linked.coverage.share for linked in job] == [1.0, 1.0]
    assert [linked.timeline.world_size for linked in job] == [2, 2]


def test_a_ddp_capture_communicates_in_every_step(ddp_folder: Path) -> None:
    table = breakdown(open_job(ddp_folder)).filter(pl.col("step").is_not_null())
    assert table.height == 6
    assert (table.get_column("communication_ns") > 0).all()


# --- Prefill and decode of a model that runs here and now, by the shapes that torch records ----------


SCRIPT = """
import sys
import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

torch.manual_seed(0)
torch.set_num_threads(1)
layers, heads, width = 2, 2, 16
embedding = torch.nn.Embedding(50, width)
projections = [torch.nn.Linear(width, 3 * width) for _ in range(layers)]
head = torch.nn.Linear(width, 50)
cache = [None] * layers


def forward(tokens):
    hidden = embedding(tokens)
    batch, length, _ = hidden.shape
    for layer, projection in enumerate(projections):
        parts = projection(hidden).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        query, new = parts[0], parts[1:]
        cache[layer] = new if cache[layer] is None else torch.cat([cache[layer], new], dim=3)
        found = functional.scaled_dot_product_attention(query, *cache[layer], is_causal=length > 1)
        hidden = hidden + found.transpose(1, 2).reshape(batch, length, width)
    return head(hidden[:, -1:]).argmax(-1)


with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
    tokens = forward(torch.randint(0, 50, (3, 7)))
    for _ in range(4):
        tokens = forward(tokens)
profiler.export_chrome_trace(sys.argv[1])
"""


@pytest.mark.full
def test_a_generation_is_a_prefill_and_its_decodes(tmp_path: Path) -> None:
    path = tmp_path / "kineto_trace_0.json"
    done = run_command(sys.executable, "-c", SCRIPT, path)
    assert done.returncode == 0, done.stderr
    found = inference_phases(link(None, path))
    assert found.select("phase", "requests", "tokens").rows() == [("prefill", 3, 21), *[("decode", 3, 3)] * 4]
    assert (found.get_column("host_ns") > 0).all()
