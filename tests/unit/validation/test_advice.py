"""Has every finding its weight and its advice, and is no advice for what nothing finds?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tracebraid
from tracebraid.model.check import Severity
from tracebraid.model.finding import Finding
from tracebraid.validation.advice import ADVICE, diagnose

PACKAGE = Path(tracebraid.__file__).parent
MAKERS = {"Finding", "Issue", "_finding", "report", "_report"}
CODE = re.compile(r"[a-z]+(-[a-z]+)*")

NOT_CHECKED = {
    "name-escaped": "said by a capture, in its manifest and beside its files",
    "no-et-plus": "said by `tracebraid link -o`, which writes files; a check writes none",
}
"""Codes that no check can come across."""

NAMED_ELSEWHERE = {"node-mended": "event-mended"}
"""Codes that the reader of nodes makes of those for events."""


def codes_of(module: Path) -> Iterator[str]:
    """The codes that a module writes down: the first word of a call that makes a finding, or of a problem's tuple."""
    for item in ast.walk(ast.parse(module.read_text())):
        first = None
        if isinstance(item, ast.Call) and item.args:
            name = item.func.id if isinstance(item.func, ast.Name) else getattr(item.func, "attr", "")
            first = item.args[0] if name in MAKERS else None
        elif isinstance(item, ast.Tuple) and len(item.elts) == 3 and module.name == "chunks.py":
            first = item.elts[0]
        for one in (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,):
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and CODE.fullmatch(one.value):
                yield one.value


def all_codes() -> set[str]:
    return {code for module in PACKAGE.rglob("*.py") for code in codes_of(module)}


def test_the_search_for_codes_finds_those_of_every_room() -> None:
    some = {
        "gzip-damaged",
        "truncated",
        "header-unreadable",
        "event-duration",
        "duplicate-id",
        "parents-differ",
    }
    assert some | {"no-et", "rank-missing", "manifest-untrue", "name-escaped"} <= all_codes()


def test_every_finding_has_its_advice() -> None:
    assert sorted(all_codes() - set(ADVICE) - set(NOT_CHECKED)) == []


def test_no_advice_is_for_what_nothing_finds() -> None:
    assert sorted(set(ADVICE) - all_codes() - set(NAMED_ELSEWHERE)) == []


def test_the_lists_of_exceptions_hold_nothing_that_is_gone() -> None:
    assert set(NOT_CHECKED) | set(NAMED_ELSEWHERE.values()) <= all_codes()
    assert not set(NOT_CHECKED) & set(ADVICE)


def test_advice_is_one_line_that_ends_without_a_full_stop() -> None:
    odd = [code for code, (_, text) in ADVICE.items() if not text or "\n" in text or text.endswith(".")]
    assert odd == []


def test_errors_come_first_and_then_warnings_each_in_its_order() -> None:
    found = [
        Finding(code, code) for code in ("no-steps", "parents-differ", "no-overlap", "base-time", "no-et")
    ]
    assert [one.finding.code for one in diagnose(found)] == [
        "no-overlap",
        "no-et",
        "parents-differ",
        "base-time",
        "no-steps",
    ]


def test_a_finding_of_no_known_code_is_a_warning_and_not_lost() -> None:
    (one,) = diagnose([Finding("never-heard-of", "text", "file", "byte 7")])
    assert one.severity is Severity.WARNING
    assert one.advice
    assert str(one.finding) == "file, byte 7: text"


def test_nothing_found_is_nothing_diagnosed() -> None:
    assert diagnose([]) == ()
