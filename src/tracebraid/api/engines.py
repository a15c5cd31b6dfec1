"""The engines by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tracebraid.engine.automatic import Automatic
from tracebraid.engine.pool.process_pool import ProcessPool
from tracebraid.errors import ArgumentError
from tracebraid.model.engine import Engine, InProcess

__all__ = ["AUTO", "ENGINES", "IN_PROCESS", "POOL", "engine_of"]

AUTO = "auto"
"""The process pool where it takes less time, else this process."""
IN_PROCESS = "in-process"
POOL = "pool"

_LOCAL: Mapping[str, Callable[[], Engine]] = MappingProxyType(
    {AUTO: Automatic, IN_PROCESS: InProcess, POOL: ProcessPool}
)
"""The engines of this machine, which take no address."""
ENGINES = tuple(_LOCAL)
"""The names of the engines."""


def engine_of(name: str, address: str | None = None) -> Engine:
    """The engine of that name: how questions to many ranks run.

    Args:
        name: one of `ENGINES`: `auto`, `in-process` or `pool`.
        address: of a cluster; None where the engine needs none.

    Raises:
        ArgumentError: there is no such engine, or it takes no address.
    """
    if name not in ENGINES:
        raise ArgumentError(f"there is no engine {name!r}; there are: {', '.join(ENGINES)}")
    if address is not None:
        raise ArgumentError(f"the engine {name} takes no address")
    return _LOCAL[name]()
