"""The golden files: in each a section for each command line, in the order of the table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["EXPECTED", "first_forms", "sections_of", "text_of"]

EXPECTED = Path(__file__).parent / "expected"
_SECTION = "## "
_DIGEST = re.compile(r"([a-z0-9]+(?:,[a-z0-9]+)*): (.*\b[0-9a-f]{10}\b.*)")
"""The forms that print the same, and what they print."""


def sections_of(text: str) -> Mapping[str, list[str]]:
    """The lines of each section of a golden file."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(_SECTION):
            lines = sections.setdefault(line.removeprefix(_SECTION), [])
        else:
            lines.append(line)
    return sections


def text_of(sections: Iterable[tuple[str, list[str]]]) -> str:
    """A golden file."""
    return "".join(f"{line}\n" for name, lines in sections for line in (f"{_SECTION}{name}".rstrip(), *lines))


def first_forms(lines: Iterable[str]) -> list[str]:
    """The lines of a golden file that the first form of each command line gives: the gate runs no other."""
    kept: list[str] = []
    forms: list[str] = []
    for line in lines:
        if line.startswith(_SECTION):
            forms = []
        elif found := _DIGEST.match(line):
            is_first = not forms
            forms += found[1].split(",")
            if not is_first:
                continue
            line = f"{forms[0]}: {found[2]}"
        elif line.partition(" ")[0] in forms[1:]:
            continue
        kept.append(line)
    return kept
