"""What is a file, by its name, else by its head: an Execution Trace or a Kineto trace, and of which rank?"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tracebraid.errors import InputError
from tracebraid.filesystem.paths import name_of, shown
from tracebraid.importers.discovery.rank import as_rank, rank_from_name
from tracebraid.importers.execution_trace.arrow import is_et_arrow
from tracebraid.importers.json_stream.chunks import open_array
from tracebraid.importers.json_stream.source import open_source
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

__all__ = ["ET", "KINETO", "TAIL_BYTES", "Found", "is_candidate", "rank_in_tail", "sniff", "written_at_ns"]

ET, KINETO = "et", "kineto"

_TRACE_FILE = re.compile(r"\.json(\.gz|\.zst)?$|\.arrow\.zip$|^nsys.*\.sqlite$", re.I)
_ET_NAME = re.compile(
    r"(?:^|[._-])(?:torch_)?et(?:[._-]|\.json|$)|execution_trace|chakra_host|pytorch_et", re.I
)
_KINETO_NAME = re.compile(r"kineto|\.pt\.trace\.json|chakra_device|^nsys.*\.sqlite$", re.I)
_NO_TRACE = re.compile(r"^\.|et_plus|^manifest.*\.json$|_plus\.json|_report\.json$", re.I)
_WRITTEN_AT = re.compile(r"\.(\d{12,20})\.pt\.trace\.json", re.I)
_RANK_IN_TAIL = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}\[]*?"rank"\s*:\s*"?(\d{1,9})\b')
_DATABASE = ".sqlite"
TAIL_BYTES = 1 << 18
"""What Kineto writes behind the events (such as `distributedInfo`) takes at most 4 KB in our test traces."""


@dataclass(frozen=True)
class Found:
    """A trace: its path, `ET` or `KINETO`, and its rank, None where it is unknown."""

    path: str
    kind: str
    rank: int | None

    def of_rank(self, rank: int | None) -> Found:
        """The same trace with a rank that is known from elsewhere."""
        return replace(self, rank=rank)


def is_candidate(name: str) -> bool:
    """Whether a file may be a trace, by its name; not what Tracebraid itself writes beside traces."""
    return bool(_TRACE_FILE.search(name)) and not _NO_TRACE.search(name)


def sniff(path: str) -> tuple[Found | None, list[Finding]]:
    """What a file is; None, with a finding, where it is no trace that can be opened.

    Where its name contains kind and rank, it is not opened; else only its head is read.
    """
    name = name_of(path)
    rank = rank_from_name(name)
    if _KINETO_NAME.search(name) and rank is not None:
        return Found(path, KINETO, rank), []
    if _ET_NAME.search(name) and rank is not None:
        return Found(path, ET, rank), []
    if name.endswith(_DATABASE):
        return Found(path, KINETO, None), []
    if is_et_arrow(path):
        return Found(path, ET, rank), []
    try:
        file = open_array(open_source(path))
    except InputError as error:
        return None, [Finding.of(FindingCode.NOT_A_TRACE, shown(path), problem=error.problem)]
    if file.array == "nodes":
        return Found(path, ET, rank), []
    info = file.header.get("distributedInfo")
    stated = as_rank(info.get("rank")) if isinstance(info, dict) else None
    return Found(path, KINETO, rank if stated is None else stated), []


def rank_in_tail(path: str) -> int | None:
    """The rank behind the events of a Kineto trace, where on-demand traces have it; None where there is none.

    Of a plain file only the end is read; a compressed file is unpacked whole.
    """
    if path.endswith(_DATABASE):
        return None
    source = open_source(path)
    if source.compression is not None:
        tail = b""
        for block in source.blocks():
            tail = (tail + block)[-TAIL_BYTES:]
    else:
        tail = source.read(max(0, source.size_bytes - TAIL_BYTES), source.size_bytes)
    found = _RANK_IN_TAIL.search(tail)
    return int(found[1]) if found else None


def written_at_ns(path: str) -> int:
    """When TensorBoard's handler wrote a file, by its name, in ns on the unix clock; 0 for other names."""
    found = _WRITTEN_AT.search(name_of(path))
    return int(found[1]) if found else 0
