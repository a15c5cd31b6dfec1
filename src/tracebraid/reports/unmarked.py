"""What people are told where no step is marked."""

from __future__ import annotations

from tracebraid.reports.text import printable

__all__ = ["unmarked_lines"]


def unmarked_lines(annotation: str | None) -> list[str]:
    """That no step is marked.

    Args:
        annotation: what should mark steps; None: there are steps, and nothing to say.
    """
    if annotation is None:
        return []
    return [f"No annotation {printable(annotation)} marks a step: the whole trace counts as a single one."]
