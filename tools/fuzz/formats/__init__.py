"""The kinds of input, a module each that holds a `FORMAT`."""

from __future__ import annotations

from importlib import import_module

from tools.fuzz.model import Format

__all__ = ["FORMATS", "QUICK", "TURNS", "format_of"]

FORMATS = (
    "archives",
    "arguments",
    "arrow_zip",
    "capture_folder",
    "chakra_et",
    "et_json",
    "et_plus",
    "job",
    "job_answers",
    "kineto_json",
    "nsys_sqlite",
    "store",
)
"""The names of the modules of this package."""

_SLOW = ("arguments", "arrow_zip", "job_answers")
"""Those of which a mutant takes 200 ms to a second: each recording is tried in a process of its own."""
QUICK = tuple(name for name in FORMATS if name not in _SLOW)
"""Those that the test suite tries."""
TURNS = (*QUICK * 10, *_SLOW)
"""In which turns a run over all formats tries them, so that slow ones take about half of its time."""


def format_of(name: str) -> Format:
    """The format of a name; one with a dot is that of a module elsewhere."""
    found: Format = import_module(name if "." in name else f"{__name__}.{name}").FORMAT
    return found
