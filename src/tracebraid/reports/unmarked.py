"""Notes for traces in which no step is marked."""

from __future__ import annotations

from tracebraid.model.printable import printable


def unmarked_lines(annotation: str | None) -> list[str]:
    """State that no step is marked."""
    if annotation is None:
        return []
    return [f"No annotation {printable(annotation)} marks a step: the whole trace counts as one step."]
