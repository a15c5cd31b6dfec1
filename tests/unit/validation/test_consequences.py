"""One fault is one finding."""

from __future__ import annotations

import pytest

from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.validation.consequences import without_consequences

CUT = [
    Finding(FindingCode.COMPRESSION_DAMAGED, "d/kineto_0", "byte 9"),
    Finding(FindingCode.TRUNCATED, "d/kineto_0", "byte 9"),
    Finding(FindingCode.EVENT_UNREADABLE, "d/kineto_0", "byte 8"),
    Finding(FindingCode.MANIFEST_UNTRUE, "d/manifest_0", "kineto_0"),
    Finding(FindingCode.STEPS_DIFFER, "d"),
]


def codes(findings: list[Finding]) -> list[str]:
    return [one.code for one in without_consequences(findings)]


def test_a_file_that_is_cut_off_is_one_fault() -> None:
    assert codes(CUT) == ["compression-damaged"]
    assert codes(CUT[1:]) == ["truncated"]


@pytest.mark.parametrize("finding", CUT[1:], ids=lambda one: one.code)
def test_each_of_them_on_its_own_is_a_fault(finding: Finding) -> None:
    assert without_consequences([finding]) == [finding]


def test_what_is_wrong_elsewhere_or_more_than_once_is_another_fault() -> None:
    others = [
        Finding(FindingCode.TRUNCATED, "d/kineto_1", "byte 9"),
        Finding(FindingCode.MANIFEST_UNTRUE, "d/manifest_0", "torch_et_0"),
        Finding(FindingCode.STEPS_DIFFER, "e"),
        Finding(FindingCode.EVENT_UNREADABLE, "d/kineto_0", "bytes 3, 8", 2),
        Finding(FindingCode.PARENT_MISSING, "d/kineto_0"),
    ]
    assert without_consequences([CUT[0], *others]) == [CUT[0], *others]


def test_the_same_finding_is_there_once() -> None:
    assert without_consequences([CUT[0], CUT[1], CUT[0]]) == [CUT[0]]


def test_a_window_that_is_lost_says_that_nothing_was_recorded() -> None:
    lost = Finding(FindingCode.WINDOW_LOST, "d/manifest_0")
    assert codes([Finding(FindingCode.NOTHING_RECORDED, "d/manifest_0"), lost]) == ["window-lost"]
