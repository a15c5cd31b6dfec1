"""Numbers as people read them: the same in reports as in notebooks."""

from __future__ import annotations

from tracebraid.model.quantities import duration, moment, number, percent, quantity, size

__all__ = ["duration", "moment", "number", "percent", "quantity", "size"]
