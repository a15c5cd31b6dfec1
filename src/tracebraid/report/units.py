"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["duration", "percent", "size"]


def duration(ns: float | None) -> str:
    """Nanoseconds in the unit that leaves one to three digits before the point."""
    if ns is None:
        return ""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= factor:
            return f"{ns / factor:,.3f} {unit}"
    return f"{ns:,.0f} ns"


def percent(share: float) -> str:
    """A share as percent, to the nearest tenth; 100 % means all, and 0 % none."""
    tenths = round(share * 1000)
    tenths = min(tenths, 999) if share < 1 else tenths
    tenths = max(tenths, 1) if share > 0 else tenths
    return f"{tenths // 10}.{tenths % 10} %"


def size(size_bytes: int) -> str:
    """Bytes in B, KB, MB or GB (powers of ten)."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes} B"
