"""The unit of a column, which its name ends in."""

from __future__ import annotations

__all__ = ["unit_of"]

_UNITS = (
    ("flops_per_s", "FLOP/s"),
    ("bytes_per_s", "bytes/s"),
    ("bytes_per_step", "bytes/step"),
    ("byte_seconds", "bytes s"),
    ("flops_per_byte", "FLOP/byte"),
    ("ns_per_byte", "ns/byte"),
    ("ns_per_token", "ns/token"),
    ("tokens_per_second", "tokens/s"),
    ("per_step", "1/step"),
    ("_ppm", "ppm"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("bytes", "bytes"),
    ("flops", "FLOP"),
    ("share", "1"),
    ("share_of_count", "1"),
)
"""Longer ends first."""


def unit_of(name: str) -> str:
    """The unit of a column by its name: `ns` of `dur_ns`; `1` for a share of 1; empty: it has none."""
    return next((unit for end, unit in _UNITS if name.endswith(end)), "")
