"""Units of times and sizes as people write them, and the numbers that stand before them."""

from __future__ import annotations

import re

from tracebraid.errors import ArgumentError

TIME_UNITS_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
"""Units of time in ns."""

BYTE_UNITS = {
    "": 1.0,
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
}
"""Units of sizes in bytes; a number without a unit is bytes."""

BANDWIDTH_UNITS = {
    **{f"{unit}/s": size for unit, size in BYTE_UNITS.items() if unit},
    "TB/s": 1e12,
    "TiB/s": 2.0**40,
    "Gb/s": 1e9 / 8,
    "Gbit/s": 1e9 / 8,
}
"""Units of bandwidth in bytes/s."""

NUMBER_AND_UNIT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-zµ%/]*)")
"""A number that is not negative, and its unit."""

_MOST = 2.0**62
"""ns or bytes: far below what 64 bits hold, so that a few of them can be summed."""


def ns_of_text(text: str) -> int:
    """A time in ns from a text such as `100us`."""
    return _amount(text, TIME_UNITS_NS, "a time, such as 100us")


def bytes_of_text(text: str) -> int:
    """A size in bytes from a text such as `25MiB` or `4096`."""
    return _amount(text, BYTE_UNITS, "a size, such as 1MiB")


def _amount(text: str, units: dict[str, float], what: str) -> int:
    match = NUMBER_AND_UNIT.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise ArgumentError(f"{text!r} is not {what}; the units are {', '.join(filter(None, units))}")
    amount = float(match[1]) * units[match[2]]
    if amount > _MOST:
        raise ArgumentError(f"{text} is out of range: give less")
    return round(amount)
