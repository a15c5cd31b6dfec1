"""`Backend`: what a library that talks to servers does here; `remote_files` adds retries and checks to it.

There are three, as no library does all; measured on a local server with obstore 0.12, which reads as fast as `urllib`:

- obstore follows redirects to any host, rejects servers without ranges, and quotes URLs that are quoted already. So web
  servers are read by `urllib`, which in turn knows neither signatures nor listings of object stores.
- fsspec's interface gives a range without the state of the file, so that each takes two requests, and needs a package
  for each protocol: it serves only what the others do not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Protocol

from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.filesystem.interface import Entry
from tracebraid.filesystem.paths import name_of, scheme_of, shown


class Stat(Struct, frozen=True):
    """Server's state of a file.

    Args:
        size_bytes: its size.
        version: its ETag or modification time, which detects changes; "" if unknown.
    """

    size_bytes: int
    version: str = ""


class Answer(Struct, frozen=True):
    """A server's answer to a request for a range of a file.

    Args:
        stat: what it says of the file now.
        body: the bytes from the start of the range, as they arrive; they may continue after its end.
        close: ends the connection that they arrive by.
    """

    stat: Stat
    body: Iterator[bytes]
    close: Callable[[], None] = lambda: None


class Backend(Protocol):
    """Sends one request for each call; every method raises `Fault` on failure."""

    @property
    def has_folders(self) -> bool:
        """Return whether folders can be listed."""
        ...

    def stat(self, url: str) -> Stat:
        """Query the server's state of a file."""
        ...

    def fetch(self, url: str, start: int, stop: int) -> Answer:
        """A range of a file that is not empty."""
        ...

    def is_folder(self, url: str) -> bool:
        """Return whether something lies below a URL."""
        ...

    def entries(self, url: str) -> list[Entry]:
        """List a folder, in any order; nothing if it does not exist."""
        ...


class FaultKind(Enum):
    """Kind of failure."""

    ABSENT = "absent"
    NO_BUCKET = "no-bucket"
    REFUSED = "refused"
    NO_CREDENTIALS = "no-credentials"
    UNREACHABLE = "unreachable"
    SERVER = "server"
    SLOW = "slow"
    CUT = "cut"
    CHANGED = "changed"
    REGION = "region"
    REDIRECT = "redirect"
    NO_LISTING = "no-listing"
    NO_SIZE = "no-size"
    NAME = "name"
    OTHER = "other"


_SENTENCES = {
    FaultKind.ABSENT: "there is no such file or folder",
    FaultKind.NO_BUCKET: "there is no such bucket",
    FaultKind.REFUSED: "access is denied",
    FaultKind.NO_CREDENTIALS: "there are no credentials for it",
    FaultKind.UNREACHABLE: "the server cannot be reached",
    FaultKind.SERVER: "the server fails",
    FaultKind.SLOW: "the server is too slow",
    FaultKind.CUT: "the connection ended before the file",
    FaultKind.CHANGED: "it changed while it was read",
    FaultKind.REGION: "the bucket is in another region or endpoint",
    FaultKind.REDIRECT: "the server redirects to another address",
    FaultKind.NO_LISTING: "this is a web page, and web servers do not list the files of a folder",
    FaultKind.NO_SIZE: "the server does not state the size of the file",
    FaultKind.NAME: "its name has parts that the library for object stores does not support",
    FaultKind.OTHER: "it cannot be read",
}
_PASSING = {FaultKind.UNREACHABLE, FaultKind.SERVER, FaultKind.SLOW, FaultKind.CUT}
"""Faults that a retry may resolve."""

_ADVICE = {
    FaultKind.ABSENT: "Check the URL",
    FaultKind.NO_BUCKET: "Check the bucket's name, and the endpoint that the environment names",
    FaultKind.UNREACHABLE: "Check the network, and the endpoint that the URL or the environment names",
    FaultKind.SERVER: "Try again later",
    FaultKind.SLOW: "Try again later, allow more seconds by TRACEBRAID_REMOTE_TIMEOUT_S, or copy the file first",
    FaultKind.CUT: "Try again, or copy the file first",
    FaultKind.CHANGED: "Read it when it is complete",
    FaultKind.REGION: "Set AWS_REGION to the bucket's region, and AWS_ENDPOINT_URL to its server",
    FaultKind.REDIRECT: "Name the address that it leads to, if you trust it",
    FaultKind.NO_LISTING: "Name the files themselves",
    FaultKind.NO_SIZE: "Copy the file first, and name the copy",
    FaultKind.NAME: "Rename it: without empty parts, `.` and `..`",
    FaultKind.OTHER: "Copy it to this machine, and name the copy",
}
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; AWS_SKIP_SIGNATURE=true for a public bucket",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS; GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
}
_SAME = {"s3a": "s3", "gcs": "gs", **dict.fromkeys(("azure", "abfs", "abfss", "adl"), "az")}


class Fault(Exception):  # noqa: N818 - people get an InputError
    """A failed request to a server; `input_error` converts it to an error for people.

    Args:
        kind: the kind of failure.
        details: a short description, such as the server's status, without secrets.
    """

    def __init__(self, kind: FaultKind, details: str = "") -> None:
        self.kind = kind
        self.details = details
        super().__init__(kind, details)

    @property
    def may_pass(self) -> bool:
        """Return whether a retry may succeed."""
        return self.kind in _PASSING


def input_error(fault: Fault, url: str) -> InputError:
    """Make an error with the URL, the failure and advice."""
    details = f" ({fault.details})" if fault.details else ""
    return InputError(shown(url), f"{_SENTENCES[fault.kind]}{details}", _advice(fault.kind, url))


def _advice(kind: FaultKind, url: str) -> str:
    if kind not in (FaultKind.REFUSED, FaultKind.NO_CREDENTIALS):
        return _ADVICE[kind]
    scheme = scheme_of(url)
    names = _CREDENTIALS.get(_SAME.get(scheme, scheme))
    if names is None:
        return f"Check that you may read {name_of(url)}"
    return f"Check the credentials in the environment: {names}"
