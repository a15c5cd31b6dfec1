"""The fuzzer's judge of losses refuses too few and too many, and counts what damage repeats or puts into itself."""

from __future__ import annotations

import pytest
import zstandard

from tools.fuzz.losses import judge_losses
from tools.fuzz.model import FailureError, FailureKind
from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCode

EVENT = '{"ph":"X","name":"a","ts":1}'
WHOLE = f'{{"traceEvents":[{EVENT},{EVENT},{EVENT}]}}'
CUT = WHOLE[:-20]
FRAGMENTS = '{"bp":"e"},' * 9
NODE = '{"id":1,"name":"a"}'

SOUND: dict[str, tuple[str, int, Loss | None]] = {
    "nothing is lost": (WHOLE, 3, None),
    "one is lost, and said": (WHOLE, 2, Loss(1, 1)),
    "one is lost, and nobody knows how many": (WHOLE, 2, Loss()),
    "the end is cut off": (CUT, 2, Loss(0, None)),
    "fragments of an event are said": (
        f'{{"traceEvents":[{EVENT},{EVENT},{FRAGMENTS}{EVENT}',
        3,
        Loss(6, None),
    ),
    "the array stands in itself, too": (f'{{"nodes":[{NODE},{NODE},[{NODE},{NODE}]]}}', 3, Loss(1, 1)),
}
REFUSED: dict[str, tuple[str, int, Loss | None]] = {
    "one is lost, and nothing is said": (WHOLE, 2, None),
    "two are lost, and one is said": (WHOLE, 1, Loss(1, 1)),
    "none is lost, and one is said": (WHOLE, 3, Loss(1, 1)),
    "of a cut file one is lost, and nothing is said": (CUT, 2, None),
    "of a cut file more are said than there are": (CUT, 2, Loss(7, None)),
    "of a nested array more are said than there are": (f'{{"nodes":[{NODE},[{NODE}]]}}', 2, Loss(1, 1)),
}


def judged(case: tuple[str, int, Loss | None]) -> None:
    text, read, loss = case
    judge_losses("t.n3.json", text.encode(), read, [Finding(FindingCode.TEXT_BETWEEN, loss=loss)])


@pytest.mark.parametrize("name", SOUND)
def test_what_is_said_rightly_is_sound(name: str) -> None:
    judged(SOUND[name])


@pytest.mark.parametrize("name", REFUSED)
def test_too_little_and_too_much_are_refused(name: str) -> None:
    with pytest.raises(FailureError) as caught:
        judged(REFUSED[name])
    assert caught.value.kind is FailureKind.SILENT_LOSS


def test_all_frames_of_a_file_count() -> None:
    frame = zstandard.ZstdCompressor().compress
    path, data = "t.n3.json.zst", frame(WHOLE[:40].encode()) + frame(WHOLE[40:].encode())
    judge_losses(path, data, 3, [])
    with pytest.raises(FailureError):
        judge_losses(path, data, 2, [])
