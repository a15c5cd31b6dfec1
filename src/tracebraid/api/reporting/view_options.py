"""What the views of a report show."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ViewOptions"]


@dataclass(frozen=True)
class ViewOptions:
    """What a view of a rank shows.

    Args:
        steps: names of the steps; empty: no step is marked, and the whole trace counts.
        annotation: what marks a step.
        ranks: how many ranks are shown, among which the rows of the page are shared.
    """

    steps: tuple[str, ...]
    annotation: str
    ranks: int
