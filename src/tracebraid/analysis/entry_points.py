"""Load what installed packages offer under an entry point's group.

Entry points are declared by installed distributions: whoever can install a package into the environment can run code
in it anyway. They are imported only on demand. Nothing is ever imported from the folder of traces or
from the working folder on account of its files.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points

from msgspec import Struct

DETECTORS = "tracebraid.detectors"
"""Each entry names a `Detector`, a `JobDetector`, or a function of a linked trace and the annotation of steps."""
METRICS = "tracebraid.metrics"
"""Each entry names a `Metric`."""


class Offered(Struct, frozen=True):
    """Load the object of an entry point.

    Args:
        name: of the entry point.
        package: the distribution that declares it; empty: unknown.
        target: module and attribute.
        found: what was imported; None if that failed.
        error: how importing it failed; None if it did not.
    """

    name: str
    package: str
    target: str
    found: object = None
    error: BaseException | None = None


def offered(group: str) -> Iterator[Offered]:
    """Yield the objects that installed packages offer in a group, imported in turn.

    In the order of names and targets.
    """
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        package = entry.dist.name if entry.dist is not None else ""
        try:
            found = entry.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Importing another package can raise anything.
            yield Offered(entry.name, package, entry.value, error=error)
        else:
            yield Offered(entry.name, package, entry.value, found=found)
