"""The files that Chakra's own generator writes: one or two nodes for each rank, a case for each kind of node."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tracebraid.chakra.generating.limits import LARGEST, check_ranks
from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
from tracebraid.model.chakra.codes import CollectiveCommType, NodeType
from tracebraid.model.schema.chakra import CHAKRA_NODES

__all__ = ["PeerSizes", "peer_files"]

_VERSION = "1.0.0"
"""The schema's version that Chakra's generator writes."""
_COLLECTIVES = (
    CollectiveCommType.ALL_REDUCE,
    CollectiveCommType.ALL_TO_ALL,
    CollectiveCommType.ALL_GATHER,
    CollectiveCommType.REDUCE_SCATTER,
    CollectiveCommType.BROADCAST,
    CollectiveCommType.BARRIER,
)
_INTEGERS = {32: (12345, 23456), 64: (9876543210, 1234567890)}
_NEGATIVE, _WITHOUT_DOC = ("sint", "sfixed"), ("fixed", "sfixed")


@dataclass(frozen=True)
class PeerSizes:
    """What the cases are about.

    Args:
        ranks: how many files each case has.
        runtime_micros: of computation.
        tensor_bytes: of memory, sends and receives.
        comm_bytes: of collectives.
    """

    ranks: int = 64
    runtime_micros: int = 5
    tensor_bytes: int = 1024
    comm_bytes: int = 65536


def peer_files(sizes: PeerSizes) -> Iterator[tuple[str, ChakraRank]]:
    """The name of each file and what it holds; ids go on from file to file.

    Args:
        sizes: how many ranks, and how large all is.

    Raises:
        ArgumentError: a size is negative, or there are no ranks.
    """
    if sizes.ranks < 1 or min(sizes.runtime_micros, sizes.tensor_bytes, sizes.comm_bytes) < 0:
        raise ArgumentError("the generator takes one rank at least, and no negative sizes")
    check_ranks(sizes.ranks)
    if max(sizes.runtime_micros, sizes.tensor_bytes, sizes.comm_bytes) > LARGEST:
        raise ArgumentError("a size is larger than 64 bits can say: give smaller sizes")
    node_id = 0
    for case, nodes in _cases(sizes):
        for rank in range(sizes.ranks):
            yield f"{case}.{rank}.et", _rank(rank, node_id, nodes, chained=case.endswith("_dependent"))
            node_id += len(nodes)


_Node = dict[str, Any]


def _rank(rank: int, first_id: int, nodes: list[_Node], chained: bool) -> ChakraRank:
    frame = pl.DataFrame(nodes).with_columns(node_id=pl.int_range(pl.len()) + first_id)
    frame = CHAKRA_NODES.conform(frame, fill_missing=True)
    deps = NodeDeps.none(len(nodes))
    if chained:
        before = np.arange(len(nodes) - 1)
        deps = NodeDeps.of_pairs(before, before + 1, frame.get_column("node_id").to_numpy())
    return ChakraRank(rank, _VERSION, (), frame, deps, NodeDeps.none(len(nodes)))


def _cases(sizes: PeerSizes) -> Iterator[tuple[str, list[_Node]]]:
    yield (
        "one_metadata_node_all_types",
        [{**_node(NodeType.METADATA_NODE), "attributes": json.dumps(_all_types())}],
    )
    memory = {"is_cpu_op": False, "tensor_size": sizes.tensor_bytes}
    yield "one_remote_mem_load_node", [{**_node(NodeType.MEM_LOAD_NODE), **memory}]
    yield "one_remote_mem_store_node", [{**_node(NodeType.MEM_STORE_NODE), **memory}]
    computes = {**_node(NodeType.COMP_NODE), "is_cpu_op": False, "duration_micros": sizes.runtime_micros}
    yield "one_comp_node", [computes]
    yield "two_comp_nodes_independent", [computes] * 2
    yield "two_comp_nodes_dependent", [computes] * 2
    for kind in _COLLECTIVES:
        size = 0 if kind is CollectiveCommType.BARRIER else sizes.comm_bytes
        node = {
            **_node(NodeType.COMM_COLL_NODE),
            "is_cpu_op": False,
            "comm_type": kind.name,
            "comm_size": size,
        }
        yield kind.name, [{**node, "name": kind.name}]
    yield "one_comm_send_node", [{**_node(NodeType.COMM_SEND_NODE), **memory}]
    yield "one_comm_recv_node", [{**_node(NodeType.COMM_RECV_NODE), **memory}]


def _node(type: NodeType) -> _Node:
    return {"name": type.name, "type": type.name, "duration_micros": 0}


def _all_types() -> dict[str, Any]:
    """An attribute of each type, named after it."""
    found: dict[str, Any] = {}
    for name in ("double", "float"):
        found[name] = {f"{name}_val": 1.2345, "doc_string": name}
        found[f"{name}_list"] = {f"{name}_list": [1.2345, 2.3456]}
    for family in ("int", "uint", "sint", "fixed", "sfixed"):
        sign = -1 if family in _NEGATIVE else 1
        for bits, (first, second) in _INTEGERS.items():
            name = f"{family}{bits}"
            found[name] = {f"{name}_val": sign * first}
            if family not in _WITHOUT_DOC:
                found[name]["doc_string"] = name
            found[f"{name}_list"] = {f"{name}_list": [first, sign * second]}
    found["bool"] = {"bool_val": True, "doc_string": "bool"}
    found["bool_list"] = {"bool_list": [number % 2 == 0 for number in range(10)]}
    texts = [str(12345 + number) for number in range(10)]
    found["string"] = {"string_val": texts[0], "doc_string": "string"}
    found["string_list"] = {"string_list": texts}
    coded = [base64.b64encode(text.encode()).decode() for text in texts]
    return {**found, "bytes": {"bytes_val": coded[0]}, "bytes_list": {"bytes_list": coded}}
