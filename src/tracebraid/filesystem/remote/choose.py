"""Which library reads a URL?"""

from __future__ import annotations

import os

from tracebraid.errors import ArgumentError
from tracebraid.filesystem.paths import scheme_of
from tracebraid.filesystem.remote import object_stores, web
from tracebraid.filesystem.remote.backend import Backend
from tracebraid.filesystem.remote.fsspec_files import fsspec_files
from tracebraid.filesystem.remote.object_stores import ObjectStores, has_obstore
from tracebraid.filesystem.remote.remote_files import RemoteFiles
from tracebraid.filesystem.remote.web import WebServers

__all__ = ["remote_files_of"]

_TIMEOUT = "TRACEBRAID_REMOTE_TIMEOUT_S"
_TIMEOUT_S = 60.0
"""An 8 MiB range takes less from 140 kB/s on."""


def remote_files_of(url: str) -> RemoteFiles:
    """The file system of a URL: obstore's object stores, web servers, or what fsspec has an implementation of.

    Raises:
        InputError: its scheme is not taken.
        MissingLibraryError: the library that reads it is not installed.
        ArgumentError: the time that the environment allows for a request is no number.
    """
    return RemoteFiles(_backend(url))


def _backend(url: str) -> Backend:
    scheme = scheme_of(url)
    if scheme in web.SCHEMES:
        return WebServers(_timeout_s())
    if scheme in object_stores.SCHEMES and has_obstore():
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
