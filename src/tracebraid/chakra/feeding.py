"""`Feeder`: the nodes of an `.et` file as what they wait for is done, as Chakra's own feeder gives them to simulators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["Feeder"]

_Ints = NDArray[np.int64]
_SHOWN = 5
"""Nodes that a message names."""


class Feeder:
    """The nodes of an `.et` file in an order in which they may run.

    It holds where each node lies and what it waits for, and reads a node when it is taken: some 60 bytes for each node
    and 8 for each dependency, however large nodes are. Both kinds of dependencies count. Ready nodes come in the order
    of the file, the same each time.

    Args:
        path: the file, not compressed.
        ctrl_deps: whether control dependencies count, too; Chakra's older feeder ignores them.

    Raises:
        InputError: the file cannot be read, is compressed, holds an id twice, or nodes wait for nodes that are not
            there, or for each other.
        MissingLibraryError: protobuf or numba is not installed.

    Example:
        >>> feeder = tracebraid.Feeder("job.0.et")
        >>> while feeder.ready():
        ...     node = feeder.take()
        ...     print(node["name"], node["duration_micros"])
        ...     feeder.finish(node["node_id"])
    """

    def __init__(self, path: str | Path, ctrl_deps: bool = True) -> None: ...
