"""Pairs of programs: their declarations, when they are captured again, and how predictions are judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.whatif_pairs import capture
from benchmarks.whatif_pairs.capture import (
    Loop,
    capture_pair,
    control,
    loop_of,
    loops_of,
    whole_rounds,
)
from benchmarks.whatif_pairs.declare import Pair, pairs
from benchmarks.whatif_pairs.judge import Claim, Judged, error, groups, markdown, sign_is_right, summary
from tracebraid.simulation.changes.verbs import change_of

STEPS = 20


@pytest.fixture(scope="module")
def declared() -> dict[str, Pair]:
    pytest.importorskip("torch")
    return pairs()


def test_there_are_enough_pairs_in_both_halves(declared: dict[str, Pair]) -> None:
    halves = [sum(each.held_out == held_out for each in declared.values()) for held_out in (False, True)]
    assert min(halves) >= 22
    for each in declared.values():
        assert ("held_out" in each.make.__module__) == each.held_out


def test_there_are_pairs_of_all_kinds_and_numbers_of_ranks_in_both_halves(declared: dict[str, Pair]) -> None:
    kinds = [
        "kernels",
        "ops",
        "straggler",
        "layers",
        "batch",
        "threads",
        "overlap",
        "sync",
        "optimizer",
        "collectives",
    ]
    for held_out in (False, True):
        own = [each for each in declared.values() if each.held_out == held_out]
        assert {each.ranks for each in own} == {1, 2, 4}
        assert {*kinds, "host work", "data loading"} <= {each.kind for each in own}


def test_each_change_is_understood(declared: dict[str, Pair]) -> None:
    for each in declared.values():
        assert each.changes
        assert all(change_of(text).where.given for text in each.changes)


def of_pair(**given: object) -> Pair:
    settings = {"changes": ("scale 1",), "kind": "kernels", "ranks": 2, "threads": 1}
    return Pair(make=of_pair, **(settings | {"stacks": False, "compiles": False} | given))  # type: ignore[arg-type]


def noted(step_ms: float, late_ms: float = 0.0) -> str:
    """What a rank notes whose steps are so long, and which is late by so much."""
    ends = [round((late_ms + number * step_ms) * 1e6) for number in range(STEPS + 1)]
    return json.dumps({"recorded": ends[1:], "unrecorded": [ends, ends]})


def test_a_step_ends_with_the_latest_rank(tmp_path: Path) -> None:
    for rank, late_ms in enumerate((0.0, 3.0)):
        (tmp_path / f"steps_{rank}.json").write_text(noted(10.0, late_ms))
    found = loop_of(tmp_path)
    assert found.recorded_ms == pytest.approx(10.0)
    assert found.untraced_ms == pytest.approx(10.0)
    assert len(found.recorded) == STEPS - 1


def loop(*steps_ms: float, recorded_ms: float = 12.0) -> Loop:
    """A capture of steps that are so long before the recorded ones, and so long after."""
    first, second = (np.full(STEPS, each) for each in steps_ms)
    return Loop(np.full(STEPS, recorded_ms), (first, second))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param([loop(10, 10)] * 2, [loop(5, 5)] * 2, 0.0, id="steady"),
        pytest.param([loop(10, 10), loop(11, 11)], [loop(5, 5)] * 2, 1 / 10.5, id="other round"),
        pytest.param(
            [loop(10, 10)] * 2, [loop(5, 5), loop(6, 6)], 1 / 5.5, id="other round after the change"
        ),
        pytest.param(
            [loop(10, 10), loop(10, 10, recorded_ms=14)], [loop(5, 5)] * 2, 2 / 13, id="recorded steps"
        ),
        pytest.param(
            [loop(10, 10)] * 3 + [loop(11, 11)] + [loop(20, 20)] * 2,
            [loop(5, 5)] * 6,
            1 / 10.5,
            id="medians of every second round",
        ),
        pytest.param([loop(10, 12)], [loop(5, 5)], 2 / 11, id="one round, before and after the window"),
    ],
)
def test_control(before: list[Loop], after: list[Loop], expected: float) -> None:
    assert control([before, after]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rounds_ms", "attempts", "rounds", "off"),
    [
        pytest.param([10.0, 10.1], 3, 2, 0.01, id="steady at once"),
        pytest.param([10.0, 12.0, 11.0, 10.0], 3, 4, 0.05, id="not steady in four"),
        pytest.param([10.0, 12.0, 10.0, 10.0, 10.0, 10.0], 3, 6, 0.0, id="steady in six"),
        pytest.param([10.0, 12.0], 1, 2, 0.18, id="no second attempt"),
    ],
)
def test_a_pair_that_is_not_steady_is_captured_in_more_rounds(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rounds_ms: list[float],
    attempts: int,
    rounds: int,
    off: float,
) -> None:
    made: list[str] = []

    def run(pair: Pair, folder: Path, captures: Sequence[str]) -> None:
        made.extend(captures)
        for name in captures:
            (folder / name).mkdir(parents=True)
            for rank in range(pair.ranks):
                of_round = rounds_ms[int(name[-1]) - 1]
                (folder / name / f"steps_{rank}.json").write_text(noted(of_round))

    monkeypatch.setattr(capture, "_run", run)
    pair = of_pair()
    for most in (1, len(rounds_ms) // 2, len(rounds_ms) // 2):  # Rounds that are there stay, and count.
        capture_pair(pair, tmp_path, 2, min(most, attempts))
    assert whole_rounds(tmp_path / "of_pair", pair) == rounds
    assert made == [
        f"{variant}_{number}" for number in range(1, rounds + 1) for variant in ("before", "after")
    ]
    assert control(loops_of(tmp_path / "of_pair", pair)) == pytest.approx(off, abs=0.005)


def test_a_round_that_broke_off_is_captured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(capture, "_run", lambda pair, folder, captures: made.extend(captures))
    pair = of_pair(ranks=1)
    for name in ("before_1", "after_1", "before_2"):
        (tmp_path / "of_pair" / name).mkdir(parents=True)
        (tmp_path / "of_pair" / name / "steps_0.json").write_text(noted(10.0))
    assert whole_rounds(tmp_path / "of_pair", pair) == 1
    with pytest.raises(RuntimeError, match="of_pair left no round"):
        capture_pair(pair, tmp_path, 2, 1)
    assert made == ["before_2", "after_2"]


def claim(before_ms: float, after_ms: float, gain_ms: float, low_ms: float, high_ms: float) -> Claim:
    return Claim(before_ms, after_ms, before_ms - gain_ms, gain_ms, low_ms, high_ms)


def of_claims(*claims: Claim, **given: object) -> Judged:
    settings = {"name": "a", "change": "remove name=a|b", "kind": "kernels", "held_out": False, "ranks": 1}
    return Judged(**(settings | {"control": 0.0, "recorded": claims} | given))  # type: ignore[arg-type]


def test_the_error_of_rounds_is_their_median() -> None:
    rounds = [claim(10, 8, 1, 0, 3), claim(10, 8, 4, 3, 5), claim(10, 8, 9, 8, 9)]
    assert error(rounds) == pytest.approx(-2 / 8)
    assert [each.holds for each in rounds] == [True, False, False]
    assert [each.width for each in rounds] == pytest.approx([0.3, 0.2, 0.1])


@pytest.mark.parametrize(
    ("real_ms", "predicted_ms", "noise", "expected"),
    [
        pytest.param(3, 1, 0.0, True, id="right"),
        pytest.param(-3, -1, 0.0, True, id="right, slower"),
        pytest.param(3, -1, 0.0, False, id="wrong"),
        pytest.param(3, 0, 0.0, False, id="no gain predicted"),
        pytest.param(0.1, -1, 0.0, None, id="hardly a gain"),
        pytest.param(1, -1, 0.2, None, id="below the noise"),
    ],
)
def test_signs(real_ms: float, predicted_ms: float, noise: float, expected: bool | None) -> None:
    assert sign_is_right([claim(10, 10 - real_ms, predicted_ms, 0, 1)], noise) is expected


FOUND = [
    of_claims(claim(10, 8, 2, 1, 3), claim(10, 8, 2, 3, 4), name="exact"),
    of_claims(claim(10, 8, 1, 0.5, 2.5), held_out=True, name="off by an eighth"),
    of_claims(claim(10, 5, -2, -3, -1), name="wrong sign", kind="sync"),
    of_claims(claim(10, 5, 1, 0, 9), control=0.05, name="noisy"),
    of_claims(refused="no event is selected", held_out=True, name="refused"),
]


def test_summary_counts_steady_pairs() -> None:
    found = summary(FOUND)
    assert (found.pairs, found.noisy, found.refused) == (5, 1, 1)
    assert found.error == pytest.approx(1 / 8)
    assert found.within == pytest.approx(1 / 3)
    assert (found.signs, found.signs_right) == (3, 2)
    assert found.intervals == 4
    assert found.coverage == pytest.approx(0.5)
    assert found.width == pytest.approx(0.2)


def test_summary_of_nothing() -> None:
    found = summary(FOUND, untraced=True)
    assert (found.error, found.within, found.coverage, found.width) == (None,) * 4
    assert found.figures == {"pairs": 5, "noisy": 1, "refused": 1, "signs": 0, "signs right": 0}


def test_untraced_steps_are_judged_by_their_own_claims() -> None:
    own = of_claims(claim(10, 8, 2, 1, 3), untraced=(Claim(5, 4, 4.4, 0.6),))
    found = summary([own], untraced=True)
    assert found.error == pytest.approx(0.1)
    assert (found.signs_right, found.intervals, found.coverage) == (1, 0, None)


def test_groups_are_halves_and_kinds() -> None:
    found = {name: [each.name for each in own] for name, own in groups(FOUND).items()}
    assert found["all"] == [each.name for each in FOUND]
    assert found["held out"] == ["off by an eighth", "refused"]
    assert found["developed with"] == ["exact", "wrong sign", "noisy"]
    assert found["sync"] == ["wrong sign"]


def test_tables_name_every_pair_and_have_one_width_each() -> None:
    found = markdown(FOUND)
    assert all(f"| {each.name} |" in found for each in FOUND)
    assert "| refused |" in found
    assert ", noisy |" in found
    for block in filter(lambda text: text.startswith("|"), found.split("\n\n")):
        lines = [line.replace("\\|", "") for line in block.strip().splitlines()]
        assert len({line.count("|") for line in lines}) == 1
