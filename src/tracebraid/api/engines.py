"""The engines by their names."""

from __future__ import annotations

from tracebraid.errors import ArgumentError
from tracebraid.model.engine import Engine, InProcess

AUTO = "auto"
"""The process pool if that is faster, else this process."""
IN_PROCESS = "in-process"
POOL = "pool"
RAY = "ray"
"""A Ray cluster: needs the extra `ray`."""

ENGINES = (AUTO, IN_PROCESS, POOL, RAY)
"""The names of the engines."""


def engine_of(name: str, address: str | None = None) -> Engine:
    """Return the engine of that name, which runs questions over many ranks."""
    if name not in ENGINES:
        raise ArgumentError(f"there is no engine {name!r}; there are: {', '.join(ENGINES)}")
    if name == RAY:
        from tracebraid.engine.ray_engine import RayEngine

        return RayEngine(address)
    if address is not None:
        raise ArgumentError(f"the engine {name} takes no address")
    if name == IN_PROCESS:
        return InProcess()
    if name == POOL:
        from tracebraid.engine.pool import ProcessPool

        return ProcessPool()
    from tracebraid.engine.automatic import Automatic

    return Automatic()
