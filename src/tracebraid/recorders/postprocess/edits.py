"""Edits of the text of a trace that PyTorch wrote: names escaped and changed, and own frames removed."""

from __future__ import annotations

import json
import mmap
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

_NAME_IN_ET = re.compile(rb'\{\s*"id": \d+, "name": "(.*?)", "ctrl_deps": \d+,\s*"inputs": ', re.DOTALL)
# The name of an arrow, whose phase is not beside its category, ends its object: it needs no escape.
_NAME_IN_KINETO = re.compile(rb'"ph": "X",\s*"cat": "[^"\n]*",\s*"name": "(.*?)",\s*"pid": ', re.DOTALL)
_NEEDS_ESCAPE = re.compile(rb'[\x00-\x1f"\\\x80-\xff]')


class Edit(Struct, frozen=True):
    """A replacement of bytes.

    Args:
        start: the first byte to replace.
        stop: the byte after the last one.
        text: the replacement.
    """

    start: int
    stop: int
    text: bytes


def first_error(text: bytes | mmap.mmap) -> str:
    """Return the position and reason at which a text is not JSON; "" if it is valid."""
    try:
        msgspec.json.decode(memoryview(text), type=msgspec.Raw)
    except msgspec.DecodeError as error:
        return str(error)
    return ""


def escape_names(
    text: bytes | mmap.mmap, kind: str, never_escaped: bool = False
) -> tuple[list[Edit], list[Finding]]:
    """The edits that escape each name which is no JSON string, and a finding that counts them."""
    edits = []
    for found in (_NAME_IN_ET if kind == "et" else _NAME_IN_KINETO).finditer(text):
        name = found.group(1)
        if _NEEDS_ESCAPE.search(name) and (not _is_string(name) or (never_escaped and b"\\" in name)):
            edits.append(Edit(*found.span(1), _escaped(name)))
    if not edits:
        return [], []
    where = f"byte {edits[0].start}"
    return edits, [Finding(FindingCode.NAME_ESCAPED, where=where, count=len(edits))]


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """Map a file into memory. It is unmapped at the end, or with the traceback of an error that has views of it."""
    with path.open("rb") as file:
        text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        yield text
    finally:
        with suppress(BufferError):
            text.close()


def apply_edits(text: bytes | mmap.mmap, edits: list[Edit]) -> Iterator[memoryview | bytes]:
    """The edited text, in chunks; the edits are ordered and do not overlap."""
    view, at = memoryview(text), 0
    for edit in edits:
        yield view[at : edit.start]
        yield edit.text
        at = edit.stop
    yield view[at:]


def _is_string(name: bytes) -> bool:
    try:
        json.loads(b'"' + name + b'"')
    except ValueError:
        return False
    return True


def _escaped(name: bytes) -> bytes:
    return json.dumps(name.decode("utf-8", "backslashreplace"), ensure_ascii=False)[1:-1].encode()


_FRAME = re.compile(
    rb'\{\s*"ph": "X",\s*"cat": "python_function",\s*"name": "(?P<name>[^\n]*)",\s*"pid": [^{}]*'
    rb'"args": \{(?P<args>[^{}]*)\}\s*\}(?P<next>,\s*)?'
)
# In any order. From torch 2.14 on, roots have no parent id, and the others say where they are called.
_ID = re.compile(rb'"Python id": (\d+)')
_PARENT = re.compile(rb'"Python parent id": (\d+|null)')
_CALLED_FROM = re.compile(rb'"CallFrom": ("[^"\n]*")')
_LINE = re.compile(rb"\(\d+\): ")


def own_files() -> frozenset[bytes]:
    """The files of this package, as they appear in names of frames: PyTorch strips the folders of `sys.path`."""
    package = Path(__file__).parents[2]
    folders = {Path(entry).absolute() for entry in sys.path}
    return frozenset(
        name.encode()
        for file in package.rglob("*.py")
        for name in (
            str(file),
            *(str(file.relative_to(folder)) for folder in folders if folder in package.parents),
        )
    )


def own_frames(text: bytes | mmap.mmap, files: Iterable[bytes]) -> list[Edit]:
    """Make edits that remove the frames of some files, and attach their callees to their callers."""
    known = frozenset(files)
    frames = list(_FRAME.finditer(text))
    callers: dict[bytes, tuple[bytes, bytes]] = {}
    for frame in frames:
        line = _LINE.search(frame["name"])
        own_id = _ID.search(frame["args"])
        if own_id and line and frame["next"] and frame["name"][: line.start()] in known:
            parent, site = _PARENT.search(frame["args"]), _CALLED_FROM.search(frame["args"])
            callers[own_id[1]] = parent[1] if parent else b"null", site[1] if site else b'""'
    if not callers:
        return []
    edits = []
    for frame in frames:
        span = frame.span("args")
        own_id, parent = _ID.search(text, *span), _PARENT.search(text, *span)
        if own_id and own_id[1] in callers:
            edits.append(Edit(frame.start(), frame.end(), b""))
        elif parent and parent[1] in callers:
            caller, call_site = callers[parent[1]]
            while caller in callers:
                caller, call_site = callers[caller]
            edits.append(Edit(*parent.span(1), caller))
            called_from = _CALLED_FROM.search(text, *span)
            if called_from:
                edits.append(Edit(*called_from.span(1), call_site))
    return sorted(edits, key=lambda edit: edit.start)


def merged(edits: Iterable[Edit], removals: Iterable[Edit]) -> list[Edit]:
    """Merge both kinds of edits in order, without those inside removed text."""
    found: list[Edit] = []
    for edit in sorted((*edits, *removals), key=lambda edit: (edit.start, -edit.stop)):
        if not found or edit.start >= found[-1].stop:
            found.append(edit)
    return found


def rename_events(text: bytes | mmap.mmap, renamed: Mapping[str, str]) -> list[Edit]:
    """The edits that give events, or nodes, other names."""
    edits = []
    for old, new in renamed.items():
        name = re.compile(rb'"name":\s*(' + re.escape(json.dumps(old).encode()) + rb")")
        edits += [Edit(*found.span(1), json.dumps(new).encode()) for found in name.finditer(text)]
    return edits
