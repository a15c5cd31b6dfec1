"""Numbers as people read them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence

from tracebraid.errors import ArgumentError


def duration(ns: float) -> str:
    """Nanoseconds with four digits, in the unit that leaves one to three of them before the point."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        value = abs(ns) / factor
        if value >= 0.99995:
            decimals = 3 if value < 9.9995 else 2 if value < 99.995 else 1
            return f"{ns / factor:,.{decimals}f} {unit}"
    return f"{ns:,.0f} ns"


def moment(ns: int) -> str:
    """A moment in ms to the microsecond, from the start of something; all digits, so that moments can be compared."""
    return f"{ns / 1e6:+,.3f} ms"


def number(value: float) -> str:
    """A number without a unit, with three digits at least and no exponent up to 15 digits."""
    if abs(value) >= 1e15:
        return f"{value:.3g}"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"


def percent(share: float) -> str:
    """A share as percent, to the nearest tenth; 100 % means all, and 0 % none; what rounds to 0 is `<0.1 %`."""
    tenths = round(abs(share) * 1000)
    tenths = min(tenths, 999) if abs(share) < 1 else tenths
    if share > 0 and not tenths:
        return "<0.1 %"
    sign = "-" if share < 0 and tenths else ""
    return f"{sign}{tenths // 10:,}.{tenths % 10} %"


def size(size_bytes: float) -> str:
    """Bytes in B, KB, MB, GB or TB (powers of ten)."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if abs(size_bytes) >= factor:
            return f"{size_bytes / factor:,.1f} {unit}"
    return f"{size_bytes:.0f} B"


def quantity(value: float) -> str:
    """A number with three digits and the prefix of its unit (powers of ten): `1.25 G`, `12.5 T`."""
    for prefix, factor in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}" if abs(value) < 1e18 else f"{value / factor:.3e} {prefix}"
    return f"{value:.3g} "


NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


_PART = re.compile(r"\s*(\d{1,18})\s*(?:(-)\s*(\d{1,18})?\s*)?")
OPEN_END = sys.maxsize
"""End of an open range: above all numbers that can be written."""
_SHOWN = 8
"""Maximum numbers and ranges in a message."""


def ranges(values: Iterable[int]) -> str:
    """Format a list of numbers as ranges: `0-3, 7`."""
    runs: list[tuple[int, int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], value)
        else:
            runs.append((value, value))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs) or "none"


def number_ranges(text: str, what: str = "numbers") -> tuple[range, ...]:
    """The ranges of a list of numbers and ranges with commas, such as `0,8-15,32-`.

    A number is a range of its own; `32-` goes from 32 on.

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
                f"{text!r} is no list of {what}: {shown}; give numbers and ranges, such as 0,8-15,32-"
            )
        first = int(match[1])
        last = int(match[3]) if match[3] else OPEN_END - 1 if match[2] else first
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
    """The numbers of ranges that are not known, as text; "" where all are. It costs no more for wide ranges.

    Of a range without an end one known number is enough.
    """
    missing: list[tuple[int, int]] = []
    rows = _rows(sorted(set(known)))
    for numbers in asked:
        if numbers.stop == OPEN_END and rows and rows[-1][1] >= numbers.start:
            continue
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
            parts.append(f"{first}-" if last == OPEN_END - 1 else f"{first}-{last}")
    return ", ".join(parts[:_SHOWN]) + (", ..." if len(parts) > _SHOWN else "")
