"""The way back from the end of a step, on graphs of a few moments."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings

from tests.unit.graph.critical_path.made import Wait, check_sums, graph_of, graphs, step_row
from tracebraid.errors import ArgumentError
from tracebraid.graph.critical_path.find_path import PathOptions, find_path
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.critical_path import CriticalPath
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.replay_error import ReplayError


def path_of(graph: DependencyGraph, **options: object) -> CriticalPath:
    return find_path(graph, PathOptions(**{"replays": 0, **options}), ReplayError())  # type: ignore[arg-type]


def rows(path: CriticalPath, *columns: str) -> list[tuple[object, ...]]:
    return path.segments.with_columns(pl.col(pl.Categorical).cast(pl.String)).select(columns).rows()


def test_it_follows_the_latest_edge_and_names_what_is_later() -> None:
    graph = graph_of(
        [Wait(0, 1, 10, activity=0), Wait(0, 2, 3, activity=1), Wait(1, 3, 5, activity=1), Wait(2, 3, 4)],
        [0, 0, 0, 7],
        [step_row("s#1", 0, 3)],
    )
    found = path_of(graph)
    assert rows(found, "kind", "name", "start_ns", "duration_ns", "residual") == [
        ("host op", "op0", 0, 10, None),
        ("host op", "op1", 10, 5, None),
        ("residual", "op1", 15, 7, "unexplained"),
    ]
    assert found.steps.select("span_ns", "path_ns", "residual_ns").row(0) == (22, 15, 7)


def test_of_equally_late_edges_it_takes_the_first() -> None:
    graph = graph_of(
        [Wait(0, 3, 10, activity=0), Wait(0, 3, 10, activity=1), Wait(1, 3, 10, activity=1)],
        [0, 0, 0, 0],
        [step_row("s#1", 0, 3)],
    )
    assert rows(path_of(graph), "name") == [("op0",)]


def test_neighbours_of_the_same_activity_and_kind_are_one_segment() -> None:
    graph = graph_of(
        [
            Wait(0, 1, 10, activity=0),
            Wait(1, 2, 5, activity=0),
            Wait(2, 3, 2, EdgeKind.LAUNCH, activity=0),
        ],
        [0] * 4,
        [step_row("s#1", 0, 3)],
    )
    assert rows(path_of(graph), "kind", "duration_ns") == [("host op", 15), ("launch latency", 2)]


def test_it_is_cut_at_the_start_of_the_step() -> None:
    graph = graph_of(
        [Wait(0, 3, 100, activity=1), Wait(0, 1, 30, activity=0)], [0] * 4, [step_row("s#1", 1, 3)]
    )
    found = path_of(graph)
    assert rows(found, "start_ns", "duration_ns") == [(30, 70)]
    assert found.steps.item(0, "span_ns") == 70


def test_what_waits_for_nothing_is_a_residual_back_to_the_start() -> None:
    graph = graph_of([Wait(2, 3, 5, activity=1)], [0, 0, 40, 0], [step_row("s#1", 0, 3)])
    found = path_of(graph)
    assert rows(found, "kind", "duration_ns") == [("residual", 40), ("host op", 5)]


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


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_path_and_residuals_are_the_step(graph: DependencyGraph) -> None:
    found = path_of(graph, replays=3)
    check_sums(found)
    for share in (found.segments["on_path"], found.stability["on_path"]):
        assert ((share >= 0) & (share <= 1)).all()
