"""Which way a file is converted: an `.et` file to JSON, or JSON to an `.et` file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracebraid.chakra.as_json.from_json import frames_of_json
from tracebraid.chakra.as_json.to_json import JsonForm, chunks_of
from tracebraid.chakra.wire.frames import FramedFile, open_frames
from tracebraid.model.finding import Finding

__all__ = ["Conversion", "conversion_of"]

_ET_NAME = re.compile(r"\.et(\.gz|\.zst)?$", re.I)
_JSON_NAME = re.compile(r"\.(json|jsonl|ndjson)(\.gz|\.zst)?$", re.I)
_JSON_HEAD = re.compile(rb'\s*\{\s*["}]')


@dataclass(frozen=True, eq=False)
class Conversion:
    """A file in its other form.

    Args:
        to_json: whether it becomes JSON, and is no JSON that becomes an `.et` file.
        chunks: its bytes; they can be taken once.
        file: the file that is read.
    """

    to_json: bool
    chunks: Iterator[bytes]
    file: FramedFile

    @property
    def findings(self) -> list[Finding]:
        """What was noticed; all of it when the chunks are taken."""
        return self.file.findings


def conversion_of(path: str | Path, form: JsonForm) -> Conversion:
    """The way that a file's name tells, or else its first bytes.

    Args:
        path: the file or its URL; `-` for standard input.
        form: of the JSON that is made; that which is read may have any form.

    Raises:
        InputError: it is not there, or cannot be read.
        NotATraceError: it is empty.
    """
    file = open_frames(path)
    if _holds_json(file):
        return Conversion(False, frames_of_json(file.path, file.blocks()), file)
    return Conversion(True, chunks_of(file, form), file)


def _holds_json(file: FramedFile) -> bool:
    if _ET_NAME.search(file.path) or _JSON_NAME.search(file.path):
        return _ET_NAME.search(file.path) is None
    head = next(FramedFile(file.file, file.compression).blocks(), b"")
    return _JSON_HEAD.match(head) is not None
