"""Translate a peer's command line into arguments of `tracebraid link`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tracebraid.exporters.et_plus import write_et_plus
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["LinkCall", "LogLevel"]

LogLevel: TypeAlias = Annotated[
    str | None, typer.Option("--log-level", help="Taken, and changes nothing.", hidden=True)
]
"""The option that both peers have."""


@dataclass(frozen=True)
class LinkCall:
    """A pair to link, and where its ET+ goes.

    Args:
        et: the Execution Trace.
        kineto: the Kineto trace.
        out: where ET+ goes.
        write: writes it.
        rank: the rank that is named; None if none is.
    """

    et: Path
    kineto: Path
    out: Path
    write: Callable[[LinkedTrace, Path], None] = write_et_plus
    rank: int | None = None
