"""Repairs the file of PyTorch's recorder: valid JSON, complete, and each node with a parent in the trace."""

from __future__ import annotations

import mmap
import re

from msgspec import Struct

from tracebraid.model.et_names import PROCESS_ROOT, THREAD_ROOT
from tracebraid.model.execution_trace import MISSING_PARENT
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.recorders.postprocess.edits import Edit, escape_names

_PROCESS, _THREAD = PROCESS_ROOT.encode(), THREAD_ROOT.encode()
_NODE = re.compile(
    rb'\{\s*"id": (\d+), "name": "(?:(' + re.escape(_PROCESS) + b"|" + re.escape(_THREAD) + rb')|.*?)", '
    rb'"ctrl_deps": (\d+),\s*"inputs": ',
    re.DOTALL,
)
_TID = re.compile(rb'"name": "tid", "type": "uint64", "value": (\d+)\}')
_END_OF_ATTRS, _END_OF_NODE = b"]\n      }", b"\n      }"
_FINISHED = re.compile(rb'\],\s*"finish_ts": \d+\s*\}\s*\Z')
_TAIL_BYTES = 200
"""The end of a finished file, see `_FINISHED`, is shorter."""


class _Node(Struct, frozen=True):
    """A node, and the span of its parent id in the text."""

    node_id: int
    root: bytes | None
    parent: int
    parent_at: tuple[int, int]
    body_at: int


def repair_execution_trace(
    text: bytes | mmap.mmap, unescaped_names: bool = False
) -> tuple[list[Edit], list[Finding]]:
    """The edits that complete a recorder's file, in order, and findings about them.

    Names are escaped; a file that ends in the middle is ended after its last whole node, with the node of the
    process; a node whose parent was never written (it was open at stop(), or raised) is attached to its thread's
    root, with the attribute `tracebraid_missing_parent` naming the parent that is not there.
    """
    edits, findings = escape_names(text, "et", unescaped_names)
    nodes = [_Node(int(m[1]), m[2], int(m[3]), m.span(3), m.end()) for m in _NODE.finditer(text)]
    end = _end_of_unfinished(text)
    if end is not None:
        nodes = [node for node in nodes if node.body_at < end]
    known = {node.node_id for node in nodes}
    end_edits, end_findings = ([], []) if end is None else _ended(text, end, known)
    orphan_edits, orphan_findings = _attached_to_roots(text, nodes, known)
    last = end_edits[0].start if end_edits else len(text)
    inner = [edit for edit in (*edits, *orphan_edits) if edit.stop <= last]
    every = sorted(inner, key=lambda edit: edit.start) + end_edits
    return every, [*findings, *end_findings, *orphan_findings]


def _end_of_unfinished(text: bytes | mmap.mmap) -> int | None:
    """Return the end of the last complete node of an unfinished file, 0 if it has none; None for a finished file."""
    if _FINISHED.search(bytes(text[-_TAIL_BYTES:])):
        return None
    at = text.rfind(_END_OF_NODE)
    return at + len(_END_OF_NODE) if at >= 0 else 0


def _ended(text: bytes | mmap.mmap, end: int, known: set[int]) -> tuple[list[Edit], list[Finding]]:
    """Make the end of an unfinished file, whose recorder was killed or ran out of disk. Adds the process to `known`."""
    if not end:
        return [], [Finding(FindingCode.EXECUTION_TRACE_EMPTY)]
    process = b"" if 1 in known else b",\n      " + _root(1, _PROCESS, 0)
    known.add(1)
    edit = Edit(end, len(text), process + b'\n  ],\n  "finish_ts": 0\n}\n')
    return [edit], [Finding(FindingCode.EXECUTION_TRACE_UNFINISHED, where=f"byte {end}")]


def _attached_to_roots(
    text: bytes | mmap.mmap, nodes: list[_Node], known: set[int]
) -> tuple[list[Edit], list[Finding]]:
    """The edits that attach the nodes without a parent in `known` to the roots of their threads."""
    roots: dict[bytes, int] = {}
    orphans = []
    for number, node in enumerate(nodes):
        if node.root == _THREAD:
            tid = _TID.search(text, node.body_at)
            roots[tid[1] if tid else b""] = node.node_id
        elif node.parent not in known:
            orphans.append((number, node))
    edits = []
    for number, node in orphans:
        limit = nodes[number + 1].parent_at[0] if number + 1 < len(nodes) else len(text)
        tid = _TID.search(text, node.body_at, limit)
        root = roots.get(tid[1] if tid else b"", 1)
        edits.append(Edit(*node.parent_at, b"%d" % root))
        end = text.rfind(_END_OF_ATTRS, node.body_at, limit)
        if end >= 0:
            mark = b',{"name": "%s", "type": "uint64", "value": %d}' % (MISSING_PARENT.encode(), node.parent)
            edits.append(Edit(end, end, mark))
    if not orphans:
        return [], []
    absent = len({node.parent for _, node in orphans})
    details = {"case": FindingCase.PARENT_REPLACED, "absent": absent, "attribute": MISSING_PARENT}
    first = ", ".join(str(node.node_id) for _, node in orphans[:3])
    where = f"nodes {first}"
    return edits, [Finding(FindingCode.PARENT_NEVER_WRITTEN, "", where, len(orphans), details=details)]


def _root(node_id: int, name: bytes, tid: int) -> bytes:
    values = b'{"values": [], "shapes": [], "types": [], "strides": []}'
    attrs = (
        (b"rf_id", b"uint64", b"0"),
        (b"fw_parent", b"uint64", b"0"),
        (b"seq_id", b"int64", b"-1"),
        (b"scope", b"uint64", b"7"),
        (b"tid", b"uint64", b"%d" % tid),
        (b"fw_tid", b"uint64", b"0"),
        (b"op_schema", b"string", b'""'),
    )
    written = b",".join(b'{"name": "%s", "type": "%s", "value": %s}' % attr for attr in attrs)
    return (
        b'{\n        "id": %d, "name": "%s", "ctrl_deps": 1,\n        "inputs": %s,\n        "outputs": %s,\n'
        b'        "attrs": [%s]\n      }' % (node_id, name, values, values, written)
    )
