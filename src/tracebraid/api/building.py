"""The native recorder, built ahead of its first use."""

from __future__ import annotations

from pathlib import Path


def build_recorder(anew: bool = True) -> Path:
    """Build the native recorder for the installed torch ahead of its first use, for example in a container image.

    One of the package `tracebraid-recorder` that fits is taken, else it is compiled.

    Args:
        anew: whether to build it even if it exists, or failed to build before.

    Returns:
        The library, in `~/.cache/tracebraid`, or in the folder that `TRACEBRAID_CACHE` names.

    Raises:
        MissingLibraryError: torch is not installed.
        CaptureError: none is ready for this torch, and there is no compiler, or it reports an error.
        OutputError: the cache cannot be written.
    """
    from tracebraid.recorders.native import library

    return library.build(anew)


def was_ready(path: Path) -> bool:
    """Whether the library that was built is that of the package `tracebraid-recorder`."""
    from tracebraid.recorders.native import library

    ready = library.ready_library()
    return ready is not None and ready.read_bytes() == path.read_bytes()
