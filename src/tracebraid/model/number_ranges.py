"""Lists of numbers as people write them: `0,8-15`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tracebraid.errors import ArgumentError

__all__ = ["missing_from", "number_ranges", "numbers_text"]

_PART = re.compile(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?")
_SHOWN = 8
"""Numbers and ranges that a message names."""


def number_ranges(text: str, what: str = "numbers") -> tuple[range, ...]:
    """The ranges of a list of numbers and ranges with commas, such as `0,8-15`; a number is a range of its own.

    Args:
        text: the list.
        what: what is numbered, for an error.

    Raises:
        ArgumentError: it is no such list, or a range ends before it begins.

    Example::

        >>> number_ranges("0,8-15")
        (range(0, 1), range(8, 16))
    """
    found = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            shown = f"{part.strip()!r} is none" if part.strip() else "a part of it is empty"
            raise ArgumentError(
                f"{text!r} is no list of {what}: {shown}; give numbers and ranges, such as 0,8-15"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ArgumentError(
                f"{text!r}: {first}-{last} ends before it begins; write {last}-{first} for these {what}"
            )
        found.append(range(first, last + 1))
    return tuple(found)


def numbers_text(numbers: Iterable[int]) -> str:
    """The numbers in order, three or more in a row as a range, shortened where there are many: `0, 8-15, ...`."""
    rows = _rows(sorted(set(numbers)))
    return _text(rows) or "none"


def missing_from(asked: Sequence[range], known: Sequence[int]) -> str:
    """The numbers of ranges that are not known, as text; "" where all are. It costs no more for wide ranges."""
    missing: list[tuple[int, int]] = []
    rows = _rows(sorted(set(known)))
    for numbers in asked:
        start = numbers.start
        for first, last in rows:
            if last >= start and first < numbers.stop:
                if first > start:
                    missing.append((start, first - 1))
                start = last + 1
        if start < numbers.stop:
            missing.append((start, numbers.stop - 1))
    return _text(sorted(set(missing)))


def _rows(ordered: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of each row of consecutive numbers."""
    rows: list[tuple[int, int]] = []
    for number in ordered:
        if rows and rows[-1][1] == number - 1:
            rows[-1] = rows[-1][0], number
        else:
            rows.append((number, number))
    return rows


def _text(rows: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    for first, last in rows[: _SHOWN + 1]:
        if last - first < 2:
            parts += [str(number) for number in range(first, last + 1)]
        else:
            parts.append(f"{first}-{last}")
    return ", ".join(parts[:_SHOWN]) + (", ..." if len(parts) > _SHOWN else "")
