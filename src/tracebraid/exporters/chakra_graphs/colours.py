"""Colours of nodes by type: fills are light enough for black text (contrast of 12:1 at least)."""

from __future__ import annotations

from dataclasses import dataclass

from tracebraid.model.chakra.codes import NodeType

__all__ = ["MISSING", "Colours", "colours_of"]


@dataclass(frozen=True)
class Colours:
    """Of a node.

    Args:
        fill: of its box.
        line: around it.
        text: what nodes of the type are called.
    """

    fill: str
    line: str
    text: str


MISSING = "#c81e1e"
"""Of what is not in the file."""

_OF_TYPE = {
    NodeType.COMP_NODE.name: Colours("#d6e6fb", "#2b6cb0", "computation"),
    NodeType.COMM_COLL_NODE.name: Colours("#fde3c4", "#b45f06", "collective"),
    NodeType.COMM_SEND_NODE.name: Colours("#d8f0d8", "#2f7d32", "send"),
    NodeType.COMM_RECV_NODE.name: Colours("#cdeeee", "#0f7b7b", "receive"),
    NodeType.MEM_LOAD_NODE.name: Colours("#eadcf7", "#6b3fa0", "memory load"),
    NodeType.MEM_STORE_NODE.name: Colours("#f5d9ec", "#a0307a", "memory store"),
    NodeType.METADATA_NODE.name: Colours("#ebebeb", "#5f5f5f", "metadata"),
}
_OTHER = Colours("#ffffff", "#5f5f5f", "other")


def colours_of(type: str | None) -> Colours:
    """The colours of a node.

    Args:
        type: a name of `NodeType`, or what else the file has.
    """
    return _OF_TYPE.get(type or "", _OTHER)
