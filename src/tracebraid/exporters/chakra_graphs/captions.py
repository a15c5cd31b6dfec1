"""What is said of a node in a graph, beside its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tracebraid.model.quantities import duration, size

__all__ = ["captions"]

_NS_PER_US = 1000


def captions(node: Mapping[str, Any]) -> Iterator[str]:
    """Facts of a node, the most important first.

    Args:
        node: a row of `CHAKRA_NODES`.
    """
    if node["comm_type"] is not None:
        yield node["comm_type"].lower().replace("_", "-")
    if node["comm_size"] is not None:
        yield size(node["comm_size"])
    if node["pg_name"] is not None:
        yield f"group {node['pg_name']}"
    for column, text in (("comm_src", "from rank"), ("comm_dst", "to rank"), ("comm_tag", "tag")):
        if node[column] is not None:
            yield f"{text} {node[column]}"
    took_ns = node["duration_ns"]
    if took_ns is None and node["duration_micros"] is not None:
        took_ns = node["duration_micros"] * _NS_PER_US
    if took_ns:
        yield duration(took_ns)
