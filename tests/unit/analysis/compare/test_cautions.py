"""What may make runs differ, or seem to, beside the program: each is noticed, and none in two plain runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.planted import A100, H100, Scene
from tests.planted.programs import GEMM_NS, Program
from tracebraid.analysis.compare.compare import compare
from tracebraid.analysis.compare.profiles.rank_profile import RankProfile, rank_profile
from tracebraid.model.answers import DiffSetting
from tracebraid.model.diff_sentences import CAUTION_SENTENCES, caution_sentence
from tracebraid.model.questions.comparison import Caution, CautionCode

STEPS = [GEMM_NS + 97 * (number * 7 % 20) for number in range(20)]
PLAIN = Program()


def codes(a: RankProfile, b: RankProfile) -> list[CautionCode]:
    found = compare([a], [b]).cautions
    assert all(caution_sentence(caution) for caution in found)
    return [caution.code for caution in found]


def profile(scene: Scene | None = None) -> RankProfile:
    return rank_profile((scene or PLAIN.scene(STEPS)).linked())


def with_setting(setting: DiffSetting, value: str) -> RankProfile:
    found = profile()
    return replace(found, settings={**found.settings, setting: value})


def many_events(scene: Scene) -> Scene:
    """The host is late, and 100 ops for each step make it so, as far as the profiler is concerned."""
    host = scene.thread("other")
    for number in range(2000):
        host.run(f"aten::view{number % 3}", 10)
    return scene


def test_two_plain_runs_have_no_caution() -> None:
    assert codes(profile(), profile()) == []


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        (DiffSetting.DEVICES, "another", [CautionCode.DEVICES_DIFFER]),
        (DiffSetting.TORCH, "another", [CautionCode.VERSIONS_DIFFER]),
        (DiffSetting.WORLD_SIZE, "8", [CautionCode.WORLD_SIZES_DIFFER]),
        (DiffSetting.PROFILE_MEMORY, "yes", [CautionCode.PROFILER_DIFFERS]),
        (DiffSetting.WITH_STACK, "yes", [CautionCode.MODULES_UNKNOWN, CautionCode.PROFILER_DIFFERS]),
        (DiffSetting.RECORD_SHAPES, "no", [CautionCode.SHAPES_UNKNOWN, CautionCode.PROFILER_DIFFERS]),
        (DiffSetting.OVERHEAD, "100000", [CautionCode.PROFILER_OVERHEAD]),
    ],
)
def test_a_setting_that_differs_is_said(
    setting: DiffSetting, value: str, expected: list[CautionCode]
) -> None:
    assert codes(profile(), with_setting(setting, value)) == expected


def test_devices_come_from_the_header() -> None:
    scene = PLAIN.scene(STEPS)
    other = PLAIN.scene(STEPS)
    assert scene.devices == [A100]
    other.devices = [H100]
    assert codes(profile(scene), profile(other)) == [CautionCode.DEVICES_DIFFER]


def test_the_profiler_s_cost_is_said_where_the_host_holds_up_the_device() -> None:
    late = replace(PLAIN, late_ns=2 * GEMM_NS)
    scene, busy = late.scene(STEPS), many_events(late.scene(STEPS))
    assert CautionCode.PROFILER_COST not in codes(profile(scene), profile(scene))
    assert CautionCode.PROFILER_COST in codes(profile(scene), profile(busy))


def test_single_slow_steps_that_move_the_mean_are_said() -> None:
    steps = list(STEPS)
    steps[12] *= 50
    assert codes(profile(), profile(PLAIN.scene(steps))) == [CautionCode.SINGLE_STEPS]


def test_a_drift_is_said() -> None:
    drifting = [GEMM_NS + 50 * number for number in range(20)]
    assert CautionCode.DRIFT in codes(profile(), profile(PLAIN.scene(drifting)))


def test_alternating_and_random_steps_do_not_drift() -> None:
    rng = np.random.default_rng(2)
    for steps in ([GEMM_NS + 500 * (number % 2) for number in range(20)], rng.permutation(STEPS).tolist()):
        assert CautionCode.DRIFT not in codes(profile(), profile(PLAIN.scene(steps)))


def test_the_same_file_twice_is_said() -> None:
    same = profile()
    assert codes(same, same) == [CautionCode.SAME_FILES]


def test_each_code_has_a_sentence() -> None:
    assert set(CAUTION_SENTENCES) == set(CautionCode)
    assert caution_sentence(Caution(CautionCode.SAME_FILES))
