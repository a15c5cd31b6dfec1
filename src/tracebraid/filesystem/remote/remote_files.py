"""Files behind URLs as a file system: tried again where that helps, checked to be the same file from start to end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

from msgspec import Struct

from tracebraid import clock
from tracebraid.errors import ArgumentError, InputError
from tracebraid.extras import OBJECT_STORES
from tracebraid.filesystem.interface import Entry, Kind, OpenFile, read_ahead
from tracebraid.filesystem.paths import scheme_of, shown
from tracebraid.filesystem.remote import web
from tracebraid.filesystem.remote.backend import Backend, Fault, FaultKind, Stat, input_error
from tracebraid.filesystem.remote.fsspec_files import fsspec_files
from tracebraid.filesystem.remote.object_stores import ObjectStores, has_obstore
from tracebraid.filesystem.remote.web import WebServers

T = TypeVar("T")

_TIMEOUT = "TRACEBRAID_REMOTE_TIMEOUT_S"
_TIMEOUT_S = 60.0
"""An 8 MiB range takes less from 140 kB/s on."""

_REQUESTS_AT_ONCE = 16
"""Maximum concurrent requests; servers answer each after 10 to 100 ms."""
_HEAD_BYTES, _GROWTH, _RANGE_BYTES = 1 << 17, 8, 1 << 23
"""The first range, which tells what a file is; by what the second is larger; all others, which memory holds twice.

Only the latter are fetched ahead: who wants the head of a file stops before.
"""
_TRIES = {FaultKind.SLOW: 2}
_TRIES_OTHERWISE = 5
"""Number of attempts of a request before its fault becomes an error."""
_FIRST_PAUSE_S = 0.2
"""Pause before the second try, doubled for each further one."""
_PROGRESS_BYTES = 1 << 20
"""Bytes without a fault after which tries are counted again."""


def remote_files_of(url: str) -> RemoteFiles:
    """The file system of a URL: obstore's object stores, web servers, or what fsspec has an implementation of."""
    return RemoteFiles(_backend(url))


def _backend(url: str) -> Backend:
    scheme = scheme_of(url)
    if scheme in web.SCHEMES:
        return WebServers(_timeout_s())
    if scheme in OBJECT_STORES and has_obstore():
        return ObjectStores(_timeout_s())
    return fsspec_files(url)


def _timeout_s() -> float:
    text = os.environ.get(_TIMEOUT, "")
    try:
        value = float(text or _TIMEOUT_S)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ArgumentError(f"{_TIMEOUT} is a number of seconds above 0, not {text!r}")
    return value


class RemoteFiles(Struct, frozen=True):
    """Files behind URLs, see `FileSystem`.

    Args:
        backend: asks the server.
    """

    backend: Backend
    requests_at_once: int = _REQUESTS_AT_ONCE

    def kind(self, path: str) -> Kind:
        """See `FileSystem`."""
        with _named_faults(path):
            if not path.endswith("/") and self._stat(path) is not None:
                return Kind.FILE
            if not self.backend.has_folders:
                if path.endswith("/"):
                    raise Fault(FaultKind.NO_LISTING)
                return Kind.ABSENT
            try:
                return Kind.FOLDER if _tried(lambda: self.backend.is_folder(path)) else Kind.ABSENT
            except Fault as fault:
                if fault.kind is not FaultKind.ABSENT:
                    raise
                return Kind.ABSENT

    def entries(self, folder: str) -> list[Entry]:
        """See `FileSystem`."""
        with _named_faults(folder):
            found = _tried(lambda: self.backend.entries(folder))
        return sorted(found, key=lambda entry: (entry.name, entry.kind.value))

    def real_path(self, path: str) -> str:
        """See `FileSystem`. There are no links."""
        return path

    def size_bytes(self, path: str) -> int:
        """See `FileSystem`."""
        return self.open(path).size_bytes

    def open(self, path: str) -> OpenFile:
        """See `FileSystem`."""
        with _named_faults(path):
            stat = self._stat(path)
        if stat is not None:
            return RemoteFile(path, stat, self.backend)
        if self.kind(path) is Kind.FOLDER:
            advice = "Name one trace file, or open the folder as a job"
            raise InputError(shown(path), "this is a folder", advice)
        raise input_error(Fault(FaultKind.ABSENT), path)

    def _stat(self, path: str) -> Stat | None:
        """Query the server's state of a file; None if it does not exist."""
        try:
            return _tried(lambda: self.backend.stat(path))
        except Fault as fault:
            if fault.kind is not FaultKind.ABSENT:
                raise
            return None


class RemoteFile(Struct, frozen=True, eq=False, dict=True):
    """A file behind a URL, see `OpenFile`.

    Args:
        url: where it lies.
        stat: what the server said of it when it was opened.
        backend: asks the server.
    """

    url: str
    stat: Stat
    backend: Backend

    @property
    def path(self) -> str:
        """The URL without what may be secret in it."""
        return shown(self.url)

    @property
    def size_bytes(self) -> int:
        """See `OpenFile`."""
        return self.stat.size_bytes

    @property
    def version(self) -> str:
        """See `OpenFile`."""
        return self.stat.version

    def read(self, start: int, stop: int) -> bytes:
        """See `OpenFile`."""
        stop = min(stop, self.size_bytes)
        if stop <= len(self._head):
            return self._head[start:stop]
        with _named_faults(self.url):
            return b"".join(self._parts(start, stop))

    def blocks(self, block_bytes: int) -> Iterator[bytes]:
        """See `OpenFile`. While a block is worked on, the next one arrives."""
        yield self._head
        start = len(self._head)
        with _named_faults(self.url):
            middle = min(start * _GROWTH, self.size_bytes)
            yield from self._parts(start, middle)
            yield from read_ahead(self._parts(middle, self.size_bytes))

    def whole(self) -> None:
        """None: it is read as it arrives."""

    @cached_property
    def _head(self) -> bytes:
        """Return the first bytes, which identify the file; requested once."""
        with _named_faults(self.url):
            return b"".join(self._parts(0, min(_HEAD_BYTES, self.size_bytes)))

    def _parts(self, start: int, stop: int) -> Iterator[bytes]:
        """The bytes from `start` up to `stop`; what is missing after a fault is asked for again."""
        tries, since = 1, start
        while start < stop:
            try:
                for part in self._range(start, min(start + _RANGE_BYTES, stop), stop):
                    start += len(part)
                    yield part
            except Fault as fault:
                tries = 1 if start - since >= _PROGRESS_BYTES else tries
                _pause_or_raise(fault, tries)
                tries, since = tries + 1, start

    def _range(self, start: int, end: int, stop: int) -> Iterator[bytes]:
        """Yield the result of one request for the bytes from `start` up to `end`, without bytes after `stop`."""
        answer = self.backend.fetch(self.url, start, end)
        try:
            if answer.stat != self.stat:
                raise Fault(FaultKind.CHANGED)
            for part in answer.body:
                yield part[: stop - start]
                start += len(part)
                if start >= stop:
                    return
        finally:
            answer.close()
        if start < end:
            raise Fault(FaultKind.CUT, f"{start} of {self.size_bytes} bytes came")


@contextmanager
def _named_faults(url: str) -> Iterator[None]:
    """Convert a fault of the block to an error that names the URL."""
    try:
        yield
    except Fault as fault:
        raise input_error(fault, url) from None


def _tried(request: Callable[[], T]) -> T:
    """Return the answer to a request, retried on temporary faults."""
    tries = 1
    while True:
        try:
            return request()
        except Fault as fault:
            _pause_or_raise(fault, tries)
            tries += 1


def _pause_or_raise(fault: Fault, tries: int) -> None:
    """Wait before the next try; raise if there is none."""
    if not fault.may_pass or tries >= _TRIES.get(fault.kind, _TRIES_OTHERWISE):
        raise fault
    clock.pause(_FIRST_PAUSE_S * 2 ** (tries - 1))
