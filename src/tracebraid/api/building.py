"""The native recorder, built ahead of its first use."""

from __future__ import annotations

from pathlib import Path

__all__ = ["build_recorder"]


def build_recorder(anew: bool = True) -> Path:
    """Build the native recorder for this environment's torch, as its first use would: for container images.

    Args:
        anew: whether to build it although it is there, or could not be built before.

    Returns:
        The library, in `~/.cache/tracebraid`, or in the folder that `TRACEBRAID_CACHE` names.

    Raises:
        MissingLibraryError: torch is not installed.
        CaptureError: there is no compiler, or it has complaints.
        OutputError: the cache cannot be written.
    """
    from tracebraid.recorders.native import library

    return library.build(anew)
