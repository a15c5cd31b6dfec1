"""Are issues gathered to one finding for each kind, with its first places?"""

from __future__ import annotations

from pathlib import Path

from tests.builders import kineto_text, write
from tracebraid.importers.findings import findings_of
from tracebraid.importers.json_stream.chunks import ArrayFile, open_array
from tracebraid.importers.json_stream.source import open_source
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.issue import Issue

BROKEN, ODD = FindingCode.EVENT_UNREADABLE, FindingCode.EVENT_DURATION


def file_of(folder: Path) -> ArrayFile:
    return open_array(open_source(write(folder / "t.json", kineto_text([]))))


def test_a_sound_file_has_no_findings(tmp_path: Path) -> None:
    assert findings_of(file_of(tmp_path), []) == []


def test_issues_of_a_kind_are_one_finding_with_the_first_places(tmp_path: Path) -> None:
    issues = [Issue.of(BROKEN, byte, error=f"at {byte}") for byte in (5000, 10, 7, 12000, 9)]
    issues.append(Issue(ODD, 3))
    found = findings_of(file_of(tmp_path), issues)
    assert [(f.code, f.details, f.where, f.count) for f in found] == [
        (BROKEN, {"error": "at 7"}, "bytes 7, 9, 10, ...", 5),
        (ODD, {}, "byte 3", 1),
    ]
    assert str(found[0]) == f"{tmp_path / 't.json'}, bytes 7, 9, 10, ...: {found[0].message} (5 times)"


def test_damage_of_the_file_itself_comes_first(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    file.source.damage.append(Issue.of(FindingCode.COMPRESSION_DAMAGED, 77, compression="gzip"))
    file.problems.append(Issue(FindingCode.TRUNCATED, 1234))
    found = findings_of(file, [Issue(ODD, 3)])
    assert [finding.code for finding in found] == ["compression-damaged", "truncated", ODD]
    assert [finding.where for finding in found[:2]] == ["byte 77", "byte 1,234"]
