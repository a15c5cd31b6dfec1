"""Trees of ops and modules, their times and names, and frames of flame graphs."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.planted import Scene
from tests.planted.events import ANNOTATION, PYTHON, Planted
from tests.planted.random_scenes import scenes
from tracebraid.analyses import annotation_kernels, kernels, modules, ops, python_frames, user_annotations
from tracebraid.analysis.answering import StepOptions
from tracebraid.analysis.device import device_events
from tracebraid.analysis.flames import flame_frames, flame_names, limited, merged_ranks
from tracebraid.analysis.host.host_trees import host_names
from tracebraid.analysis.ops.op_times import host_times, launched
from tracebraid.analysis.ops.ops import OpKey
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.answers.ops import FlameKind, FlameTree
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree, op_tree
from tracebraid.reports.names import distinct_names

steady = settings(deadline=None, derandomize=True)
Made = tuple[list[int], list[int]]


@st.composite
def trees(draw: st.DrawFn) -> Made:
    """(the row around each row, itself at the top; a key for each row), rows in any order."""
    size = draw(st.integers(1, 40))
    order = draw(st.permutations(range(size)))
    around = list(range(size))
    for place, row in enumerate(order):
        parent = draw(st.integers(-1, place - 1))
        around[row] = row if parent < 0 else order[parent]
    return around, draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))


def tree_of(around: list[int]) -> OpTree:
    depths = [len(ancestors(around, row)) for row in range(len(around))]
    frame = pl.DataFrame(
        {
            "event_id": range(100, 100 + len(around)),
            "op_event": [None if up == row else 100 + up for row, up in enumerate(around)],
            "depth": depths,
        },
        schema_overrides={"op_event": pl.Int64},
    )
    return op_tree(frame)


def ancestors(around: list[int], row: int) -> list[int]:
    found = []
    while around[row] != row:
        row = around[row]
        found.append(row)
    return found


@steady
@given(trees())
def test_sums_are_those_of_a_row_and_all_rows_in_it(made: Made) -> None:
    around, amounts = made
    expected = [
        sum(a for other, a in enumerate(amounts) if row == other or row in ancestors(around, other))
        for row in range(len(around))
    ]
    assert tree_of(around).sums(np.array(amounts, dtype=np.int64)).tolist() == expected


@steady
@given(trees())
def test_spans_enclose_exactly_the_rows_inside(made: Made) -> None:
    around, _ = made
    first, last = tree_of(around).spans
    assert sorted(first.tolist()) == list(range(len(around)))
    for row in range(len(around)):
        inside = {other for other in range(len(around)) if row == other or row in ancestors(around, other)}
        assert {i for i, number in enumerate(first.tolist()) if first[row] <= number < last[row]} == inside


@steady
@given(trees(), st.data())
def test_the_outermost_of_a_key_have_none_of_it_around_them(made: Made, data: st.DataObject) -> None:
    around, keys = made
    rows = data.draw(st.lists(st.sampled_from(range(len(around))), unique=True))
    expected = [
        not any(up in rows and keys[up] == keys[row] for up in ancestors(around, row)) for row in rows
    ]
    found = tree_of(around).outermost(
        np.array(rows, dtype=np.int64), np.array([keys[row] for row in rows], dtype=np.int64)
    )
    assert found.tolist() == expected


def test_a_tree_of_many_levels() -> None:
    levels = 20_000
    tree = tree_of_chain(levels)
    assert tree.sums(np.ones(levels, dtype=np.int64)).tolist() == list(range(levels, 0, -1))
    every = np.arange(levels)
    assert tree.outermost(every, every % 2).tolist() == [True, True, *[False] * (levels - 2)]


def test_an_empty_tree() -> None:
    tree = op_tree(pl.DataFrame(schema={"event_id": pl.Int64, "op_event": pl.Int64, "depth": pl.Int64}))
    nothing = np.empty(0, dtype=np.int64)
    assert tree.sums(nothing).tolist() == []
    assert tree.outermost(nothing, nothing).tolist() == []


def tree_of_chain(levels: int) -> OpTree:
    rows = np.arange(levels)
    return OpTree(rows, np.maximum(rows - 1, 0))


steady_modules = settings(deadline=None, derandomize=True, max_examples=30)
KINDS = ("module", "op", "backward", "launch", "leave", "annotation", "frame")
TIMES = ("host_forward", "host_backward", "device_forward", "device_backward")


class Act(NamedTuple):
    kind: str
    number: int
    ns: int


class Program(NamedTuple):
    """A scene, and for each inner op of the autograd engine its forward op."""

    scene: Scene
    forward_of: dict[int, Planted]


WEIGHTS = (4, 4, 3, 3, 6, 1, 1)


@st.composite
def acts(draw: st.DrawFn) -> list[Act]:
    """Long programs: lists drawn item by item are mostly too short for a backward op of an op in a module."""
    drawn = random.Random(draw(st.integers(0, 1 << 30)))
    kinds = drawn.choices(KINDS, WEIGHTS, k=draw(st.integers(0, 60)))
    return [Act(kind, drawn.randrange(4), drawn.randint(1, 500)) for kind in kinds]


def program(actions: list[Act]) -> Program:
    """A forward pass on the main thread in which backward ops run, on that thread or on autograd's."""
    scene = Scene()
    host, autograd, stream = scene.thread(), scene.thread(), scene.stream()
    done: list[Planted] = []
    forward_of: dict[int, Planted] = {}
    open_: list[ExitStack] = []
    with host.step(1, 1):
        for kind, number, ns in actions:
            thread = host
            with ExitStack() as new:
                if kind == "module":
                    new.enter_context(host.module(f"M_{number}", ns))
                elif kind == "op":
                    done.append(new.enter_context(host.op("aten::mm", ns, sequence=scene.count("sequence"))))
                elif kind == "annotation":
                    new.enter_context(host.annotation(f"part {number}", ns))
                elif kind == "frame":
                    new.enter_context(host.frame(f"net.py({number}): f", ns))
                elif kind == "backward" and done:
                    thread = autograd if number % 2 else host
                    autograd.until(host.now)
                    thread.spend(1)
                    forward = done.pop()
                    inner = new.enter_context(thread.backward("MmBackward0", forward, host, ns))
                    forward_of[inner.event_id] = forward_of[inner.event_id - 1] = forward
                elif kind == "launch":
                    host.launch(stream, f"k{number}", ns)
                elif kind == "leave" and open_:
                    host.spend(1)
                    open_.pop().close()
                if thread is autograd:
                    autograd.launch(stream, "backward", ns)
                    host.until(autograd.now)
                elif kind in ("module", "op", "annotation", "frame", "backward"):
                    open_.append(new.pop_all())
        while open_:
            host.spend(1)
            open_.pop().close()
    return Program(scene, forward_of)


def owner(event: Planted, made: Program) -> tuple[str, bool]:
    """(path of the module that an event is in, itself included; whether it is in a backward op)."""
    for around in [event, *event.ancestors()]:
        if around.event_id in made.forward_of:
            return owner(made.forward_of[around.event_id], made)[0], True
        if around.name.startswith("nn.Module"):
            return path_of(around, made), False
    return "", False


def path_of(module: Planted, made: Program) -> str:
    """The path of a call: in what is around it; in a backward op, in what the first call of the forward pass was in."""
    name = module.name.removeprefix("nn.Module: ")
    marks = [
        around
        for around in module.ancestors()
        if around.event_id in made.forward_of or around.name.startswith("nn.Module")
    ]
    outer = marks[0] if marks else None
    if outer is not None and outer.event_id in made.forward_of:
        plain = [
            call
            for call in made.scene.of(module.name)
            if not any(around.event_id in made.forward_of for around in call.ancestors())
        ]
        if plain:
            return path_of(min(plain, key=lambda call: call.ts), made)
        outer_path = owner(outer, made)[0]
    else:
        outer_path = path_of(outer, made) if outer is not None else ""
    return f"{outer_path}/{name}" if outer_path else name


def planted_times(made: Program) -> dict[str, dict[str, int]]:
    """Self times by path, "" for no module: own time of each host event, and duration of device work."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(TIMES, 0))
    for event in made.scene.events:
        path, backward = owner(event, made)
        where = "backward" if backward else "forward"
        if event.call is not None:
            found[path][f"device_{where}"] += event.dur
        else:
            inside = sum(e.dur for e in made.scene.events if e.call is None and e.parent is event)
            found[path][f"host_{where}"] += event.dur - inside
    return found


def assert_tree_adds_up(frame: pl.DataFrame) -> None:
    """Every total is its self time and the totals of the modules directly inside."""
    rows = {row["path"]: row for row in frame.to_dicts()}
    for time in TIMES:
        of_children: dict[str, int] = defaultdict(int)
        for path, row in rows.items():
            if path and "/" in path:
                of_children[path.rpartition("/")[0]] += row[f"{time}_total_ns"]
        for path, row in rows.items():
            assert row[f"{time}_total_ns"] == row[f"{time}_self_ns"] + of_children[path or ""] * bool(path)


@pytest.mark.full
@steady_modules
@given(acts())
def test_modules_have_the_times_that_were_planted(actions: list[Act]) -> None:
    made = program(actions)
    frame = modules(made.scene.linked())
    if not any(event.name.startswith("nn.Module") for event in made.scene.events):
        assert frame.is_empty()
        return
    expected = planted_times(made)
    for row in frame.to_dicts():
        assert {time: row[f"{time}_self_ns"] for time in TIMES} == expected[row["path"] or ""]
    assert {path or None for path, times in expected.items() if any(times.values())} <= set(frame["path"])
    assert_tree_adds_up(frame)


@pytest.mark.full
@steady_modules
@given(acts())
def test_steps_add_up_to_the_whole(actions: list[Act]) -> None:
    linked = program(actions).scene.linked()
    for answer in (modules, python_frames, annotation_kernels):
        whole, by_step = answer(linked), answer(linked, per_step=True)
        for name in whole.columns:
            if name.endswith("self_ns") or name in ("kernels", "calls", "total_ns", "count"):
                assert whole[name].sum() == by_step[name].sum(), name


def all_times(linked: LinkedTrace) -> tuple[int, int]:
    """Own time of all host events, and the duration of all device events."""
    return int(linked.host_tree["exclusive_ns"].sum()), int(device_events(linked)["dur_ns"].sum())


@pytest.mark.full
@steady_modules
@given(scenes())
def test_parts_of_any_scene_add_up(scene: Scene) -> None:
    linked = scene.linked()
    host, device = all_times(linked)
    frames = python_frames(linked)
    if scene.of_category(PYTHON):
        assert (frames["host_self_ns"].sum(), frames["device_self_ns"].sum()) == (host, device)
    assert annotation_kernels(linked)["total_ns"].sum() == device
    for key in OpKey:
        assert ops(linked, by=[key.value])["host_self_ns"].sum() == linked.host_tree["op_exclusive_ns"].sum()


@pytest.mark.full
@steady_modules
@given(scenes())
def test_annotations_of_any_scene_have_the_work_that_was_launched_in_them(scene: Scene) -> None:
    found = {row["name"]: row for row in user_annotations(scene.linked()).to_dicts()}
    launched: dict[str, set[Planted]] = defaultdict(set)
    for event in scene.events:
        if event.call is not None:
            for around in event.ancestors():
                if around.category == ANNOTATION:
                    launched[around.name].add(event)
    for name, row in found.items():
        work = launched[name]
        assert row["device_total_ns"] == sum(event.dur for event in work)
        assert row["kernels_total"] == len(work)
        assert row["device_busy_ns"] <= row["device_total_ns"]
        assert row["device_busy_ns"] == union(work)


def union(work: set[Planted]) -> int:
    """The length of the union of intervals on one device."""
    length, reach = 0, 0
    for event in sorted(work, key=lambda event: event.ts):
        length += max(0, event.end - max(reach, event.ts))
        reach = max(reach, event.end)
    return length


steady_flames = settings(deadline=None, derandomize=True, max_examples=15)
OPS = (FlameKind.OP.value, FlameKind.ANNOTATION.value)
FRAME_TIMES = ("self_ns", "total_ns", "count")
MOST = 4


@pytest.mark.full
@steady_flames
@given(scenes())
def test_frames_add_up_to_what_the_analyses_answer(scene: Scene) -> None:
    linked = scene.linked()
    frames = flame_frames(linked)
    check_sums(frames)
    assert sum_of(frames, FlameTree.HOST) == linked.host_tree.get_column("exclusive_ns").sum()
    assert sum_of(frames, FlameTree.DEVICE) == kernels(linked).get_column("total_ns").sum()
    check_paths(linked, frames)
    check_ops(linked, frames)
    check_steps(linked)
    names = flame_names(frames)
    for tree in FlameTree:
        assert names.filter(tree=tree.value).get_column("self_ns").sum() == sum_of(frames, tree)
    twice = merged_ranks([frames, frames])
    assert twice.drop("rank", *FRAME_TIMES).equals(frames.drop("rank", *FRAME_TIMES))
    assert twice.select(FRAME_TIMES).equals(frames.select(pl.col(FRAME_TIMES) * 2))
    check_limited(frames)


@steady_flames
@given(st.data())
def test_modules_have_the_times_that_modules_gives(data: st.DataObject) -> None:
    linked = program(data.draw(acts())).scene.linked()
    frames = flame_frames(linked)
    check_sums(frames)
    answer = modules(linked)
    for tree, on in ((FlameTree.MODULES_HOST, "host"), (FlameTree.MODULES_DEVICE, "device")):
        found = {"/".join(stack): row["self_ns"] for stack, row in stacks(frames, tree)}
        both = pl.col(f"{on}_forward_self_ns") + pl.col(f"{on}_backward_self_ns")
        of_module = answer.filter(pl.col("path").is_not_null()).select("path", both)
        assert all(found.get(path, 0) == own for path, own in of_module.iter_rows())
        assert sum_of(frames, tree) == answer.select(both.sum()).item()


def check_paths(linked: LinkedTrace, frames: pl.DataFrame) -> None:
    """Every event is in the frame of the names that its parents have."""
    expected: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    rows = linked.host_tree.select("event_id", "parent_event", "exclusive_ns").rows()
    parents = {event: parent for event, parent, _ in rows}
    names = dict(host_names(linked).select("event_id", pl.col("name").cast(pl.String)).iter_rows())
    for event, _, time in rows:
        path, inner = [], event
        while inner is not None:
            path.append(names[inner].split("#")[0])
            inner = parents[inner]
        expected[tuple(path[::-1])].update(time=time, count=1)
    found: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for stack, row in stacks(frames, FlameTree.HOST):
        found[stack].update(time=row["self_ns"], count=row["count"])
    assert found == expected


def check_ops(linked: LinkedTrace, frames: pl.DataFrame) -> None:
    """Totals by name and category are those of `ops`, an op in itself counted once."""
    answer = ops(linked, by="name").filter(~pl.col("name").str.starts_with("ProfilerStep"))
    kinds = {"cpu_op": "op", "user_annotation": "annotation"}
    for tree, column in ((FlameTree.HOST, "host_total_ns"), (FlameTree.DEVICE, "device_total_ns")):
        totals: Counter[tuple[str, str]] = Counter()
        above: dict[int | None, frozenset[tuple[str, str]]] = {None: frozenset()}
        for _, row in stacks(frames, tree):
            key = row["name"], row["kind"]
            if row["kind"] in OPS and key not in above[row["parent"]]:
                totals[key] += row["total_ns"]
            above[row["frame"]] = above[row["parent"]] | {key}
        for name, category, total in answer.select("name", "category", column).iter_rows():
            assert totals[name, kinds[category]] == total


def check_steps(linked: LinkedTrace) -> None:
    """The frames of a step have the time of what starts, or was launched, in it."""
    options = StepOptions(per_step=True)
    host, device = host_times(linked, options), launched(linked, options)
    for name in step_windows(linked).get_column("step").unique().to_list()[:2]:
        frames = flame_frames(linked, step=name)
        check_sums(frames)
        assert sum_of(frames, FlameTree.HOST) == host.filter(step=name).get_column("exclusive_ns").sum()
        assert sum_of(frames, FlameTree.DEVICE) == device.filter(step=name).get_column("dur_ns").sum()


def check_limited(frames: pl.DataFrame) -> None:
    """Where few frames are kept no time is lost, and every frame is counted."""
    kept = limited(frames, MOST)
    check_sums(kept)
    for tree in FlameTree:
        assert sum_of(kept, tree) == sum_of(frames, tree)
        of_tree = kept.filter(tree=tree.value)
        smaller = of_tree.filter(kind=FlameKind.SMALLER.value)
        named = smaller.get_column("name").str.extract(r"(\d+)").cast(pl.Int64).sum()
        assert of_tree.height - smaller.height + named == frames.filter(tree=tree.value).height
        assert of_tree.height - smaller.height <= MOST


def check_sums(frames: pl.DataFrame) -> None:
    """Each total is the self time and the totals directly inside; parents come first, siblings by total."""
    for _, rows in frames.group_by(["tree"]):
        inside: dict[int | None, int] = defaultdict(int)
        before: dict[int | None, int] = {}
        assert rows.get_column("frame").to_list() == list(range(rows.height))
        for row in rows.filter(kind=FlameKind.SMALLER.value).iter_rows(named=True):
            inside[row["parent"]] += row["total_ns"]
        for row in rows.filter(pl.col("kind") != FlameKind.SMALLER.value).iter_rows(named=True):
            assert row["parent"] is None or row["parent"] < row["frame"]
            assert row["total_ns"] <= before.get(row["parent"], row["total_ns"])
            before[row["parent"]] = row["total_ns"]
            inside[row["parent"]] += row["total_ns"]
        for row in rows.iter_rows(named=True):
            assert row["total_ns"] == row["self_ns"] + inside[row["frame"]]
        assert inside[None] == rows.get_column("self_ns").sum()


def sum_of(frames: pl.DataFrame, tree: FlameTree) -> int:
    return int(frames.filter(tree=tree.value).get_column("self_ns").sum())


def stacks(frames: pl.DataFrame, tree: FlameTree) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """The names from the root to each frame, and its row."""
    path_of: dict[int | None, tuple[str, ...]] = {None: ()}
    found = []
    for row in frames.filter(tree=tree.value).iter_rows(named=True):
        path_of[row["frame"]] = (*path_of[row["parent"]], row["name"])
        found.append((path_of[row["frame"]], row))
    return found


NAMESPACES = ["void ", "at::native::", "(anonymous namespace)::"]
WORDS = [*NAMESPACES, "gemm", "<", ">", "(", ")", "int", ", ", "_", "1", "128x", "64"]

NAMES = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=40).map("".join),
    st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=80),
    st.text("ab", min_size=30, max_size=60),
)


@given(st.lists(NAMES, max_size=25), st.integers(12, 90))
def test_names_fit_and_stay_different(names: list[str], width: int) -> None:
    shown = distinct_names(names, width)
    assert all(cell_len(text) <= width for text in shown)
    assert len(set(shown)) == len(set(names))
    by_name: dict[str, str] = {}
    for name, text in zip(names, shown, strict=True):
        assert by_name.setdefault(name, text) == text
        assert text == name or cell_len(name) > width


@given(st.lists(NAMES, max_size=10), st.integers(0, 12))
@example(["void " * 3, "void " * 4], 0)
def test_no_width_is_too_small(names: list[str], width: int) -> None:
    assert all(cell_len(text) <= width for text in distinct_names(names, width))
