"""The golden files: in each a section for each command line, in the order of the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["EXPECTED", "sections_of", "text_of"]

EXPECTED = Path(__file__).parent / "expected"
_SECTION = "## "


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
