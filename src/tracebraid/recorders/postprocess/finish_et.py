"""What PyTorch's recorder left behind, made a whole Execution Trace: valid JSON, finished, without loose nodes."""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass

from tracebraid.model.et_names import PROCESS_ROOT, THREAD_ROOT
from tracebraid.model.execution_trace import MISSING_PARENT
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.recorders.postprocess.escape_names import Edit, mend_names

__all__ = ["mend_execution_trace"]

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


@dataclass(frozen=True)
class _Node:
    """Where a node's parent stands in the text."""

    node_id: int
    root: bytes | None
    parent: int
    parent_at: tuple[int, int]
    body_at: int


def mend_execution_trace(
    text: bytes | mmap.mmap, names_never_escaped: bool = False
) -> tuple[list[Edit], list[Finding]]:
    """The edits that make a recorder's file whole, in order, and what they are for.

    Names are escaped; a file that ends in the middle is ended after its last whole node, with the node of the
    process; a node whose parent was never written (it was open at stop(), or raised) is hung under its thread's
    root, with the attribute `tracebraid_missing_parent` naming the parent that is not there.

    Args:
        text: the file.
        names_never_escaped: whether its writer is known to escape no name.
    """
    edits, findings = mend_names(text, "et", names_never_escaped)
    nodes = [_Node(int(one[1]), one[2], int(one[3]), one.span(3), one.end()) for one in _NODE.finditer(text)]
    end = _end_of_unfinished(text)
    if end is not None:
        nodes = [node for node in nodes if node.body_at < end]
    known = {node.node_id for node in nodes}
    end_edits, end_findings = ([], []) if end is None else _ended(text, end, known)
    loose_edits, loose_findings = _hung_up(text, nodes, known)
    last = end_edits[0].start if end_edits else len(text)
    inner = [edit for edit in (*edits, *loose_edits) if edit.stop <= last]
    every = sorted(inner, key=lambda edit: edit.start) + end_edits
    return every, [*findings, *end_findings, *loose_findings]


def _end_of_unfinished(text: bytes | mmap.mmap) -> int | None:
    """Where the last whole node of a file without an end ends, 0 where it has none; None for a finished file."""
    if _FINISHED.search(bytes(text[-_TAIL_BYTES:])):
        return None
    at = text.rfind(_END_OF_NODE)
    return at + len(_END_OF_NODE) if at >= 0 else 0


def _ended(text: bytes | mmap.mmap, end: int, known: set[int]) -> tuple[list[Edit], list[Finding]]:
    """The end of a file that has none: the recorder was killed, or its disk was full. Adds the process to `known`."""
    if not end:
        return [], [Finding(FindingCode.EXECUTION_TRACE_EMPTY)]
    process = b"" if 1 in known else b",\n      " + _root(1, _PROCESS, 0)
    known.add(1)
    edit = Edit(end, len(text), process + b'\n  ],\n  "finish_ts": 0\n}\n')
    return [edit], [Finding(FindingCode.EXECUTION_TRACE_UNFINISHED, where=f"byte {end}")]


def _hung_up(
    text: bytes | mmap.mmap, nodes: list[_Node], known: set[int]
) -> tuple[list[Edit], list[Finding]]:
    roots: dict[bytes, int] = {}
    loose = []
    for number, node in enumerate(nodes):
        if node.root == _THREAD:
            tid = _TID.search(text, node.body_at)
            roots[tid[1] if tid else b""] = node.node_id
        elif node.parent not in known:
            loose.append((number, node))
    edits = []
    for number, node in loose:
        limit = nodes[number + 1].parent_at[0] if number + 1 < len(nodes) else len(text)
        tid = _TID.search(text, node.body_at, limit)
        root = roots.get(tid[1] if tid else b"", 1)
        edits.append(Edit(*node.parent_at, b"%d" % root))
        end = text.rfind(_END_OF_ATTRS, node.body_at, limit)
        if end >= 0:
            mark = b',{"name": "%s", "type": "uint64", "value": %d}' % (MISSING_PARENT.encode(), node.parent)
            edits.append(Edit(end, end, mark))
    if not loose:
        return [], []
    absent = len({node.parent for _, node in loose})
    details = {"case": FindingCase.PARENT_REPLACED, "absent": absent, "attribute": MISSING_PARENT}
    first = ", ".join(str(node.node_id) for _, node in loose[:3])
    where = f"nodes {first}"
    return edits, [Finding(FindingCode.PARENT_NEVER_WRITTEN, "", where, len(loose), details=details)]


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
