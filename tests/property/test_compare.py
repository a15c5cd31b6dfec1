"""Of any two traces: parts add up, a run does not differ from itself, and exchanging the runs negates all."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings

from tests.planted.random_scenes import scenes
from tests.planted.scene import Scene
from tracebraid.analysis.compare.compare import compare
from tracebraid.analysis.compare.profiles.rank_profile import RankProfile, rank_profile
from tracebraid.model.answers import DiffChange, DiffPart
from tracebraid.model.questions.comparison import Comparison

_SUMS = ["a_ns", "b_ns", "difference_ns"]
_KEY = ["part", "op", "path", "module", "cause", "host_activity"]


def profile(scene: Scene) -> RankProfile:
    return rank_profile(scene.linked())


def sums(found: Comparison) -> tuple[int, ...]:
    return found.parts.select(pl.col(_SUMS).sum()).row(0)


@settings(max_examples=15, deadline=None)
@given(scenes(), scenes())
def test_parts_add_up_and_exchanged_runs_negate(first: Scene, second: Scene) -> None:
    a, b = profile(first), profile(second)
    check_equal_runs(first, a)
    found, swapped = compare([a], [b]), compare([b], [a])
    assert sums(found) == found.steps.select(_SUMS).row(0)
    assert found.difference_ns == -swapped.difference_ns
    assert sorted(found.parts.get_column("difference_ns")) == sorted(
        -value for value in swapped.parts.get_column("difference_ns")
    )
    assert found.parts.select("part", "op", "a_ns", "b_ns").sort(pl.all()).rows() == (
        swapped.parts.select("part", "op", a_ns="b_ns", b_ns="a_ns").sort(pl.all()).rows()
    )
    for run in (a, b):
        # Only a trace without any work has a step that nothing explains.
        kinds = set(run.parts.get_column("part"))
        assert DiffPart.REST.value not in kinds or len(kinds) == 1
    counts = found.ops.get_column("change").value_counts().rows()
    exchanged = {
        DiffChange.ADDED.value: DiffChange.REMOVED.value,
        DiffChange.REMOVED.value: DiffChange.ADDED.value,
    }
    assert {exchanged.get(change, change): count for change, count in counts} == dict(
        swapped.ops.get_column("change").value_counts().rows()
    )


def check_equal_runs(scene: Scene, a: RankProfile) -> None:
    """A run does not differ from itself, however often it is linked."""
    found = compare([a], [profile(scene)])
    for table in (found.steps, found.parts, found.ops, found.kernels):
        assert set(table.get_column("difference_ns")) <= {0}
        assert not table.get_column("significant").any()
    assert found.changed_ops.is_empty()
    assert found.changed_kernels.is_empty()
