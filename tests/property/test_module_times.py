"""Modules, annotations and Python functions of random programs, against the same by following every event's parents."""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import ExitStack
from typing import NamedTuple

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted import Scene
from tests.planted.events import ANNOTATION, PYTHON, Planted
from tests.planted.random_scenes import scenes
from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.ops.annotations.annotation_kernels import annotation_kernels
from tracebraid.analysis.ops.annotations.user_annotations import user_annotations
from tracebraid.analysis.ops.modules.modules import modules
from tracebraid.analysis.ops.ops import ops
from tracebraid.analysis.ops.python_frames import python_frames
from tracebraid.model.answers import OpKey
from tracebraid.model.linked_trace import LinkedTrace

steady = settings(deadline=None, derandomize=True, max_examples=30)

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


@steady
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


@steady
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


@steady
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


@steady
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
