"""Are a window's steps found, and is it said where they are not steady or not the same on all ranks?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import complete, op
from tests.unit.linking.made import linked_of
from tests.unit.validation.made import codes, step
from tracebraid.model.finding import Finding
from tracebraid.model.timeline import Timeline
from tracebraid.validation.window import Step, rank_step_findings, steps_of, window_findings


def timeline_of(*events: Any) -> Timeline:
    return linked_of(list(events)).timeline


def in_a_row(*durations: int) -> list[Step]:
    """Steps of these durations in ns, one behind the other."""
    steps, now = [], 0
    for number, duration in enumerate(durations):
        steps.append(Step(f"ProfilerStep#{number}", now, now + duration))
        now += duration
    return steps


def said_of(*durations: int) -> list[Finding]:
    return window_findings(timeline_of(op("aten::mm", 0, 1)), in_a_row(*durations))


# --- which events are steps -------------------------------------------------------------------------


def test_steps_are_in_the_order_of_their_starts_with_times_in_ns() -> None:
    found = steps_of(timeline_of(step(4, 3000, 1.5), step(3, 1000, 2000)))
    assert found == (
        Step("ProfilerStep#3", 1_000_000, 3_000_000),
        Step("ProfilerStep#4", 3_000_000, 3_001_500),
    )


def test_the_times_of_steps_are_those_of_the_unix_clock() -> None:
    base_ns = 1_700_000_000_000_000_000
    (found,) = steps_of(linked_of([step(1, 5, 10)], header={"baseTimeNanoseconds": base_ns}).timeline)
    assert (found.start_ns, found.end_ns) == (base_ns + 5_000, base_ns + 15_000)


def test_old_traces_have_steps_as_ops() -> None:
    assert [one.name for one in steps_of(timeline_of(op("ProfilerStep#7", 0, 5)))] == ["ProfilerStep#7"]


@pytest.mark.parametrize("name", ["ProfilerStep", "ProfilerStep#", "ProfilerStep#1x", "my ProfilerStep#1"])
def test_only_the_profilers_own_names_are_steps(name: str) -> None:
    assert steps_of(timeline_of(op(name, 0, 5, cat="user_annotation"))) == ()


def test_the_devices_side_of_a_step_is_no_second_step() -> None:
    there = complete("ProfilerStep#1", "gpu_user_annotation", 3, 5, pid=0, tid=7)
    assert len(steps_of(timeline_of(step(1), there))) == 1


# --- one rank ---------------------------------------------------------------------------------------


def test_no_step_is_said() -> None:
    assert codes(said_of()) == ["no-steps"]


def test_steady_steps_have_nothing_to_say() -> None:
    assert said_of(100, 100, 101) == []


@pytest.mark.parametrize(
    ("durations", "times"),
    [
        ((300, 100, 100), None),
        ((301, 100, 100), "3.0"),
        ((950, 100, 100), "9.5"),
        ((300, 100), None),
        ((400, 100), "4.0"),
        ((500, 100, 200), "3.3"),
        ((450, 100, 200), None),
        ((100, 1000, 100), None),
        ((301, 100, 9999, 100), "3.0"),
        ((9999,), None),
        ((50, 0, 0), "inf"),
        ((0, 0, 0), None),
    ],
)
def test_a_first_step_of_over_three_times_the_median_of_the_others_is_a_warm_up(
    durations: tuple[int, ...], times: str | None
) -> None:
    found = said_of(*(100_000 * duration for duration in durations))
    assert codes(found) == ([] if times is None else ["warmup-caught"])
    if times is not None:
        assert f"ProfilerStep#0 took {times} times as long" in found[0].message


def test_what_recorders_add_to_the_first_short_step_is_no_warm_up() -> None:
    """A loop of 60 us a step: the first recorded one takes 0.8 ms, however many steps were skipped before."""
    assert said_of(860_000, 60_000, 60_000) == []


@pytest.mark.parametrize(
    "name",
    [
        "_compile.compile_inner (dynamo_timed)",
        "compile_fx.<locals>.fw_compiler_base (dynamo_timed)",
        "compile_fx_inner",
        "CompileTime:inductor",
    ],
)
def test_a_compilation_inside_the_window_is_a_warm_up(name: str) -> None:
    timeline = timeline_of(step(1), op(name, 5, 50), op(name, 60, 5))
    (found,) = window_findings(timeline, steps_of(timeline))
    assert (found.code, found.count) == ("warmup-caught", 2)


@pytest.mark.parametrize(
    "name",
    ["Torch-Compiled Region: 0/0", "## Call CompiledFxGraph abc ##", "CompiledFunction", "recompile me"],
)
def test_running_what_was_compiled_is_no_compilation(name: str) -> None:
    timeline = timeline_of(step(1), op(name, 5, 50))
    assert window_findings(timeline, steps_of(timeline)) == []


# --- several ranks ----------------------------------------------------------------------------------


def shifted(by_ns: int, *durations: int) -> tuple[Step, ...]:
    return tuple(Step(s.name, s.start_ns + by_ns, s.end_ns + by_ns) for s in in_a_row(*durations))


def test_ranks_with_the_same_steps_at_the_same_time_have_nothing_to_say() -> None:
    assert rank_step_findings({0: shifted(0, 9, 9), 1: shifted(3, 9, 9)}, "job") == []


@pytest.mark.parametrize("ranks", [{}, {0: shifted(0, 9)}, {0: shifted(0, 9), 1: ()}, {0: (), 1: ()}])
def test_fewer_than_two_ranks_with_steps_cannot_differ(ranks: dict[int, tuple[Step, ...]]) -> None:
    assert rank_step_findings(ranks, "job") == []


def test_ranks_whose_steps_differ_are_counted_and_two_are_shown() -> None:
    longer = shifted(0, 9, 9, 9)
    found = rank_step_findings({0: longer, 1: longer[1:], 2: longer[:1], 3: longer, 4: longer[:2]}, "job")
    assert [(one.code, one.path, one.count) for one in found] == [("steps-differ", "job", 3)]
    spans = "rank 0: ProfilerStep#0 to ProfilerStep#2, rank 1: ProfilerStep#1 to ProfilerStep#2, rank 2: ProfilerStep#0"
    assert f"({spans})" in found[0].message


@pytest.mark.parametrize(("gap_ns", "said"), [(-1, False), (0, False), (1, True)])
def test_a_step_that_begins_after_it_ended_elsewhere_shows_clocks_that_differ(
    gap_ns: int, said: bool
) -> None:
    found = rank_step_findings({0: shifted(0, 1000), 1: shifted(1000 + gap_ns, 1000)}, "job")
    assert codes(found) == ["clocks-differ"] * said


def test_of_steps_that_lie_apart_the_widest_gap_is_told() -> None:
    ranks = {
        0: (Step("ProfilerStep#1", 0, 1_000_000), Step("ProfilerStep#2", 1_000_000, 2_000_000)),
        1: (Step("ProfilerStep#1", 3_500_000, 4_000_000), Step("ProfilerStep#2", 9_000_000, 9_500_000)),
        2: (),
    }
    (found,) = rank_step_findings(ranks, "job")
    assert "ProfilerStep#2 of rank 1 begins 7.000 ms after that of rank 0 has ended" in found.message


def test_steps_that_differ_are_not_compared_in_time() -> None:
    found = rank_step_findings({0: shifted(0, 9), 1: shifted(5_000_000, 9, 9)}, "job")
    assert codes(found) == ["steps-differ"]
