"""The kinds of input, a module each that holds a `FORMAT`."""

from __future__ import annotations

from importlib import import_module

from tools.fuzz.model import Format

__all__ = ["FORMATS", "format_of"]

FORMATS = ("capture_folder", "et_json", "et_plus", "job", "kineto_json")
"""The names of the modules of this package."""


def format_of(name: str) -> Format:
    """The format of a name; one with a dot is that of a module elsewhere."""
    found: Format = import_module(name if "." in name else f"{__name__}.{name}").FORMAT
    return found
