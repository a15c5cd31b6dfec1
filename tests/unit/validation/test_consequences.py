"""One fault is one finding."""

from __future__ import annotations

import pytest

from tracebraid.model.finding import Finding
from tracebraid.validation.consequences import without_consequences

CUT = [
    Finding("gzip-damaged", "cut", "d/kineto_0", "byte 9"),
    Finding("truncated", "ends early", "d/kineto_0", "byte 9"),
    Finding("event-unreadable", "no JSON", "d/kineto_0", "byte 8"),
    Finding("manifest-untrue", "other size", "d/manifest_0", "kineto_0"),
    Finding("steps-differ", "other steps", "d"),
]


def codes(findings: list[Finding]) -> list[str]:
    return [one.code for one in without_consequences(findings)]


def test_a_file_that_is_cut_off_is_one_fault() -> None:
    assert codes(CUT) == ["gzip-damaged"]
    assert codes(CUT[1:]) == ["truncated"]


@pytest.mark.parametrize("finding", CUT[1:], ids=lambda one: one.code)
def test_each_of_them_on_its_own_is_a_fault(finding: Finding) -> None:
    assert without_consequences([finding]) == [finding]


def test_what_is_wrong_elsewhere_or_more_than_once_is_another_fault() -> None:
    others = [
        Finding("truncated", "ends early", "d/kineto_1", "byte 9"),
        Finding("manifest-untrue", "other size", "d/manifest_0", "torch_et_0"),
        Finding("steps-differ", "other steps", "e"),
        Finding("event-unreadable", "no JSON", "d/kineto_0", "bytes 3, 8", 2),
        Finding("parent-missing", "none", "d/kineto_0"),
    ]
    assert without_consequences([CUT[0], *others]) == [CUT[0], *others]


def test_the_same_finding_is_there_once() -> None:
    assert without_consequences([CUT[0], CUT[1], CUT[0]]) == [CUT[0]]


def test_a_window_that_is_lost_says_that_nothing_was_recorded() -> None:
    lost = Finding("window-lost", "disk", "d/manifest_0")
    assert codes([Finding("nothing-recorded", "in 9 steps", "d/manifest_0"), lost]) == ["window-lost"]
