"""`Packed`: what a pack did."""

from __future__ import annotations

from msgspec import Struct

from tracebraid.model.finding import Finding


class Packed(Struct, frozen=True):
    """Result of a pack.

    Args:
        path: the store.
        packed: the newly packed ranks.
        kept: ranks already in the store, with the same files and options.
        failed: unreadable ranks; the store records the reason.
        size_bytes: of all files of all ranks.
        findings: findings about the files, and unreadable ranks.
    """

    path: str
    packed: tuple[int, ...]
    kept: tuple[int, ...]
    failed: tuple[int, ...]
    size_bytes: int
    findings: tuple[Finding, ...]
