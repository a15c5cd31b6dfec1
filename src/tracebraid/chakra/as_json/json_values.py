"""The objects of a JSON text one after another: lines, nodes of a document, or objects with nothing between them."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from tracebraid.errors import ArgumentError

__all__ = ["json_objects"]

_SPACE = re.compile(r"[\s,]*")
_HEAD = re.compile(r'\s*\{\s*"metadata"\s*:\s*')
_LIST = re.compile(r'\s*,\s*"nodes"\s*:\s*\[')
_TAIL = re.compile(r"\s*\]\s*\}\s*")
_DECODER = json.JSONDecoder()
_AT_MOST_CHARACTERS = 1 << 28
"""A longer object is none that stands for a message: those have at most 64 MiB."""


def json_objects(blocks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """The objects, with the metadata of a document first.

    Args:
        blocks: the text as UTF-8.

    Raises:
        ArgumentError: this is no such text; it says where.
    """
    text = _Text(blocks)
    in_document = text.skip(_HEAD)
    if in_document:
        metadata = text.value()
        if metadata is not None:
            yield metadata
        if not text.skip(_LIST):
            raise text.error('behind the metadata there should be `"nodes": [`')
    while not text.at_end(_TAIL if in_document else None):
        yield text.value()


class _Text:
    """A text that is read as far as it is asked for.

    Args:
        blocks: the text as UTF-8.
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._buffer, self._at, self._before, self._ended = "", 0, 0, False

    def skip(self, pattern: re.Pattern[str]) -> bool:
        """Whether the text goes on so; then it goes on behind that."""
        while True:
            found = pattern.match(self._buffer, self._at)
            if found and (found.end() < len(self._buffer) or self._ended):
                self._at = found.end()
                return True
            if self._ended or len(self._buffer) - self._at > len(pattern.pattern) * 4:
                return bool(found)
            self._read()

    def at_end(self, tail: re.Pattern[str] | None) -> bool:
        """Whether nothing follows but the tail of a document.

        Raises:
            ArgumentError: the tail is not there.
        """
        self.skip(_SPACE)
        if self._at < len(self._buffer):
            return tail is not None and self.skip(tail) and self.at_end(None)
        if tail is not None:
            raise self.error("the list of nodes has no end: the text was cut off")
        return True

    def value(self) -> Any:
        """The next object, or null.

        Raises:
            ArgumentError: there is none.
        """
        while True:
            try:
                found, end = _DECODER.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                if self._ended or len(self._buffer) - self._at > _AT_MOST_CHARACTERS:
                    raise self.error(f"this is no JSON ({error.msg})", error.pos) from None
                self._read()
                continue
            except RecursionError:
                raise self.error("values are nested too deeply") from None
            except ValueError:
                raise self.error("a number has more digits than any member of a node") from None
            if found is not None and not isinstance(found, dict):
                raise self.error("this is no object")
            self._at = end
            return found

    def error(self, problem: str, at: int | None = None) -> ArgumentError:
        """A problem, and where it is."""
        return ArgumentError(f"character {self._before + (self._at if at is None else at):,}: {problem}")

    def _read(self) -> None:
        """Read at least as much as is there already, so that a long object is not tried again and again."""
        read = [self._buffer[self._at :]]
        self._before += self._at
        self._at = 0
        wanted = max(1, len(read[0]))
        while wanted > 0 and not self._ended:
            block = next(self._blocks, b"")
            self._ended = not block
            try:
                read.append(self._decode.decode(block, final=self._ended))
            except UnicodeDecodeError:
                raise self.error("this is no UTF-8") from None
            wanted -= len(read[-1])
        self._buffer = "".join(read)
