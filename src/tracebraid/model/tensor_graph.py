"""The tensor nodes of an Execution Trace and the edges through them, computed when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

__all__ = ["LazyTensorGraph", "TensorGraph"]


@dataclass(frozen=True)
class TensorGraph:
    """Tensor nodes, their uses, and the edges through them.

    Args:
        tensors: tensor nodes, see `model.schema.ET_TENSORS`.
        uses: which node takes or gives which tensor, see `model.schema.ET_TENSOR_USES`.
        edges: producer to consumer, see `model.schema.ET_TENSOR_EDGES`.
    """

    tensors: pl.DataFrame
    uses: pl.DataFrame
    edges: pl.DataFrame


class LazyTensorGraph:
    """A tensor graph that is computed once, by the first thread that asks for it, and kept.

    Pickling computes it: a process that receives it needs no more than the tables.

    Args:
        compute: gives the graph; let go once it has.
    """

    def __init__(self, compute: Callable[[], TensorGraph]) -> None:
        self._compute: Callable[[], TensorGraph] | None = compute
        self._graph: TensorGraph | None = None
        self._lock = threading.Lock()
        """Guards both of the above."""

    def get(self) -> TensorGraph:
        """The graph."""
        with self._lock:
            if self._graph is None:
                assert self._compute is not None, "without a graph there is a way to compute it"
                self._graph = self._compute()
                self._compute = None
            return self._graph

    def __reduce__(self) -> tuple[Callable[[TensorGraph], LazyTensorGraph], tuple[TensorGraph]]:
        """See the class."""
        return _computed, (self.get(),)


def _computed(graph: TensorGraph) -> LazyTensorGraph:
    return LazyTensorGraph(lambda: graph)
