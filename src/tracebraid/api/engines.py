"""The engines by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tracebraid.engine.automatic import Automatic
from tracebraid.engine.cluster.ray_engine import RayEngine
from tracebraid.engine.pool.process_pool import ProcessPool
from tracebraid.errors import ArgumentError
from tracebraid.model.engine import Engine, InProcess

__all__ = ["AUTO", "ENGINES", "IN_PROCESS", "POOL", "RAY", "engine_of"]

AUTO = "auto"
"""The process pool where it takes less time, else this process."""
IN_PROCESS = "in-process"
POOL = "pool"
RAY = "ray"
"""A Ray cluster: needs the extra `ray`."""

_LOCAL: Mapping[str, Callable[[], Engine]] = MappingProxyType(
    {AUTO: Automatic, IN_PROCESS: InProcess, POOL: ProcessPool}
)
"""The engines of this machine, which take no address."""
ENGINES = (*_LOCAL, RAY)
"""The names of the engines."""


def engine_of(name: str, address: str | None = None) -> Engine:
    """The engine of that name: how questions to many ranks run.

    Args:
        name: one of `ENGINES`: `auto`, `in-process`, `pool` or `ray`.
        address: of a Ray cluster, such as `10.0.0.1:6379`; None for that of `RAY_ADDRESS`, else one that runs on this
            machine, else one that is started for each pass over the ranks.

    Raises:
        ArgumentError: there is no such engine, or it takes no address.
    """
    if name not in ENGINES:
        raise ArgumentError(f"there is no engine {name!r}; there are: {', '.join(ENGINES)}")
    if name == RAY:
        return RayEngine(address)
    if address is not None:
        raise ArgumentError(f"the engine {name} takes no address")
    return _LOCAL[name]()
