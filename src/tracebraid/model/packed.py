"""`Packed`: what a pack did."""

from __future__ import annotations

from dataclasses import dataclass

from tracebraid.model.finding import Finding

__all__ = ["Packed"]


@dataclass(frozen=True)
class Packed:
    """What a pack did.

    Args:
        path: the store.
        packed: the ranks that were packed now.
        kept: those that were there already, of the same files and options.
        failed: those whose files cannot be read; the store says why.
        size_bytes: of all files of all ranks.
        findings: what was noticed about the files, and which ranks cannot be read.
    """

    path: str
    packed: tuple[int, ...]
    kept: tuple[int, ...]
    failed: tuple[int, ...]
    size_bytes: int
    findings: tuple[Finding, ...]
