"""Linking: nesting, matching of names, and clocks of traces and of ranks."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import astuple

from tests.builders import flow, kineto_text, op
from tests.growth import grows_less
from tests.planted import Host as PlannedHost
from tests.planted import WideJob, WidePlan, wide_job
from tests.planted.hosts import BASE_NS
from tests.unit.linking.made import Host, host_timeline
from tests.unit.linking.ranks.made_members import MadeJob, agreement, facts
from tracebraid.importers.kineto.decode import EXACT_BELOW_US, LIMIT_US, to_ns
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.linking import nesting
from tracebraid.linking.nesting import TOLERANCE_NS, HostRows, host_tree, plain_nesting
from tracebraid.linking.ranks.clocks import clocks_of, link_ranks
from tracebraid.linking.ranks.matching.matched import match_members

steady = settings(deadline=None, derandomize=True)
STEP = 10 * TOLERANCE_NS
Shape = list[Any]
"""Of nested calls: the shapes inside."""

intervals = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 1)).map(
        lambda draw: Host("e", draw[0] * STEP, (draw[0] + draw[1]) * STEP, lane=draw[2])
    ),
    max_size=25,
)
"""Any intervals on two threads, so far apart that rounding plays no part."""

trees: st.SearchStrategy[Shape] = st.recursive(
    st.just([]), lambda children: st.lists(children, max_size=4), max_leaves=25
)
"""The shape of nested calls: a list of the shapes inside."""


def laid_out(forest: list[Shape], gap: int, lane: int = 0) -> tuple[list[Host], list[int]]:
    """Nested intervals of that shape, with `gap` ns around and inside each, and the row of each one's parent."""
    events: list[Host] = []
    parents: list[int] = []
    now = 0

    def place(shape: Shape, parent: int) -> None:
        nonlocal now
        row = len(events)
        now += gap
        events.append(Host("e", now, now, lane=lane))
        parents.append(parent)
        now += gap
        for inner in shape:
            place(inner, row)
        now += gap
        events[row] = events[row]._replace(end=now)

    for shape in forest:
        place(shape, -1)
        now += gap
    return events, parents


def reference_parents(events: list[Host]) -> list[int]:
    """In quadratic time: the latest earlier interval around each, unless a later one ran over its end."""
    order = sorted(range(len(events)), key=lambda i: (events[i].lane, events[i].start, i))
    found = [-1] * len(events)
    for place, row in enumerate(order):
        this = events[row]
        for before in reversed(range(place)):
            outer = events[order[before]]
            touches = outer.end == this.start == this.end
            if outer.lane != this.lane or (outer.end <= this.start and not touches):
                continue
            between = [events[order[i]] for i in range(before + 1, place)]
            run_over = any(one.start < outer.end < one.end for one in between)
            left = any(one.start >= outer.end and one.end > one.start for one in between)
            if not run_over and not left and this.end <= outer.end:
                found[row] = order[before]
                break
    return found


def union_length(spans: list[tuple[int, int]]) -> int:
    length, reach = 0, None
    for start, end in sorted(spans):
        begin = start if reach is None else max(start, reach)
        length += max(0, end - begin)
        reach = end if reach is None else max(reach, end)
    return length


def tree_rows(events: list[Host]) -> list[dict[str, Any]]:
    return host_tree(host_timeline(events)).to_dicts()


@given(intervals)
@steady
def test_parents_are_those_of_the_quadratic_reference(events: list[Host]) -> None:
    found = [row["parent_event"] for row in tree_rows(events)]
    assert found == [None if parent < 0 else parent for parent in reference_parents(events)]


@given(intervals)
@steady
def test_exclusive_time_is_inclusive_time_less_the_union_of_the_children(events: list[Host]) -> None:
    rows = tree_rows(events)
    children: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, event in zip(rows, events, strict=True):
        if row["parent_event"] is not None:
            children[row["parent_event"]].append((event.start, event.start + row["inclusive_ns"]))
    expected = [row["inclusive_ns"] - union_length(children[row["event_id"]]) for row in rows]
    assert [row["exclusive_ns"] for row in rows] == expected


@given(intervals)
@steady
def test_inclusive_time_never_exceeds_the_parents(events: list[Host]) -> None:
    rows = tree_rows(events)
    for row in rows:
        if row["parent_event"] is not None:
            assert row["inclusive_ns"] <= rows[row["parent_event"]]["inclusive_ns"]


@given(st.lists(trees, max_size=4))
@steady
def test_the_shape_of_nested_calls_comes_back(forest: list[Shape]) -> None:
    events, parents = laid_out(forest, gap=1)
    assert [row["parent_event"] for row in tree_rows(events)] == [p if p >= 0 else None for p in parents]


@given(st.lists(trees, max_size=4), st.lists(trees, max_size=4))
@steady
def test_exclusive_times_of_nested_calls_add_up_to_the_time_that_they_cover(
    forest: list[Shape], other: list[Shape]
) -> None:
    events = [event for lane, one in enumerate((forest, other)) for event in laid_out(one, 7, lane)[0]]
    rows = tree_rows(events)
    for lane in (0, 1):
        total = sum(row["exclusive_ns"] for row, e in zip(rows, events, strict=True) if e.lane == lane)
        assert total == union_length([(e.start, e.end) for e in events if e.lane == lane])


@given(st.lists(trees, max_size=4), st.integers(3000, 9000))
@steady
def test_rounding_to_whole_microseconds_changes_no_parent(forest: list[Shape], gap: int) -> None:
    exact, parents = laid_out(forest, gap)
    rounded = [
        event._replace(
            start=event.start // 1000 * 1000,
            end=event.start // 1000 * 1000 + (event.end - event.start) // 1000 * 1000,
        )
        for event in exact
    ]
    assert [row["parent_event"] for row in tree_rows(rounded)] == [p if p >= 0 else None for p in parents]


@given(st.lists(trees, max_size=4), st.data())
@steady
def test_ends_that_stick_out_by_rounding_leave_no_negative_time(
    forest: list[Shape], data: st.DataObject
) -> None:
    exact, parents = laid_out(forest, gap=4 * TOLERANCE_NS)
    moved = [
        event._replace(end=event.end + data.draw(st.integers(-TOLERANCE_NS // 2, TOLERANCE_NS // 2)))
        for event in exact
    ]
    rows = tree_rows(moved)
    assert [row["parent_event"] for row in rows] == [p if p >= 0 else None for p in parents]
    assert all(0 <= row["exclusive_ns"] <= row["inclusive_ns"] for row in rows)
    assert all(row["op_exclusive_ns"] == row["exclusive_ns"] for row in rows)


kinds = st.sampled_from(["cpu_op", "user_annotation", "cuda_runtime", "python_function"])

mixed = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 40), st.integers(0, 1), kinds).map(
        lambda draw: Host("e", draw[0] * 400, (draw[0] + draw[1]) * 400, draw[3], draw[2])
    ),
    max_size=30,
)
"""Any host events, rounding included; frames with any ends."""


@given(mixed, st.sampled_from([["python_function"], ["cuda_runtime"], ["python_function", "cuda_runtime"]]))
@steady
def test_ops_nest_as_if_there_were_no_frames_and_calls(events: list[Host], without: list[str]) -> None:
    """So do calls as if there were no frames."""
    kept = [row for row, event in enumerate(events) if event.category not in without]
    all_rows = {row["event_id"]: row for row in tree_rows(events)}
    for number, row in enumerate(tree_rows([events[row] for row in kept])):
        whole = all_rows[kept[number]]
        around = None if row["op_event"] is None else kept[row["op_event"]]
        assert whole["op_event"] == around
        assert whole["op_exclusive_ns"] == row["op_exclusive_ns"]


@given(mixed)
@example(
    [
        Host("op", 0, 1200, "cpu_op", 0),
        Host("op", 0, 800, "cpu_op", 0),
        Host("range", 0, 2000, "user_annotation", 0),
        Host("frame", 400, 1600, "python_function", 0),
    ]
)
@steady
def test_depths_and_times_follow_from_parents(events: list[Host]) -> None:
    rows = {row["event_id"]: row for row in tree_rows(events)}
    for row in rows.values():
        parent = row["parent_event"]
        assert row["depth"] == (0 if parent is None else rows[parent]["depth"] + 1)
        bodies = [
            (one["body_start_ns"], min(one["body_end_ns"], row["body_end_ns"]))
            for one in rows.values()
            if one["parent_event"] == row["event_id"]
        ]
        own = row["body_end_ns"] - row["body_start_ns"]
        assert row["exclusive_ns"] == own - union_length([(start, max(start, end)) for start, end in bodies])


@given(st.lists(trees, max_size=4), st.lists(trees, max_size=4), st.integers(3, 90), st.integers(3, 90))
@steady
def test_functions_and_annotations_share_the_time_of_their_thread(
    functions: list[Shape], notes: list[Shape], gap: int, other: int
) -> None:
    """Whatever opens and closes the annotations: each function has its time, and all times add up."""
    frames, parents = laid_out(functions, gap)
    frames = [event._replace(category="python_function") for event in frames]
    annotations = [
        event._replace(category="user_annotation") for event in laid_out(notes, other * STEP // 7)[0]
    ]
    events = [
        event._replace(start=event.start * STEP, end=event.end * STEP) for event in frames
    ] + annotations
    rows = tree_rows(events)
    assert sum(row["exclusive_ns"] for row in rows) == union_length([(e.start, e.end) for e in events])
    for row, event, parent in zip(rows, events, parents, strict=False):
        assert row["inclusive_ns"] == event.end - event.start
        around = row["parent_event"]
        while around is not None and around >= len(frames):
            around = rows[around]["parent_event"]
        assert around == (parent if parent >= 0 else None)


_FRAME, _OP, _CALL, _ANNOTATION = range(4)
_LEAST_SHARE = 3
"""Of the drawn threads, one in so many at least is to be plain, or the comparison shows little."""

Drawn = list[tuple[int, int, int, int]]
"""Lane, start, duration and kind of each event."""

drawn_events = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 14),
        st.integers(0, 8),
        st.sampled_from([_OP, _ANNOTATION, _CALL, _FRAME]),
    ),
    max_size=10,
)


def rows_of(drawn: Drawn, scale: int) -> HostRows:
    lane, start, duration, kind = (np.array([event[i] for event in drawn], dtype=np.int64) for i in range(4))
    start, end = start * scale, (start + duration) * scale
    order = np.lexsort(
        (np.where(kind == _FRAME, -end, 0), np.where(kind == _ANNOTATION, _OP, kind), start, lane)
    )
    return HostRows(lane[order], start[order], end[order], kind[order].astype(np.int8))


@settings(deadline=None, derandomize=True, max_examples=250)
@given(drawn_events, st.sampled_from([1, TOLERANCE_NS // 2, 100 * TOLERANCE_NS]))
def test_plain_threads_nest_as_the_walk_says(drawn: Drawn, scale: int) -> None:
    rows = rows_of(drawn, scale)
    walked = nesting._walk(*(column.tolist() for column in astuple(rows)))
    for found, expected in zip(astuple(nesting._nested(rows)), walked, strict=True):
        assert found.tolist() == expected.tolist()


def test_many_threads_are_plain() -> None:
    """So that the comparison above compares something: threads of a real program are plain, but for Python frames."""
    generator = np.random.default_rng(0)
    plain = 0
    for _ in range(300):
        drawn = [
            (0, int(s), int(d), _OP)
            for s, d in zip(generator.integers(0, 14, 4), generator.integers(0, 4, 4), strict=True)
        ]
        plain += bool(plain_nesting(rows_of(drawn, 100)).is_plain.all())
    assert plain >= 300 // _LEAST_SHARE


def test_times_that_no_number_can_hold_one_after_the_other_are_not_plain() -> None:
    rows = rows_of([(0, 0, 1, _OP), (1, 1 << 61, 1, _OP)], 1)
    assert not plain_nesting(rows).is_plain.any()


def test_deep_nesting_grows_as_the_number_of_events() -> None:
    def nested(depth: int) -> HostRows:
        return rows_of([(0, level, 2 * (depth - level), _OP) for level in range(depth)], 1)

    assert grows_less(5 * 3, plain_nesting, nested(20_000), nested(100_000))


_DAY_NS = 86_400_000_000_000


@st.composite
def jobs(draw: st.DrawFn) -> tuple[MadeJob, pl.DataFrame]:
    """A job of two dimensions of parallelism and the whole, with what was recorded of it."""
    world = draw(st.sampled_from([2, 4, 8]))
    seed = draw(st.integers(0, 10_000))
    random = np.random.default_rng(seed)
    far = draw(st.sampled_from([0, 1_000_000, _DAY_NS]))
    job = MadeJob(
        world,
        seed,
        [int(random.integers(-far, far + 1)) for _ in range(world)],
        [float(random.uniform(-30, 30)) for _ in range(world)],
        sequences=draw(st.booleans()),
        communicators=draw(st.booleans()),
    )
    renamed = draw(st.booleans())
    sizes = draw(st.sampled_from([(1024,), (1024, 4096), (1024, 4096, 1024, 65536)]))
    for number in range(draw(st.integers(20, 120))):
        size = sizes[number % len(sizes)]
        step = number // 6
        if number % 3 == 0:
            for first in range(0, world, 2):
                pair = [first, first + 1]
                job.collective("all_gather", size, f"tp{first}", pair, step=step, renamed=renamed)
        else:
            job.collective("all_reduce", size, "world", step=step, renamed=renamed)
    return job, _recorded(job.frame(), draw(st.sampled_from([0.0, 0.02, 0.1])), random)


def _recorded(frame: pl.DataFrame, lost: float, random: np.random.Generator) -> pl.DataFrame:
    """Without some members, and with another window on each rank."""
    keep = random.random(frame.height) >= lost
    truth, rank = frame.get_column("truth").to_numpy(), frame.get_column("rank").to_numpy()
    most = truth.max()
    for number in np.unique(rank):
        cut = random.integers(0, most // 6 + 1, 2)
        keep &= (rank != number) | ((truth >= cut[0]) & (truth <= most - cut[1]))
    return frame.filter(pl.Series(keep))


@pytest.mark.full
@settings(max_examples=40, derandomize=True, deadline=None)
@given(jobs())
def test_no_member_is_matched_wrongly_and_nearly_all_are_found(made: tuple[MadeJob, pl.DataFrame]) -> None:
    job, recorded = made
    ranks = recorded.get_column("rank").unique().sort().to_list()
    matched = match_members(recorded.drop("truth"), facts(ranks, job.world))
    wrong, missed, there = agreement(matched.members, recorded)
    assert wrong == 0
    assert missed <= there * 0.001
    assert not [finding for finding in matched.findings if finding.code.value == "collectives-disordered"]
    ids = matched.collectives.get_column("collective")
    assert ids.to_list() == list(range(len(ids)))
    assert set(matched.members.get_column("collective").drop_nulls()) == set(ids)
    assert (matched.collectives.get_column("ranks").list.len() > 1).all()


@pytest.mark.full
@settings(max_examples=20, derandomize=True, deadline=None)
@given(jobs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(made: tuple[MadeJob, pl.DataFrame], shuffle: object) -> None:
    job, recorded = made
    members = recorded.drop("truth")
    ranks = facts(recorded.get_column("rank").unique().sort().to_list(), job.world)
    first = match_members(members, ranks)
    again = match_members(members.sample(fraction=1.0, shuffle=True, seed=1), ranks)
    assert first.collectives.equals(again.collectives)


EXAMPLES = settings(max_examples=150, derandomize=True, deadline=None, database=None)
RELATIVE_NS = int(EXACT_BELOW_US) * 1000 - 1000
ABSOLUTE_NS = int(LIMIT_US) * 1000 - 1000
relative = st.integers(-RELATIVE_NS, RELATIVE_NS)

absolute = st.one_of(
    st.integers(0, ABSOLUTE_NS),
    st.integers(1_500_000_000_000_000_000, 1_900_000_000_000_000_000),
    st.integers(1_500_000_000_000_000, 1_900_000_000_000_000).map(lambda us: us * 1000),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clock")


@st.composite
def decimal_text(draw: st.DrawFn, ns: int) -> str:
    """That many nanoseconds as microseconds, in one of the ways to write a number."""
    text = f"{Decimal(ns) / 1000:f}"
    ways = [text, f"{Decimal(ns) / 1000:.3f}"]
    if "." in text:
        ways.append(text + "0")
    return draw(st.sampled_from(ways))


@st.composite
def times(draw: st.DrawFn, ts: st.SearchStrategy[int], count: int = 5) -> list[tuple[int, int, str, str]]:
    """(start, duration) of some events in nanoseconds, and as they stand in the file."""
    return [
        (start, dur, draw(decimal_text(start)), draw(decimal_text(dur)))
        for start, dur in draw(
            st.lists(st.tuples(ts, st.integers(0, RELATIVE_NS)), min_size=1, max_size=count)
        )
    ]


def read(folder: Path, events: list[tuple[int, int, str, str]], base: int | None) -> list[tuple[int, int]]:
    """(ts_ns, dur_ns) of events in a file with these texts as times."""
    text = kineto_text(
        [op("a", f"@{i}", f"#{i}") for i in range(len(events))],  # type: ignore[arg-type]
        header={} if base is None else {"baseTimeNanoseconds": base},
    )
    for i, (_, _, ts, dur) in enumerate(events):
        text = text.replace(f'"@{i}"', ts).replace(f'"#{i}"', dur)
    path = folder / "t.json"
    path.unlink(missing_ok=True)
    path.write_text(text)
    return read_timeline(path).events.select("ts_ns", "dur_ns").rows()


@EXAMPLES
@given(st.lists(relative, min_size=1))
def test_floats_below_the_limit_round_to_the_exact_nanosecond(ns: list[int]) -> None:
    us = np.array([float(Decimal(one) / 1000) for one in ns])
    assert to_ns(us).tolist() == ns


@EXAMPLES
@given(events=times(relative), base=st.integers(0, 2_000_000_000_000_000_000))
def test_times_after_a_base_are_exact(
    folder: Path, events: list[tuple[int, int, str, str]], base: int
) -> None:
    assert read(folder, events, base) == [(base + ts, dur) for ts, dur, _, _ in events]


@EXAMPLES
@given(events=times(absolute))
def test_absolute_times_without_a_base_are_exact(
    folder: Path, events: list[tuple[int, int, str, str]]
) -> None:
    assert read(folder, events, None) == [(ts, dur) for ts, dur, _, _ in events]


@EXAMPLES
@given(ns=absolute)
def test_absolute_times_of_flows_are_exact(folder: Path, ns: int) -> None:
    text = kineto_text([flow("s", 1, 7777)]).replace("7777", f"{Decimal(ns) / 1000:f}")
    path = folder / "flow.json"
    path.unlink(missing_ok=True)
    path.write_text(text)
    assert read_timeline(path).flows.get_column("ts_ns").to_list() == [ns]


DAY_NS = 86_400 * 10**9
US = 1_000
steady_clocks = settings(deadline=None, derandomize=True, max_examples=12)


@st.composite
def hosts(draw: DrawFn, most: int = 8) -> tuple[PlannedHost, ...]:
    """Hosts whose clocks are up to a day apart, and drift by up to 100 ppm."""
    ahead = st.one_of(st.integers(-10_000, 10_000), st.integers(-DAY_NS, DAY_NS))
    count = draw(st.integers(1, most))
    return tuple(PlannedHost(f"host-{n}", draw(ahead), draw(st.floats(-100, 100))) for n in range(count))


@st.composite
def plans(draw: DrawFn, jitter: int, late_ends: int = 0) -> WidePlan:
    """Jobs of 2 to 64 ranks, whose groups overlap or do not."""
    found = draw(hosts())
    ranks = draw(st.integers(max(2, len(found)), 64))
    size = draw(st.integers(2, ranks))
    stride = draw(st.integers(1, size))
    groups = tuple(tuple(range(first, min(first + size, ranks))) for first in range(0, ranks - 1, stride))
    return WidePlan(
        ranks,
        draw(st.integers(1, 12)) * len(groups) if draw(st.booleans()) else draw(st.integers(1, 150)),
        found,
        groups if draw(st.booleans()) else (),
        skew=draw(st.integers(1_000, 5_000_000)),
        transfer=draw(st.integers(5_000, 5_000_000)),
        jitter=jitter,
        late_ends=tuple(draw(st.integers(0, late_ends)) for _ in found),
        lost=draw(st.sampled_from([0.0, 0.02, 0.3])),
        seed=draw(st.integers(0, 2**32)),
    )


def truths(job: WideJob) -> pl.DataFrame:
    """The clocks that are known, with `true_ns`: what their offsets should be."""
    clocks = clocks_of(job.members, job.matched(), job.ranks).drop_nulls(["offset_ns", "at_ns"])
    true = [
        job.host_of[rank].offset_to(job.host_of[reference], at)
        for rank, reference, at in clocks.select("rank", "reference", "at_ns").iter_rows()
    ]
    return clocks.with_columns(pl.Series("true_ns", true, dtype=pl.Int64))


def outside(clocks: pl.DataFrame) -> pl.DataFrame:
    low, high = pl.col("offset_low_ns"), pl.col("offset_high_ns")
    return clocks.filter((pl.col("true_ns") < low) | (pl.col("true_ns") > high))


@steady_clocks
@given(plans(jitter=0))
def test_offsets_are_exact_where_ends_are_the_same_moment(plan: WidePlan) -> None:
    clocks = truths(wide_job(plan))
    errors = (clocks.get_column("offset_ns") - clocks.get_column("true_ns")).abs()
    assert (errors <= US).all()
    assert outside(clocks).is_empty()


@pytest.mark.full
@steady_clocks
@given(plans(jitter=0))
def test_aligned_ends_are_the_same_moment_all_along_the_trace(plan: WidePlan) -> None:
    job = wide_job(plan)
    linked = link_ranks(job.parts())
    known = linked.clocks.drop_nulls(["offset_ns", "drift_low_ppm"]).get_column("rank")
    members = linked.members.filter(pl.col("rank").is_in(known.implode())).drop_nulls("collective")
    spread = members.group_by("collective").agg(pl.col("end_ns").max() - pl.col("end_ns").min())
    # Each of two clocks may be 1 us off.
    assert (spread.get_column("end_ns") <= 2 * US).all()


@steady_clocks
@given(plans(jitter=20_000, late_ends=100_000))
def test_the_truth_is_within_the_interval_where_ends_do_not_agree(plan: WidePlan) -> None:
    """A host whose ends are always late cannot be told from one whose clock is ahead."""
    job = wide_job(plan)
    clocks = truths(job)
    assert outside(clocks).is_empty()
    low, high = clocks.get_column("offset_low_ns"), clocks.get_column("offset_high_ns")
    assert ((low <= clocks.get_column("offset_ns")) & (clocks.get_column("offset_ns") <= high)).all()


@pytest.mark.full
def test_offsets_are_within_a_microsecond_and_drifts_within_their_interval_where_ends_jitter_little() -> None:
    random = np.random.default_rng(13)
    errors, drifts, measured = [], 0, 0
    for seed in range(60):
        ahead, drift = random.integers(-DAY_NS, DAY_NS, 2), random.normal(0, 40, 2)
        own = tuple(PlannedHost(str(n), int(ahead[n]), float(drift[n])) for n in range(2))
        job = wide_job(WidePlan(4, int(random.integers(20, 400)), own, jitter=300, seed=seed))
        for row in truths(job).filter(pl.col("rank") > 1).iter_rows(named=True):
            errors.append(abs(row["offset_ns"] - row["true_ns"]))
            true = ((1 + own[0].drift_ppm / 1e6) / (1 + own[1].drift_ppm / 1e6) - 1) * 1e6
            measured += 1
            drifts += row["drift_low_ppm"] <= true <= row["drift_high_ppm"]
    assert max(errors) <= US
    assert drifts / measured >= 0.95


@pytest.mark.full
@steady_clocks
@given(plans(jitter=1_000))
def test_no_collective_ends_before_all_have_arrived(plan: WidePlan) -> None:
    """On aligned clocks, but for what a time is read off by."""
    job = wide_job(plan)
    linked = link_ranks(job.parts())
    reference = set(linked.clocks.drop_nulls("offset_ns").get_column("rank"))
    members = linked.members.filter(pl.col("rank").is_in(list(reference))).drop_nulls("collective")
    gaps = members.group_by("collective").agg(
        (pl.col("start_ns").max() - pl.col("end_ns").min()).alias("gap")
    )
    if not gaps.is_empty():
        assert (gaps.get_column("gap") <= 10 * US).mean() >= 0.99  # type: ignore[operator]


def test_a_planted_hour_is_aligned_to_its_end() -> None:
    own = PlannedHost("a"), PlannedHost("b", 7, 80.0)
    job = wide_job(WidePlan(2, 3_600, own, gap=10**9, jitter=500))
    (row,) = truths(job).filter(pl.col("rank") == 1).to_dicts()
    at = own[1].says(BASE_NS + int(job.end[-1, 0]))
    aligned = row["offset_ns"] + round((at - row["at_ns"]) * row["drift_ppm"] / 1e6)
    assert abs(own[1].offset_to(own[0], at) - aligned) <= US
