"""A small rank with all that a graph may have: markup, a circle, dependencies of both kinds, one on nothing."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.chakra import ChakraRank, NodeDeps
from tracebraid.chakra.schema import CHAKRA_NODES

NAMES = [
    '<script>alert("x")</script>',
    "a & b \" ' ]]>",
    "\u202eevil\x1b[31m\n\\n",
    "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, float)",
    "cpu op",
    *(f"parallel {number}" for number in range(5)),
    "last",
]
FIRST_ID = 10
MISSING = 999


def made_rank() -> ChakraRank:
    count = len(NAMES)
    nodes = CHAKRA_NODES.conform(
        pl.DataFrame(
            {
                "node_id": range(FIRST_ID, FIRST_ID + count),
                "name": NAMES,
                "type": ["COMP_NODE"] * 4
                + ["METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE"]
                + ["COMP_NODE"] * 4,
                "stream": [7] * 4 + [None] + [7] * 5 + [None],
                "thread": [None] * 4 + [123] + [None] * 6,
                "duration_micros": list(range(count)),
                "step": ["0"] * 5 + ["1"] * 5 + [None],
            }
        ),
        fill_missing=True,
    )
    ids = nodes.get_column("node_id").to_numpy()
    before = np.array([0, 1, 2, 4, 3, 3, 3, 3, 3, 3, 5, 6, 7, 8, 9])
    after = np.array([1, 2, 1, 0, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10])
    first = np.array([0, 0, 0, *[2] * (count - 2)])
    control = NodeDeps(first, np.array([MISSING, FIRST_ID]))
    return ChakraRank(0, "0.0.4", (), nodes, NodeDeps.of_pairs(before, after, ids), control)
