"""Is a text a graph in DOT or GraphML?"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tools.fuzz.calls.tables import require
from tools.fuzz.model import FailureError, FailureKind

__all__ = ["dot_graph", "xml_graph"]

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_HTML = re.compile(r"<<[A-Za-z].*?>>", re.DOTALL)
_REST = re.compile(r"[\w\s\[\]{}=,;>.\-]*")
_SPACE = "{http://graphml.graphdrawing.org/xmlns}"


def dot_graph(text: str) -> None:
    """Fail where a text is no graph in DOT: a quote that does not end, or anything outside of one.

    Raises:
        FailureError: shows it.
    """
    require(text.startswith(("digraph", "strict digraph", "graph")), f"no DOT: {text[:60]!r}")
    rest = _QUOTED.sub("q", text)
    odd = _REST.match(rest)
    require(odd is not None and odd.end() == len(rest), f"no DOT: {rest[odd.end() if odd else 0 :][:80]!r}")
    require(
        rest.count("{") == rest.count("}") and rest.count("[") == rest.count("]"), "brackets are not closed"
    )


def xml_graph(content: bytes) -> None:
    """Fail where a text is no GraphML: no XML, a node twice, or an edge of a node that is not there.

    Raises:
        FailureError: shows it.
    """
    try:
        root = ET.fromstring(content)
    except ET.ParseError as error:
        raise FailureError(FailureKind.INVALID_OUTPUT, f"no XML: {error}") from error
    names = [node.get("id") for node in root.iter(f"{_SPACE}node")]
    require(len(set(names)) == len(names), "a node of GraphML is there twice")
    ends = {edge.get(end) for edge in root.iter(f"{_SPACE}edge") for end in ("source", "target")}
    require(ends <= set(names), "an edge of GraphML is of no node")
