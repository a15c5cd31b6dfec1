"""The native recorder, built ahead of its first use."""

from __future__ import annotations

from pathlib import Path


def build_recorder(anew: bool = True) -> Path:
    """Build the native recorder for the installed torch ahead of its first use, for example in a container image.

    Args:
        again: whether to build it even if it exists, or failed to build before.

    Returns:
        The library, in `~/.cache/tracebraid`, or in the folder that `TRACEBRAID_CACHE` names.

    Raises:
        MissingLibraryError: torch is not installed.
        CaptureError: there is no compiler, or it reports an error.
        OutputError: the cache cannot be written.
    """
    from tracebraid.recorders.native import library

    return library.build(anew)
