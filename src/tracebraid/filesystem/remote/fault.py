"""`Fault`: what went wrong between here and a server, and what to do about it."""

from __future__ import annotations

from enum import Enum

from tracebraid.errors import InputError
from tracebraid.filesystem.paths import name_of, scheme_of, shown

__all__ = ["Fault", "FaultKind", "input_error"]


class FaultKind(Enum):
    """What went wrong."""

    ABSENT = "there is no such file or folder"
    NO_BUCKET = "there is no such bucket"
    REFUSED = "access is refused"
    NO_CREDENTIALS = "there are no credentials for it"
    UNREACHABLE = "the server cannot be reached"
    SERVER = "the server fails"
    SLOW = "the server is too slow"
    CUT = "the connection ended before the file did"
    CHANGED = "it changed while it was read"
    REGION = "the bucket is of another region or endpoint"
    REDIRECT = "the server sends the reader elsewhere"
    NO_LISTING = "this is a web page, and a web server does not say which files a folder has"
    NO_SIZE = "the server does not say how large the file is"
    NAME = "its name has parts that the library for object stores does not take"
    OTHER = "it cannot be read"


_PASSING = {FaultKind.UNREACHABLE, FaultKind.SERVER, FaultKind.SLOW, FaultKind.CUT}
"""What may be over when it is tried again."""

_ADVICE = {
    FaultKind.ABSENT: "Check the URL",
    FaultKind.NO_BUCKET: "Check the bucket's name, and the endpoint that the environment names",
    FaultKind.UNREACHABLE: "Check the network, and the endpoint that the URL or the environment names",
    FaultKind.SERVER: "Try again later",
    FaultKind.SLOW: "Try again later, allow more seconds by TRACEBRAID_REMOTE_TIMEOUT_S, or copy the file first",
    FaultKind.CUT: "Try again, or copy the file first",
    FaultKind.CHANGED: "Read it when it is written to its end",
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
    """Something went wrong between here and a server; `input_error` says it to people.

    Args:
        kind: what.
        details: more about it in a few words, such as the server's status; nothing secret.
    """

    def __init__(self, kind: FaultKind, details: str = "") -> None:
        self.kind = kind
        self.details = details
        super().__init__(kind, details)

    @property
    def may_pass(self) -> bool:
        """Whether it may be over when it is tried again."""
        return self.kind in _PASSING


def input_error(fault: Fault, url: str) -> InputError:
    """The error that says which URL, what failed, and what to do."""
    details = f" ({fault.details})" if fault.details else ""
    return InputError(shown(url), f"{fault.kind.value}{details}", _advice(fault.kind, url))


def _advice(kind: FaultKind, url: str) -> str:
    if kind not in (FaultKind.REFUSED, FaultKind.NO_CREDENTIALS):
        return _ADVICE[kind]
    scheme = scheme_of(url)
    names = _CREDENTIALS.get(_SAME.get(scheme, scheme))
    if names is None:
        return f"Check that you may read {name_of(url)}"
    return f"Check the credentials in the environment: {names}"
