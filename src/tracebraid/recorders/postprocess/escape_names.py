"""Escapes the names that PyTorch writes unescaped, so that its files are valid JSON.

Both of its writers print names without escaping them (pytorch#126703), so that a name with a quote, a backslash
or a control character breaks the whole file. Their layout is fixed, so that the begin and end of
each name are known.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode

__all__ = ["Edit", "apply_edits", "escape_names", "first_error"]

_NAME_IN_ET = re.compile(rb'\{\s*"id": \d+, "name": "(.*?)", "ctrl_deps": \d+,\s*"inputs": ', re.DOTALL)
_NAME_IN_KINETO = re.compile(rb'"cat": "[^"\n]*",\s*"name": "(.*?)",\s*"pid": ', re.DOTALL)
_NEEDS_ESCAPE = re.compile(rb'[\x00-\x1f"\\\x80-\xff]')


@dataclass(frozen=True)
class Edit:
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
    """Where a text stops being JSON, and why; "" where it is JSON."""
    try:
        msgspec.json.decode(memoryview(text), type=msgspec.Raw)
    except msgspec.DecodeError as error:
        return str(error)
    return ""


def escape_names(
    text: bytes | mmap.mmap, kind: str, never_escaped: bool = False
) -> tuple[list[Edit], list[Finding]]:
    """The edits that escape each name which is no JSON string, and a finding that counts them.

    Args:
        text: the file.
        kind: `et` or `kineto`.
        never_escaped: whether the writer is known to escape nothing. Then a backslash is literal, and is escaped too;
            else a name that is a valid JSON string stays as it is.
    """
    edits = []
    for found in (_NAME_IN_ET if kind == "et" else _NAME_IN_KINETO).finditer(text):
        name = found.group(1)
        if _NEEDS_ESCAPE.search(name) and (not _is_string(name) or (never_escaped and b"\\" in name)):
            edits.append(Edit(*found.span(1), _escaped(name)))
    if not edits:
        return [], []
    where = f"byte {edits[0].start}"
    return edits, [Finding(FindingCode.NAME_ESCAPED, where=where, count=len(edits))]


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
