"""Which rank has each value of a row among the others, equal ones sharing theirs?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["mean_ranks"]

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]


def mean_ranks(values: _Ints) -> tuple[_Floats, _Floats]:
    """Ranks of the values of each row, from 1, and for each row the sum of size^3 - size over groups of equal values.

    Args:
        values: rows x values.
    """
    rows, width = values.shape
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    opens = np.ones(ordered.shape, dtype=np.bool_)
    opens[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    group = np.cumsum(opens.ravel()) - 1
    size = np.bincount(group)
    position = np.tile(np.arange(1, width + 1), rows)
    mean_rank = np.bincount(group, weights=position) / size
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, mean_rank[group].reshape(values.shape), axis=1)
    ties = np.zeros(rows)
    np.add.at(ties, np.flatnonzero(opens.ravel()) // width, (size**3 - size).astype(np.float64))
    return ranks, ties
