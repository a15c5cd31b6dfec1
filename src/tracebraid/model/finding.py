"""What a reader or a linker noticed and wants said: a located warning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracebraid.model.finding_code import FindingCode
from tracebraid.model.sentences import finding_sentence

__all__ = ["Finding", "Loss"]


@dataclass(frozen=True)
class Loss:
    """What of a file is lost.

    Args:
        at_least: events or nodes that are known to be lost.
        at_most: how many can be lost; None where the text does not tell, as behind the end of a cut file.
        skipped_bytes: bytes of the unpacked file that were left out.
    """

    at_least: int = 0
    at_most: int | None = None
    skipped_bytes: int = 0

    def __add__(self, other: Loss) -> Loss:
        """Both losses."""
        at_most = None if self.at_most is None or other.at_most is None else self.at_most + other.at_most
        return Loss(self.at_least + other.at_least, at_most, self.skipped_bytes + other.skipped_bytes)

    def __str__(self) -> str:
        """A few words for people."""
        if self.at_least == self.at_most:
            count = f"{self.at_least:,}"
        elif self.at_most is not None:
            count = f"{self.at_least:,} to {self.at_most:,}"
        else:
            count = f"at least {self.at_least:,}" if self.at_least else "unknown"
        return f"lost: {count}" + (f", {self.skipped_bytes:,} bytes skipped" if self.skipped_bytes else "")


@dataclass(frozen=True)
class Finding:
    """Something in the input that is not as it should be, and what was done about it.

    Args:
        code: what it is.
        path: the file; "" where it is not one file's matter.
        where: the first locations in it ("byte 120", "event 7", "node 12"); "" where there is none.
        count: how many times it was found.
        loss: the events or nodes that are lost with it; None where nothing is.
        details: values of the fields of its sentence in `model.sentences`.
    """

    code: FindingCode
    path: str = ""
    where: str = ""
    count: int = 1
    loss: Loss | None = None
    details: Mapping[str, object] = field(default_factory=dict, hash=False)

    @classmethod
    def of(
        cls, code: FindingCode, path: str = "", where: str = "", count: int = 1, **details: object
    ) -> Finding:
        """A finding without loss, with the details by their names."""
        return cls(code, path, where, count, details=details)

    @property
    def message(self) -> str:
        """What was found and what was done with it, for people: nothing to compare or to search."""
        return finding_sentence(self.code, self.details)

    def __str__(self) -> str:
        """One line for people."""
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        location = f"{self.path}, {self.where}" if self.path and self.where else self.path or self.where
        lost = f"; {self.loss}" if self.loss is not None else ""
        return f"{location + ': ' if location else ''}{self.message}{times}{lost}"
