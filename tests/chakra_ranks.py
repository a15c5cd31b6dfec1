"""Ranks of Chakra nodes, made in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from tracebraid.chakra import ChakraRank, NodeDeps
from tracebraid.chakra.schema import CHAKRA_NODES

Node = dict[str, Any]


def compute(node_id: int, *waits_for: int, us: int = 1, **columns: object) -> Node:
    """A node that computes."""
    return {"node_id": node_id, "type": "COMP_NODE", "duration_micros": us, "deps": waits_for, **columns}


def collective(
    node_id: int, *waits_for: int, size: int | None = 1024, group: str | None = None, **columns: object
) -> Node:
    """A collective, an all-reduce unless `comm_type` says otherwise."""
    made = {"node_id": node_id, "type": "COMM_COLL_NODE", "comm_type": "ALL_REDUCE", "comm_size": size}
    return {**made, "pg_name": group, "deps": waits_for, **columns}


def send(node_id: int, *waits_for: int, to: int | None, size: int = 64, tag: int | None = 0) -> Node:
    """A send."""
    made = {"node_id": node_id, "type": "COMM_SEND_NODE", "comm_dst": to, "comm_size": size}
    return {**made, "comm_tag": tag, "deps": waits_for}


def receive(node_id: int, *waits_for: int, source: int | None, size: int = 64, tag: int | None = 0) -> Node:
    """A receive."""
    made = {"node_id": node_id, "type": "COMM_RECV_NODE", "comm_src": source, "comm_size": size}
    return {**made, "comm_tag": tag, "deps": waits_for}


def rank_of(number: int, nodes: Sequence[Mapping[str, Any]], *, ctrl: bool = False) -> ChakraRank:
    """A rank of these nodes; what they wait for are data dependencies, or control dependencies."""
    columns = {name: [node.get(name) for node in nodes] for name in CHAKRA_NODES.polars_schema()}
    columns["name"] = [node.get("name", f"node {node['node_id']}") for node in nodes]
    columns["duration_micros"] = [node.get("duration_micros", 1) for node in nodes]
    waits = [node.get("deps", ()) for node in nodes]
    first = np.concatenate([[0], np.cumsum([len(own) for own in waits])]).astype(np.int64)
    deps = NodeDeps(first, np.array([node for own in waits for node in own], dtype=np.int64))
    none = NodeDeps.none(len(nodes))
    table = CHAKRA_NODES.conform(pl.DataFrame(columns, strict=False))
    return ChakraRank(number, "0.0.4", (), table, none if ctrl else deps, deps if ctrl else none)
