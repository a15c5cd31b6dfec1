"""The planted cases of the examination: each answer is right in all that is scored, or its fault is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.examination.planted.score import PLANTED, ask, scored, true_saving_us

pytestmark = pytest.mark.slow

KNOWN_FAILURES = {
    "served_by_custom_ops": "no formula: attention of serving libraries does not say how long the cached keys are",
}
"""Cases that are not yet answered rightly, and in what."""


def _cases() -> list[object]:
    return [
        pytest.param(
            name,
            id=name,
            marks=[pytest.mark.xfail(reason=KNOWN_FAILURES[name], strict=True)]
            if name in KNOWN_FAILURES
            else [],
        )
        for name in PLANTED
    ]


@pytest.mark.full(keep=16)
@pytest.mark.parametrize("name", _cases())
def test_answer_is_right(name: str, tmp_path: Path) -> None:
    case = PLANTED[name]
    outcome = scored(name, case, ask(case, tmp_path), true_saving_us(case, tmp_path))
    assert outcome.faults == {}, outcome.answer.verdict
