"""`torch`, or an error that says how to install it."""

from __future__ import annotations

from tracebraid.errors import MissingLibraryError

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingLibraryError(
        "capturing needs torch, which is not installed here. Install it with: pip install 'tracebraid[capture]'"
    ) from None

__all__ = ["torch"]
