"""The names of what flame graphs are drawn from in `RunResults.views`."""

from __future__ import annotations

__all__ = ["FLAME_FRAMES_VIEW", "FLAME_NAMES_VIEW"]

FLAME_FRAMES_VIEW = "flame-frames"
"""`model.answers.FLAME_FRAMES`: of the ranks that are shown, merged, and as many as a page draws."""
FLAME_NAMES_VIEW = "flame-names"
"""`model.answers.FLAME_NAMES`: of all frames, those with the most self time of each tree."""
