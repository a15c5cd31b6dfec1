"""Flame graphs of random programs: their totals are those of the analyses, and every event is where its parents say."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted import Scene
from tests.planted.random_scenes import scenes
from tests.property.test_module_times import acts, program
from tracebraid.analysis.flames.flame_frames import flame_frames, merged_ranks
from tracebraid.analysis.flames.limited import flame_names, limited
from tracebraid.analysis.host.host_trees import host_names
from tracebraid.analysis.kernels.kernels import kernels
from tracebraid.analysis.ops.launch_rows import host_times, launched
from tracebraid.analysis.ops.modules.modules import modules
from tracebraid.analysis.ops.ops import ops
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.answers import FlameKind, FlameTree
from tracebraid.model.linked_trace import LinkedTrace

steady = settings(deadline=None, derandomize=True, max_examples=15)

OPS = (FlameKind.OP.value, FlameKind.ANNOTATION.value)
TIMES = ("self_ns", "total_ns", "count")
MOST = 4


@steady
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
    assert twice.drop("rank", *TIMES).equals(frames.drop("rank", *TIMES))
    assert twice.select(TIMES).equals(frames.select(pl.col(TIMES) * 2))
    check_limited(frames)


@steady
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
