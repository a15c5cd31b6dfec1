"""Ray, which is an extra: the only module of the driver that imports it."""

from __future__ import annotations

from typing import Any

from tracebraid.errors import MissingLibraryError

__all__ = ["ray_library"]


def ray_library() -> Any:
    """The module `ray`, with its exceptions.

    Raises:
        MissingLibraryError: it is not installed.
    """
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise MissingLibraryError(
            "the engine ray needs Ray, which is not installed here. Install it with: pip install 'tracebraid[ray]'"
        ) from error
    return ray
