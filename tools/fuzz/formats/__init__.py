"""The kinds of input, a module each that holds a `FORMAT`."""

from __future__ import annotations

from importlib import import_module

from tools.fuzz.model import Format

__all__ = ["FORMATS", "SLOW", "format_of"]

FORMATS = ("arguments", "capture_folder", "et_json", "et_plus", "job", "job_answers", "kineto_json")
"""The names of the modules of this package."""

SLOW = ("arguments", "job_answers")
"""Those whose mutants take up to a second each: the test suite leaves them to `make fuzz`."""


def format_of(name: str) -> Format:
    """The format of a name; one with a dot is that of a module elsewhere."""
    found: Format = import_module(name if "." in name else f"{__name__}.{name}").FORMAT
    return found
