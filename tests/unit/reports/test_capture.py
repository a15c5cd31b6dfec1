"""What is said at the end of a captured command has an answer for everything."""

from __future__ import annotations

import pytest

from tracebraid.model.capture_outcome import CaptureOutcome, NothingCaptured, Recorded
from tracebraid.reports.capture import nothing_text, recorded_text


@pytest.mark.parametrize("cause", NothingCaptured, ids=lambda cause: cause.value)
def test_every_cause_has_its_words_with_the_detail_in_them_and_an_advice(cause: NothingCaptured) -> None:
    what, advice = nothing_text(CaptureOutcome(0, "traces", cause, "the-detail"))
    bare, _ = nothing_text(CaptureOutcome(0, "traces", cause))
    assert "{" not in what + advice
    assert ("the-detail" in what) == (what != bare)
    assert advice
    assert not advice.endswith(".")


def test_causes_that_come_with_a_detail_say_it() -> None:
    for cause in (
        NothingCaptured.NOT_INSTALLED,
        NothingCaptured.PYTHON_OPTIONS,
        NothingCaptured.PATH_REPLACED,
        NothingCaptured.TOO_FEW_STEPS,
        NothingCaptured.KILLED,
        NothingCaptured.WINDOW_LOST,
        NothingCaptured.REFUSED,
    ):
        assert "the-detail" in nothing_text(CaptureOutcome(0, "traces", cause, "the-detail"))[0]


def test_no_two_causes_have_the_same_words() -> None:
    said = {nothing_text(CaptureOutcome(0, "traces", cause, cause.value))[0] for cause in NothingCaptured}
    assert len(said) == len(NothingCaptured)


def test_what_was_recorded_is_one_line_of_steps_loop_and_cost() -> None:
    first = Recorded(0, (7, 8, 9, 15), 20, "optimizer", "SGD", 1.94)
    line = recorded_text([first, Recorded(1, (7, 8), 20, "optimizer", "SGD", None)], None)
    assert "\n" not in line
    for words in ("2 ranks", "7 to 9, 15", "20", "optimizer", "SGD", "1.9"):
        assert words in line


def test_a_loop_that_was_too_short_is_told_where_another_was_recorded() -> None:
    loops = (
        {"counted_by": "optimizer", "name": "Adam", "training": True, "steps": 4, "followed": True},
        {"counted_by": "module", "name": "Net", "training": False, "steps": 30, "followed": False},
    )
    assert "Adam" in recorded_text([Recorded(0, (7,), 30, "module", "Net", None, (), loops)], None)
    assert "Adam" not in recorded_text([Recorded(0, (7,), 30, "optimizer", "SGD", None, (), loops)], None)
