"""How much slower kernels are beside communication."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = ["INTERFERENCE"]

_INT, _FLOAT, _NAME = Kind.INT, Kind.FLOAT, Kind.NAME

INTERFERENCE = Table(
    "interference",
    "One row per kind of kernel that is clearly slower beside communication of its device than without.",
    (
        Column("family", _NAME, "what kind of kernel it is (`KernelFamily`)"),
        Column("groups", _INT, "kernels, each the same in several steps, that ran in both ways"),
        Column("beside", _INT, "how often these ran beside communication"),
        Column("alone", _INT, "how often without"),
        Column(
            "slowdown",
            _FLOAT,
            "by what factor a kernel lasts longer if there is communication all the time that it runs: median of the "
            "groups, by how often they ran beside it",
        ),
        Column("low", _FLOAT, "the least of the groups"),
        Column("high", _FLOAT, "the greatest of the groups"),
    ),
)
