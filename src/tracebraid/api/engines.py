"""The engines by their names."""

from __future__ import annotations

from tracebraid.errors import ArgumentError
from tracebraid.model.engine import Engine, InProcess

__all__ = ["ENGINES", "IN_PROCESS", "engine_of"]

IN_PROCESS = "in-process"
ENGINES = (IN_PROCESS,)
"""The names of the engines."""


def engine_of(name: str, address: str | None = None) -> Engine:
    """The engine of that name: how questions to many ranks run.

    Args:
        name: one of `ENGINES`.
        address: of a cluster; None where the engine needs none.

    Raises:
        ArgumentError: there is no such engine, or it takes no address.
    """
    if name not in ENGINES:
        raise ArgumentError(f"there is no engine {name!r}; there are: {', '.join(ENGINES)}")
    if address is not None:
        raise ArgumentError(f"the engine {name} takes no address")
    return InProcess()
