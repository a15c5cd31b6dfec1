"""The kinds of input, a module each that holds a `FORMAT`."""

from __future__ import annotations

from importlib import import_module

from tools.fuzz.model import Format

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
    "same_meaning",
    "store",
)
"""The names of the modules of this package."""

SLOW = ("arguments", "arrow_zip", "capture_folder", "job", "job_answers", "same_meaning", "store")
"""Those of which a mutant takes 150 ms to a second: they open jobs, or each recording is tried in another process."""
QUICK = tuple(name for name in FORMATS if name not in SLOW)


def format_of(name: str) -> Format:
    """The format of a name; one with a dot is that of a module elsewhere."""
    found: Format = import_module(name if "." in name else f"{__name__}.{name}").FORMAT
    return found
