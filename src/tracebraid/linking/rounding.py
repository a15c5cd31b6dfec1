"""How exact the times of a Kineto trace are."""

from __future__ import annotations

__all__ = ["TOLERANCE_NS"]

TOLERANCE_NS = 1000
"""How far a child may stick out of its parent: traces in µs round to it, those in ns overlap by less."""
