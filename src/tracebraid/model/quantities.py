"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["duration", "moment", "number", "percent", "quantity", "size"]


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
