"""What do installed packages offer under an entry point's group?

Entry points are what installed distributions declare: whoever can install a package into the environment can run code
in it anyway. They are imported only when they are asked for. Nothing is ever imported from the folder of traces or
from the working folder on account of its files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points

__all__ = ["DETECTORS", "METRICS", "Offered", "offered"]

DETECTORS = "tracebraid.detectors"
"""Each entry names a `Detector`, a `JobDetector`, or a function of a linked trace and the annotation of steps."""
METRICS = "tracebraid.metrics"
"""Each entry names a `Metric`."""


@dataclass(frozen=True)
class Offered:
    """What an entry point names.

    Args:
        name: of the entry point.
        package: the distribution that declares it; empty: unknown.
        target: module and attribute.
        found: what was imported; None where that failed.
        error: how importing it failed; None where it did not.
    """

    name: str
    package: str
    target: str
    found: object = None
    error: BaseException | None = None


def offered(group: str) -> Iterator[Offered]:
    """What installed packages offer in a group, each imported when it is its time, in the order of names and targets.

    Args:
        group: `DETECTORS` or `METRICS`.
    """
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        package = entry.dist.name if entry.dist is not None else ""
        try:
            found = entry.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - Importing another package can raise anything.
            yield Offered(entry.name, package, entry.value, error=error)
        else:
            yield Offered(entry.name, package, entry.value, found=found)
