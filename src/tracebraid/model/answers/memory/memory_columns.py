"""Columns that most answers about memory have."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind

__all__ = ["CATEGORY", "DEVICE", "MODULE", "OP", "SOURCE"]

DEVICE = Column("device", Kind.TEXT, "device number; `cpu` for the host's memory")
OP = Column("op", Kind.TEXT, "innermost op around it that does more than allocate; null: none")
MODULE = Column(
    "module",
    Kind.TEXT,
    "innermost nn.Module around it (`Linear_0`), in backward that of the forward op; null: unknown",
)
CATEGORY = Column("category", Kind.TEXT, "a code of `MemoryCategory`")
SOURCE = Column(
    "source",
    Kind.TEXT,
    "`instants` of the allocator, or `storages` of the Execution Trace (a lower bound): see `MemorySource`",
)
