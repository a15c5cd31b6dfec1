"""The time of a token."""

from __future__ import annotations

import polars as pl
import pytest

from tests.planted import Scene
from tests.planted.scenes import clean
from tests.unit.analysis.inference.serving import annotated
from tests.unit.linking.made import row_of
from tracebraid.analysis.inference.token_times import token_times
from tracebraid.model.answers import TOKEN_TIMES


def host_only(*durations: int, name: str = "step[DECODE bs=4]", gap: int = 0) -> Scene:
    scene = Scene()
    host = scene.thread()
    for ns in durations:
        with host.annotation(name, ns):
            pass
        host.spend(gap)
    return scene


def test_time_and_tokens_of_a_phase() -> None:
    row = row_of(token_times(host_only(100, 200, 600, gap=50).linked()), phase="decode")
    assert (row["iterations"], row["requests"], row["tokens"], row["covered_ns"]) == (3, 12, 12, 900)
    assert row["ns_per_token"] == 75.0
    assert row["tokens_per_second"] == pytest.approx(12e9 / 900)
    assert (row["mean_ns"], row["median_ns"], row["p95_ns"]) == (300.0, 200.0, 560.0)
    assert (row["mean_interval_ns"], row["median_interval_ns"], row["p95_interval_ns"]) == (
        200.0,
        200.0,
        245.0,
    )


def test_phases_in_their_order() -> None:
    scene, _ = annotated(
        ["step[DECODE bs=1]", "step[IDLE bs=0]", "step[EXTEND bs=1 toks=3]", "step[MIXED bs=1]"]
    )
    found = token_times(scene.linked())
    assert found.get_column("phase").to_list() == ["prefill", "decode", "mixed", "idle"]
    assert found.get_column("tokens").to_list() == [3, 1, None, 0]
    assert found.get_column("ns_per_token").is_null().to_list() == [False, False, True, True]


def test_iterations_that_run_at_once_cover_their_time_once() -> None:
    scene = Scene()
    host = scene.thread()
    works = []
    for _ in range(2):
        with host.annotation("step[DECODE bs=1]") as planted:
            works.append((planted, host.launch(scene.stream(7), "k", 50_000)))
    row = row_of(token_times(scene.linked()), phase="decode")
    assert row["covered_ns"] == works[1][1].end - works[0][0].ts
    assert row["device_ns"] == 100_000
    assert row["device_ns_per_token"] == 50_000.0


def test_rows_by_step() -> None:
    scene = Scene()
    host = scene.thread()
    for number in (1, 2):
        with host.step(number):
            for _ in range(number):
                with host.annotation("step[DECODE bs=1]", 10):
                    pass
    found = token_times(scene.linked(), per_step=True).select("step", "iterations").rows()
    assert found == [("ProfilerStep#1", 1), ("ProfilerStep#2", 2)]


def test_iterations_without_time_have_no_rate() -> None:
    row = row_of(token_times(host_only(0).linked()), phase="decode")
    assert (row["covered_ns"], row["ns_per_token"], row["tokens_per_second"]) == (0, None, None)


def test_training_has_no_rows() -> None:
    found = token_times(clean().linked())
    assert found.is_empty()
    assert dict(found.schema) == TOKEN_TIMES.polars_schema()


def two_steps() -> Scene:
    scene = Scene()
    host = scene.thread()
    for number, ns in ((1, 100), (2, 500)):
        with host.step(number), host.annotation("step[DECODE bs=1]", ns):
            pass
    return scene


@pytest.mark.parametrize(
    ("doubtful", "with_doubtful", "mean"),
    [
        ([], False, 300.0),
        (["ProfilerStep#1"], False, 500.0),
        (["ProfilerStep#1"], True, 300.0),
        ([None], False, 300.0),
    ],
)
def test_means_leave_doubtful_steps_out_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch, doubtful: list[str | None], with_doubtful: bool, mean: float
) -> None:
    steps = pl.Series(doubtful, dtype=pl.String)
    monkeypatch.setattr("tracebraid.analysis.step_rows.doubtful_steps", lambda *_: steps)
    row = row_of(token_times(two_steps().linked(), with_doubtful=with_doubtful), phase="decode")
    assert (row["mean_ns"], row["ns_per_token"], row["tokens_per_second"]) == (mean, mean, 1e9 / mean)
    assert (row["iterations"], row["tokens"], row["covered_ns"]) == (2, 2, 600)


def test_where_all_is_doubtful_there_are_sums_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = pl.Series(["ProfilerStep#1", "ProfilerStep#2"])
    monkeypatch.setattr("tracebraid.analysis.step_rows.doubtful_steps", lambda *_: steps)
    row = row_of(token_times(two_steps().linked()), phase="decode")
    assert (row["iterations"], row["covered_ns"], row["mean_ns"], row["ns_per_token"]) == (2, 600, None, None)
    by_step = token_times(two_steps().linked(), per_step=True)
    assert by_step.get_column("mean_ns").to_list() == [100.0, 500.0]


def test_iterations_of_overlapping_steps_count_once() -> None:
    scene = two_steps()
    with scene.thread(start=50).step(3, 400):
        pass
    found = token_times(scene.linked(), per_step=True)
    assert found.get_column("iterations").sum() == 2
