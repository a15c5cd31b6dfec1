"""How many nanoseconds the units of time have that files and reports use."""

from __future__ import annotations

__all__ = ["NS_PER_MS", "NS_PER_S", "NS_PER_US"]

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
