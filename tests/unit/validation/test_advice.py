"""Has every finding its weight and its advice?"""

from __future__ import annotations

import pytest

from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.validation.advice import ADVICE, diagnose


@pytest.mark.parametrize("code", FindingCode)
def test_every_code_has_its_advice(code: FindingCode) -> None:
    assert code in ADVICE


def test_advice_is_for_codes_only() -> None:
    assert [code for code in ADVICE if not isinstance(code, FindingCode)] == []


def test_advice_is_one_line_that_ends_without_a_full_stop() -> None:
    odd = [code for code, (_, text) in ADVICE.items() if not text or "\n" in text or text.endswith(".")]
    assert odd == []


def test_errors_come_first_and_then_warnings_each_in_its_order() -> None:
    found = [
        Finding(FindingCode(code))
        for code in ("no-steps", "parents-differ", "no-overlap", "base-time", "no-et")
    ]
    assert [one.finding.code for one in diagnose(found)] == [
        "no-overlap",
        "no-et",
        "parents-differ",
        "base-time",
        "no-steps",
    ]


def test_nothing_found_is_nothing_diagnosed() -> None:
    assert diagnose([]) == ()
