"""Something wrong at one place of a file, as its readers note it; `importers.findings` gathers these into findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracebraid.model.finding import Loss
from tracebraid.model.finding_code import FindingCode

__all__ = ["Issue"]


@dataclass(frozen=True)
class Issue:
    """Something wrong at one place.

    Args:
        code: what it is.
        byte: where it starts in the unpacked file.
        loss: what is lost with it; None where nothing is.
        details: see `model.finding.Finding`.
    """

    code: FindingCode
    byte: int
    loss: Loss | None = None
    details: Mapping[str, object] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, code: FindingCode, byte: int, loss: Loss | None = None, **details: object) -> Issue:
        """An issue, with the details by their names."""
        return cls(code, byte, loss, details)
