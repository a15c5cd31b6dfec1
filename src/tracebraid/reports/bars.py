"""Bars and sparklines of text: they need no colour, and have a form in ASCII."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite

__all__ = ["FILLS", "ascii_form", "bar", "can_show", "sparkline", "stacked_bar"]

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
FILLS = "█▓▒░"
"""Of the parts of a stacked bar, in their order; they differ without colour."""
_ASCII = str.maketrans(
    {
        **dict(zip("▏▎▍▌▋▊▉█", " ..=====#"[1:], strict=True)),
        **dict(zip("▁▂▃▄▅▆▇", "__.--=+", strict=True)),
        **dict(zip("▓▒░", "+-.", strict=True)),
        "µ": "u",
    }
)


def bar(share: float | None, width: int) -> str:
    """A bar as long as a share of the width, to an eighth of a character; what is more than nothing is seen.

    Args:
        share: 0 to 1; what is beyond is cut off; None: unknown.
        width: characters of a share of 1.
    """
    if share is None or not isfinite(share) or share <= 0:
        return ""
    eighths = max(1, round(min(share, 1.0) * width * 8))
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def stacked_bar(parts: Sequence[float], width: int) -> str:
    """A bar of several parts, in the order of `FILLS`, that takes the whole width; rounded to whole characters.

    Args:
        parts: sizes, not negative; no more than `FILLS` has.
        width: characters of all parts together.
    """
    total = sum(parts)
    if total <= 0:
        return ""
    ends, reached = [], 0.0
    for part in parts:
        reached += part
        ends.append(round(reached / total * width))
    starts = [0, *ends[:-1]]
    fills = FILLS[: len(ends)]
    return "".join(fill * (end - start) for fill, start, end in zip(fills, starts, ends, strict=True))


def sparkline(values: Sequence[float], width: int) -> str:
    """A mark for each value, as high as it is beside the largest, from 0.

    Args:
        values: not negative; of more values than fit a mark stands for the largest of several.
        width: marks at most.
    """
    if not values or width < 1:
        return ""
    each = ceil(len(values) / width)
    tops = [max(values[start : start + each]) for start in range(0, len(values), each)]
    most = max(tops)
    if most <= 0:
        return _LEVELS[0] * len(tops)
    return "".join(_LEVELS[min(7, max(0, ceil(top / most * 8) - 1))] for top in tops)


def can_show(encoding: str | None) -> bool:
    """Whether text of an encoding can hold the characters of bars; None: it is not encoded."""
    try:
        (_EIGHTHS + _LEVELS + FILLS).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def ascii_form(text: str) -> str:
    """The text with the characters of bars, and the micro sign of units, in ASCII."""
    return text.translate(_ASCII)
