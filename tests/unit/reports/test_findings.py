"""Findings that say the same of several files are one line."""

from __future__ import annotations

from dataclasses import replace

from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.reports.findings import alike, line_of_alike

CUT = Finding.of(FindingCode.TRUNCATED, "a.json", "byte 7")


def of_files(count: int) -> list[Finding]:
    return [replace(CUT, path=f"{number}.json", where=f"byte {number}") for number in range(count)]


def test_the_same_in_128_files_is_one_line_that_names_the_first() -> None:
    groups = alike(of_files(128))
    assert [len(same) for same in groups] == [128]
    line = line_of_alike(groups[0])
    assert "128" in line
    assert "0.json, byte 0" in line
    assert "1.json" not in line
    assert "\n" not in line


def test_what_differs_and_what_is_of_no_file_stays_apart() -> None:
    other = Finding.of(FindingCode.COMPRESSION_DAMAGED, "b.json", compression="gzip")
    nowhere = Finding.of(FindingCode.TRUNCATED)
    given = [CUT, other, nowhere, nowhere]
    groups = alike(given)
    assert groups == [[finding] for finding in given]
    assert [line_of_alike(same) for same in groups] == [str(finding) for finding in given]


def test_two_of_one_file_stay_apart() -> None:
    second = replace(CUT, where="byte 9")
    assert alike([CUT, second]) == [[CUT], [second]]


def test_losses_and_counts_of_all_files_are_added() -> None:
    lost = [replace(finding, count=2, loss=Loss(5, 5, 100)) for finding in of_files(3)]
    whole = line_of_alike(lost)
    assert str(Loss(15, 15, 300)) in whole
    assert "6 times" in whole
