"""The critical path: the way back from the end of a step, slack, and how stable it is, on graphs of a few moments."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.cases import cases
from tests.planted.small_graphs import Ints, Wait, check_sums, graph_of, graphs, step_row
from tracebraid.errors import ArgumentError
from tracebraid.graph.critical_path import find_path as critical_path
from tracebraid.graph.critical_path import step_bounds as segments
from tracebraid.graph.critical_path.find_path import OWN_WORK, PathOptions, edge_slack, find_path, samples
from tracebraid.graph.critical_path.step_bounds import step_bounds
from tracebraid.model.graph import ActivityKind, CriticalPath, DependencyGraph, EdgeKind, ReplayError
from tracebraid.simulation.replay import replay


def path_of(graph: DependencyGraph, **options: object) -> CriticalPath:
    return find_path(graph, PathOptions(**{"replays": 0, **options}), ReplayError())  # type: ignore[arg-type]


def rows(path: CriticalPath, *columns: str) -> list[tuple[object, ...]]:
    return path.segments.with_columns(pl.col(pl.Categorical).cast(pl.String)).select(columns).rows()


@cases(
    "waits, residual_ns, start, segments",
    {
        "the latest edge, and what is later": (
            [Wait(0, 1, 10, activity=0), Wait(0, 2, 3, activity=1), Wait(1, 3, 5, activity=1), Wait(2, 3, 4)],
            [0, 0, 0, 7],
            0,
            [
                ("host op", "op0", 0, 10, None),
                ("host op", "op1", 10, 5, None),
                ("residual", "op1", 15, 7, "unexplained"),
            ],
        ),
        "the first of equally late edges": (
            [Wait(0, 3, 10, activity=0), Wait(0, 3, 10, activity=1), Wait(1, 3, 10, activity=1)],
            [0] * 4,
            0,
            [("host op", "op0", 0, 10, None)],
        ),
        "neighbours of one activity and kind are one": (
            [Wait(0, 1, 10), Wait(1, 2, 5), Wait(2, 3, 2, EdgeKind.LAUNCH)],
            [0] * 4,
            0,
            [("host op", "op0", 0, 15, None), ("launch latency", "op0", 15, 2, None)],
        ),
        "cut at the start of the step": (
            [Wait(0, 3, 100, activity=1), Wait(0, 1, 30, activity=0)],
            [0] * 4,
            1,
            [("host op", "op1", 30, 70, None)],
        ),
        "what waits for nothing": (
            [Wait(2, 3, 5, activity=1)],
            [0, 0, 40, 0],
            0,
            [("residual", "op1", 0, 40, "unexplained"), ("host op", "op1", 40, 5, None)],
        ),
    },
)
def test_the_path_goes_back_from_the_end_of_the_step(
    waits: list[Wait], residual_ns: list[int], start: int, segments: list[tuple[object, ...]]
) -> None:
    found = path_of(graph_of(waits, residual_ns, [step_row("s#1", start, 3)]))
    assert rows(found, "kind", "name", "start_ns", "duration_ns", "residual") == segments
    check_sums(found)


def test_within_a_rank_the_path_waits_where_it_would_go_to_another() -> None:
    graph = graph_of(
        [
            Wait(2, 3, 30, activity=1),
            Wait(3, 5, 20, EdgeKind.THREAD, activity=2),
            Wait(0, 5, 10, activity=0),
            Wait(5, 7, 8, activity=3),
        ],
        [0, 0, 0, 0, 0, 3, 0, 0],
        [step_row("s#1", 0, 7)],
        ranks=[0, 1, 0, 0],
    )
    found = path_of(graph, rank=0)
    assert rows(found, "kind", "duration_ns") == [
        ("host op", 10),
        ("waiting for a member", 40),
        ("residual", 3),
        ("host op", 8),
    ]
    assert found.steps.select("ranks", "waiting_ns").row(0) == ([0], 40)
    assert path_of(graph).hops.select("from_rank", "to_rank").rows() == [(1, 0)]
    check_sums(found)


def test_steps_are_chosen_by_number_or_name() -> None:
    graph = graph_of([Wait(0, 1, 10), Wait(1, 2, 5), Wait(2, 3, 5)], [0] * 4)
    graph = graph_of(
        [Wait(0, 1, 10), Wait(1, 2, 5), Wait(2, 3, 5)],
        graph.moments.residual_ns.tolist(),
        [step_row("s#1", 0, 1), step_row("s#11", 1, 3)],
    )
    for step in (1, "1", "s#1"):
        assert path_of(graph, step=step).steps["step"].to_list() == ["s#1"]
    assert path_of(graph).steps["step"].to_list() == ["s#1", "s#11"]
    for wrong in ({"step": 2}, {"rank": 7}, {"replays": -1}):
        with pytest.raises(ArgumentError):
            path_of(graph, **wrong)


def test_a_graph_of_nothing_has_no_path() -> None:
    found = path_of(graph_of([], []), replays=10)
    assert (found.steps.height, found.segments.height, found.slack.height) == (0, 0, 0)
    alone = path_of(graph_of([], [0, 0], [step_row(None, 0, 1)]), replays=10)
    assert alone.steps.select("span_ns", "path_ns", "explained").row(0) == (0, 0, 1.0)


@pytest.mark.full
@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(graphs())
def test_path_and_residuals_are_the_step(graph: DependencyGraph) -> None:
    found = path_of(graph, replays=3)
    check_sums(found)
    for share in (found.segments["on_path"], found.stability["on_path"]):
        assert ((share >= 0) & (share <= 1)).all()


def ends(graph: DependencyGraph, work_ns: Ints) -> Ints:
    """When each step ends, and last when the whole job does, with this work."""
    times = replay(graph.edges.first, graph.edges.before, work_ns, graph.moments.residual_ns)
    return np.array([*(times[step.ends].max() for step in step_bounds(graph)), times.max()])


def test_slack_is_what_another_branch_takes_longer() -> None:
    waits = [Wait(0, 3, 10, activity=0), Wait(1, 3, 4, activity=1)]
    assert path_of(graph_of(waits, [0] * 4, [step_row("s#1", 0, 3)])).slack["slack_ns"].to_list() == [0, 6]
    without = graph_of([], [0, 0], [step_row("s#1", 0, 1)])
    assert path_of(without).slack["slack_ns"].to_list() == [None], "no work of its own"


@pytest.mark.full
@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(graphs(), st.data())
def test_a_longer_duration_moves_no_end_within_its_slack_and_none_by_more_than_itself(
    graph: DependencyGraph, data: st.DataObject
) -> None:
    if not len(graph.edges):
        return
    slack = edge_slack(graph, step_bounds(graph))
    assert (slack >= 0).all()
    before = ends(graph, graph.edges.work_ns)
    edge = data.draw(st.integers(0, len(graph.edges) - 1))
    longer = data.draw(st.integers(0, 40))
    work_ns = graph.edges.work_ns.copy()
    work_ns[edge] += longer
    later = ends(graph, work_ns) - before
    assert (later <= longer).all()
    assert (later >= 0).all()
    # The slack is used up by the first step, or the job, that would end later.
    assert later.max() == max(0, longer - slack[edge])


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(graphs())
def test_what_is_on_a_path_has_no_slack(graph: DependencyGraph) -> None:
    found = path_of(graph)
    own = [kind.name.lower() for kind in OWN_WORK]
    assert own
    kinds = found.segments.filter(pl.col("kind").cast(pl.String) == "host op")
    slack = found.slack.filter(pl.col("activity").is_in(kinds["activity"].to_list()))
    assert slack.filter(pl.col("slack_ns") > 0).is_empty()


REPLAYS = 400


def of_steps(durations: list[tuple[int, int]]) -> DependencyGraph:
    """In each step two ops run side by side, `fast` and `slow`: activities 2n and 2n + 1."""
    waits, steps = [], []
    for number, (fast, slow) in enumerate(durations):
        start, end = 4 * number, 4 * number + 3
        if number:
            waits.append(Wait(start - 1, start, 0, activity=2 * number))
        waits += [
            Wait(start, start + 1, 0, activity=2 * number),
            Wait(start, start + 2, 0, activity=2 * number + 1),
            Wait(start + 1, end, fast, activity=2 * number),
            Wait(start + 2, end, slow, activity=2 * number + 1),
        ]
        steps.append(step_row(f"s#{number}", start, end))
    graph = graph_of(waits, [0] * (4 * len(durations)), steps)
    names = ["fast", "slow"] * len(durations)
    labels = [f"s#{number}" for number in range(len(durations)) for _ in range(2)]
    activities = graph.activities.with_columns(
        pl.Series("name", names, dtype=pl.Categorical), pl.Series("step", labels, dtype=pl.Categorical)
    )
    return replace(graph, activities=activities)


def test_an_op_is_on_the_path_as_often_as_the_durations_of_the_steps_say() -> None:
    found = path_of(of_steps([(10, 20), (30, 20), (10, 20), (30, 20)]), replays=REPLAYS)
    shares = found.stability.group_by(pl.col("name").cast(pl.String)).agg(pl.col("on_path").mean())
    assert dict(shares.iter_rows()) == pytest.approx({"fast": 0.5, "slow": 0.5}, abs=0.06)


def test_an_op_that_is_always_longest_is_always_on_the_path() -> None:
    found = path_of(of_steps([(10, 20), (11, 21), (12, 22)]), replays=REPLAYS)
    assert found.stability["on_path"].to_list() == [1.0] * 3
    assert found.segments["on_path"].to_list() == [1.0] * 3
    assert found.stability["is_on_path"].all()


def test_replays_are_the_same_every_time_and_without_them_nothing_is_said() -> None:
    graph = of_steps([(10, 20), (30, 20), (10, 20)])
    assert path_of(graph, replays=50).stability.equals(path_of(graph, replays=50).stability)
    found = path_of(of_steps([(10, 20)]), replays=0)
    assert found.stability.is_empty()
    assert found.segments["on_path"].to_list() == [None]


def test_the_native_library_is_built_for_many_replays_of_many_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, built = of_steps([(10, 20)]), []
    nothing = np.empty(0, dtype=np.int64)
    monkeypatch.setattr(
        critical_path, "native_library", lambda is_worth_building: built.append(is_worth_building)
    )
    monkeypatch.setattr(critical_path, "replays_on_path", lambda *_: (nothing, nothing))
    for replays in (100, 10**6):
        path_of(graph, replays=replays)
    assert built == [False, True]


def test_durations_are_those_of_the_same_position_in_other_steps_else_of_the_same_name() -> None:
    drawn = samples(of_steps([(10, 20), (30, 40)]))
    group = [sorted(drawn.work_ns[f : f + n]) for f, n in zip(drawn.first, drawn.count, strict=True)]
    assert group == [[10, 30], [20, 40], [10, 30], [20, 40]]
    single = of_steps([(10, 20)])
    single = replace(
        single, activities=single.activities.with_columns(pl.lit("same", dtype=pl.Categorical).alias("name"))
    )
    drawn = samples(single)
    assert drawn.count.tolist() == [2, 2]
    assert np.sort(drawn.work_ns).tolist() == [10, 20]


def test_every_edge_and_activity_has_a_kind_of_segment() -> None:
    assert {*segments._BY_EDGE, *OWN_WORK} == set(EdgeKind)
    assert set(segments._BY_ACTIVITY) == set(ActivityKind)
