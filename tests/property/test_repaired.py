"""Repaired Execution Traces, and ET+ in the form of trace_link."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Json, call, et_text, flattened, kernel, kineto_text, node, op, tensor, write
from tests.peers import check_trace_link, is_device, load_et_plus, read_as_converter, read_as_replay
from tests.property.test_linking import Shape, laid_out, trees
from tests.unit.linking.made import et_of, linked_of
from tests.unit.validation.made import codes
from tracebraid import check, link, repair
from tracebraid.exporters.et_plus import write_trace_link_et

steady = settings(deadline=None, derandomize=True, max_examples=25)
forests = st.lists(st.lists(trees, min_size=1, max_size=4), min_size=1, max_size=2)
"""What ran on each of one or two threads."""

Forest = list[Shape]
FIRST, NOWHERE = 10, 404
NAMES = ("aten::mm", "aten::add_", 'a "quoted" \\ name', "ProfilerStep#1")


@dataclass
class Run:
    """What truly happened: ops by the ids of their nodes, and the parent of each."""

    ops: dict[int, Json] = field(default_factory=dict)
    nodes: dict[int, Json] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    threads: int = 0

    def add(self, tid: int, forest: Forest) -> None:
        """Let these calls run on a thread."""
        first = FIRST + len(self.ops)
        events, parents = laid_out(forest, 7)
        for row, (event, parent) in enumerate(zip(events, parents, strict=True)):
            this = first + row
            name = NAMES[this % len(NAMES)]
            start, length = event.start / 1000, (event.end - event.start) / 1000
            self.ops[this] = op(name, start, length, tid, Record_function_id=this)
            self.parents[this] = 1000 + tid if parent < 0 else first + parent
            values = [tensor(this + 7, 3, [this, 2]), ("Int", this, [])]
            self.nodes[this] = node(
                this, name, self.parents[this], values, values[:1], tid=tid, mine=f"x{this}"
            )
        self.threads = tid


def run_of(forests: list[Forest]) -> Run:
    run = Run()
    for tid, forest in enumerate(forests, 1):
        run.add(tid, forest)
    return run


def another_parent(run: Run) -> st.SearchStrategy[int]:
    """Any node, true or not; a root; the process; one that is nowhere."""
    return st.sampled_from([*run.ops, *range(1001, 1001 + run.threads), 1, NOWHERE])


@contextmanager
def captured(run: Run, ops: list[Json], nodes: list[Json]) -> Iterator[Path]:
    """A folder with the two traces."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "torch_et_0.json", et_text(et_of(*nodes, threads=run.threads)))
        write(folder / "kineto_trace_0.json", kineto_text(ops))
        yield folder


def written(folder: Path) -> dict[int, Json]:
    """The nodes of the Execution Trace by their ids, attributes by their names; roots left out."""
    nodes = json.loads((folder / "torch_et_0.json").read_bytes())["nodes"]
    found = {one["id"]: one for one in nodes if "|profiler|" not in one["name"]}
    for one in found.values():
        one["attrs"] = {attr["name"]: attr["value"] for attr in one["attrs"]}
    return found


def parents(found: dict[int, Json]) -> dict[int, int]:
    return {this: one["ctrl_deps"] for this, one in found.items()}


@pytest.mark.full
@given(forests, st.data())
@steady
def test_the_true_parents_come_back_from_any_others_and_stay(
    forests: list[Forest], data: st.DataObject
) -> None:
    """Of a cycle, the reader takes a parent away that may be a true one: then it counts as changed.

    A second repair changes nothing.
    """
    run = run_of(forests)
    wrong = {this: data.draw(st.one_of(st.just(run.parents[this]), another_parent(run))) for this in run.ops}
    nodes = [{**one, "ctrl_deps": wrong[this]} for this, one in run.nodes.items()]
    with captured(run, list(run.ops.values()), nodes) as folder:
        before, found_cycle = written(folder), "parent-cycle" in codes(check(folder))
        (done,) = repair(folder)
        after = written(folder)
        assert parents(after) == run.parents
        strip = lambda found: {this: {**one, "ctrl_deps": 0} for this, one in found.items()}  # noqa: E731
        assert strip(after) == strip(before)
        changed = {this for this in run.ops if wrong[this] != run.parents[this]}
        assert set(done.changed) == changed or (found_cycle and changed < set(done.changed))
        assert not {"parents-differ", "parent-missing", "parent-cycle"} & set(codes(check(folder)))
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        (again,) = repair(folder)
        assert (again.changed, again.written) == ((), False)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


@given(forests, st.data())
@steady
def test_true_parents_stay_whatever_kineto_has_lost(forests: list[Forest], data: st.DataObject) -> None:
    run = run_of(forests)
    kept = [one for one in run.ops.values() if data.draw(st.booleans())]
    with captured(
        run, [*kept, op("marker", 0, 1, 99, Record_function_id=9999)], list(run.nodes.values())
    ) as folder:
        (done,) = repair(folder)
        assert done.changed == ()


@pytest.mark.full
@given(forests, st.data())
@steady
def test_of_ops_that_were_never_written_the_next_one_around_is_the_parent(
    forests: list[Forest], data: st.DataObject
) -> None:
    """And then no parent differs any more."""
    run = run_of(forests)
    lost = {this for this in run.ops if data.draw(st.booleans())} - {FIRST}
    nodes = [{**one, "ctrl_deps": NOWHERE} if one["ctrl_deps"] in lost else one for one in run.nodes.values()]

    def around(this: int) -> int:
        parent = run.parents[this]
        return around(parent) if parent in lost else parent

    with captured(run, list(run.ops.values()), [one for one in nodes if one["id"] not in lost]) as folder:
        repair(folder)
        assert parents(written(folder)) == {this: around(this) for this in run.ops if this not in lost}
        linked = link(folder / "torch_et_0.json", folder / "kineto_trace_0.json", "exact")
        assert linked.findings == ()


@pytest.mark.full
@given(forests, st.data())
@steady
def test_a_right_tree_stays_whatever_python_frames_there_are(
    forests: list[Forest], data: st.DataObject
) -> None:
    """Frames with any ends; then wrong parents come back just as well."""
    run = run_of(forests)
    end = max(one["ts"] + one["dur"] for one in run.ops.values())
    frames = []
    for number in range(data.draw(st.integers(0, 8))):
        start, length = data.draw(st.integers(0, int(end * 1000))), data.draw(st.integers(0, int(end * 1500)))
        frame = op(f"f.py(1): f{number}", start / 1000, length / 1000, 1, "python_function")
        caller = data.draw(st.one_of(st.none(), st.integers(0, 8)))
        frames.append({**frame, "args": {"Python id": number, "Python parent id": caller}})
    with captured(run, [*run.ops.values(), *frames], list(run.nodes.values())) as folder:
        (done,) = repair(folder)
        assert (done.changed, done.left, done.written) == ((), (), False)
    wrong = [{**one, "ctrl_deps": data.draw(another_parent(run))} for one in run.nodes.values()]
    with captured(run, [*run.ops.values(), *frames], wrong) as folder:
        repair(folder)
        assert parents(written(folder)) == run.parents


@given(forests, st.data())
@steady
def test_a_right_tree_stays_when_times_are_rounded_to_microseconds(
    forests: list[Forest], data: st.DataObject
) -> None:
    """Then ops may end before what they called, and have no length; a parent is moved on proof alone."""
    run = run_of(forests)
    for one in run.ops.values():
        one["ts"], one["dur"] = math.floor(one["ts"] * 30), math.floor(one["dur"] * 30)
    with captured(run, list(run.ops.values()), list(run.nodes.values())) as folder:
        (done,) = repair(folder)
        assert (done.changed, done.written) == ((), False)


steady_links = settings(deadline=None, derandomize=True, max_examples=20)
launches = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 50)), max_size=3)
"""When the kernels of an op start after it, and how long they take."""

ops = st.lists(st.tuples(st.booleans(), launches), min_size=1, max_size=8)
"""Of each op whether Kineto has it, and its kernels."""

Op = tuple[bool, list[tuple[int, int]]]


def made(ops: list[Op]) -> tuple[list[Json], list[Json], dict[str, str]]:
    """Events, nodes, and the op of each kernel that can be told."""
    events, nodes, ops_of = [], [], {}
    for row, (is_seen, kernels) in enumerate(ops):
        name, this, start = f"op{row}", 10 * row + 7, 100 * row
        values = [tensor(row + 3, 5, [row, 2]), ("Int", row, [])]
        nodes.append(node(this, name, 1001, values, values[:1], rf_id=this))
        if is_seen:
            events.append(op(name, start, 60, Record_function_id=this))
        for place, (delay, length) in enumerate(kernels):
            correlation = 1000 * (row + 1) + place
            events.append(call("launch", start + 10 * place + 1, 2, correlation))
            events.append(kernel(f"kernel{correlation}", start + delay, length, correlation))
            if is_seen:
                ops_of[f"kernel{correlation}"] = name
    return events, nodes, ops_of


def bare(one: Json) -> Json:
    """A host node without its times, and its attributes without their types."""
    kept = {k: v for k, v in one.items() if k not in ("ts", "dur", "inclusive_dur", "exclusive_dur", "attrs")}
    return {**kept, **{attr["name"]: attr["value"] for attr in one.get("attrs", ())}}


@steady_links
@given(ops=ops, is_flat=st.booleans())
def test_it_holds_the_execution_trace_and_every_device_event(ops: list[Op], is_flat: bool) -> None:
    events, nodes, ops_of = made(ops)
    all_nodes = et_of(*nodes)
    if is_flat:
        all_nodes = [flattened(one) for one in all_nodes]
    linked = linked_of(
        events or [op("x", 0, 1)], all_nodes, schema="1.0.1" if is_flat else "1.1.1-chakra.0.0.4"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one.json", "two.json"):
            write_trace_link_et(linked, Path(folder) / name)
        assert (Path(folder) / "one.json").read_bytes() == (Path(folder) / "two.json").read_bytes()
        found = load_et_plus(Path(folder) / "one.json")
    check_trace_link(found)
    read_as_replay(found)
    if not is_flat:
        read_as_converter(found)
    host = [bare(one) for one in found["nodes"] if not is_device(one)]
    assert host == [bare(one) for one in sorted(all_nodes, key=lambda one: one["id"])]
    names = {one["id"]: one["name"] for one in found["nodes"]}
    device = {one["name"]: one for one in found["nodes"] if is_device(one)}
    assert {name: names[one["parent"]] for name, one in device.items() if "orphan" not in one} == ops_of
    expected = {one["name"]: (one["ts"], one["dur"]) for one in events if one["cat"] == "kernel"}
    assert {name: (one["ts"], one["dur"]) for name, one in device.items()} == expected
