"""Object stores, by obstore: S3 and what speaks its protocol, Google Cloud Storage, Azure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from tracebraid.errors import MissingLibraryError
from tracebraid.filesystem.interface import Entry, Kind
from tracebraid.filesystem.paths import is_loopback
from tracebraid.filesystem.remote.backend import Answer, Fault, FaultKind, Stat

_AMAZON = ("s3", "s3a")
_CONNECT_S = 10
_STATUS = re.compile(r"status code: (\d{3})[ \w]*")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")
_CAUSE = re.compile(r'(?:message: |ConnectError\()"([^"]{1,200})"')
_WRONG_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "incorrectly configured region")
_NO_CREDENTIALS = (
    "Missing AccessKeyId",
    "Missing SecretAccessKey",
    "Account must be specified",
    "token request",
    "169.254.169.254",
    "NoCredentials",
)
_PASSING_STATUS = ("408", "425", "429", "5")
_REFUSED_STATUS = ("401", "403")


def has_obstore() -> bool:
    """Return whether obstore is installed."""
    try:
        import obstore  # noqa: F401
    except ImportError:
        return False
    return True


class ObjectStores(Struct, frozen=True):
    """Asks object stores, see `Backend`.

    Args:
        timeout_s: how long a request may take, of at most 8 MiB.
    """

    timeout_s: float
    has_folders: bool = True

    def stat(self, url: str) -> Stat:
        """See `Backend`."""
        import obstore

        key = _key(url)
        if not key:
            raise Fault(FaultKind.ABSENT)
        with _faults():
            return _stat(obstore.head(self._store(url), key))

    def fetch(self, url: str, start: int, stop: int) -> Answer:
        """See `Backend`."""
        import obstore

        with _faults():
            result = obstore.get(self._store(url), _key(url), options={"range": (start, stop)})
            return Answer(_stat(result.meta), _body(result))

    def is_folder(self, url: str) -> bool:
        """See `Backend`."""
        import obstore

        key = _key(url)
        with _faults():
            pages = iter(obstore.list(self._store(url), key or None, chunk_size=1))
            return bool(next(pages, None)) or not key

    def entries(self, url: str) -> list[Entry]:
        """See `Backend`. All pages are asked for, and no object on its own."""
        import obstore

        key = _key(url)
        with _faults():
            listed = obstore.list_with_delimiter(self._store(url), key or None)
        skip = len(key) + 1 if key else 0
        files = [Entry(meta["path"][skip:], Kind.FILE) for meta in listed["objects"]]
        folders = [Entry(prefix.strip("/")[skip:], Kind.FOLDER) for prefix in listed["common_prefixes"]]
        return [entry for entry in (*files, *folders) if entry.name]

    def _store(self, url: str) -> Any:
        from obstore.store import from_url

        parts = urlsplit(url)
        is_amazon = parts.scheme.lower() in _AMAZON
        more = {"credential_provider": provider} if is_amazon and (provider := _profile(os.environ)) else {}
        with _faults():
            return from_url(
                f"{parts.scheme}://{parts.netloc}",
                client_options={
                    "timeout": timedelta(seconds=self.timeout_s),
                    "connect_timeout": timedelta(seconds=min(_CONNECT_S, self.timeout_s)),
                    "allow_http": _may_be_plain(os.environ),
                },
                retry_config={"max_retries": 0},
                **more,
            )


def _profile(environment: Mapping[str, str]) -> Any:
    """Credentials of a profile of AWS's own files, by boto3; None if the environment has a key, or no profile."""
    is_named = "AWS_PROFILE" in environment
    if not is_named and ("AWS_ACCESS_KEY_ID" in environment or not _has_profiles(environment)):
        return None
    try:
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        if not is_named:
            return None
        raise MissingLibraryError(
            "the profile that AWS_PROFILE names is read by boto3, which is not installed here. "
            "Install it with: pip install boto3"
        ) from error
    try:
        return Boto3CredentialProvider()
    except (BotoCoreError, ValueError) as error:
        raise Fault(FaultKind.NO_CREDENTIALS, str(error)) from None


def _has_profiles(environment: Mapping[str, str]) -> bool:
    named = environment.get("AWS_SHARED_CREDENTIALS_FILE")
    return (Path(named) if named else Path.home() / ".aws" / "credentials").is_file()


def _may_be_plain(environment: Mapping[str, str]) -> bool:
    """Return whether an endpoint may be `http://`: where the environment says so, or it is this machine."""
    if environment.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes"):
        return True
    endpoints = [
        environment.get(name, "") for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    ]
    return any(is_loopback(endpoint) for endpoint in endpoints)


def _key(url: str) -> str:
    """The key of an object, as it is: nothing in it is decoded."""
    return url.partition("://")[2].partition("/")[2].rstrip("/")


def _stat(meta: Any) -> Stat:
    return Stat(meta["size"], meta["e_tag"] or str(meta["last_modified"]))


def _body(result: Any) -> Iterator[bytes]:
    with _faults():
        yield bytes(result.bytes())


@contextmanager
def _faults() -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError as error:
        kind = FaultKind.NO_BUCKET if "NoSuchBucket" in str(error) else FaultKind.ABSENT
        raise Fault(kind) from None
    except ValueError:
        raise Fault(FaultKind.NAME) from None
    except (BaseError, OSError) as error:
        raise _fault_of(str(error)) from None


def _fault_of(text: str) -> Fault:
    """Classify the library's error by its message, which itself may contain secrets."""
    status, code, cause = (pattern.search(text) for pattern in (_STATUS, _CODE, _CAUSE))
    details = ", ".join(
        part
        for part in (status and status[0].removeprefix("status code: ").strip(), code and code[1])
        if part
    )
    if "NoSuchBucket" in text:
        return Fault(FaultKind.NO_BUCKET)
    if "invalid path" in text or "Invalid path" in text:
        return Fault(FaultKind.NAME)
    if any(word in text for word in _WRONG_REGION):
        return Fault(FaultKind.REGION, details)
    if any(word in text for word in _NO_CREDENTIALS):
        return Fault(FaultKind.NO_CREDENTIALS)
    if status is not None:
        if status[1] == "404":
            return Fault(FaultKind.ABSENT)
        if status[1] in _REFUSED_STATUS:
            return Fault(FaultKind.REFUSED, details)
        return Fault(FaultKind.SERVER if status[1].startswith(_PASSING_STATUS) else FaultKind.OTHER, details)
    if "TimedOut" in text or "timed out" in text:
        return Fault(FaultKind.SLOW)
    if "HTTP error" in text or "reqwest" in text:
        kind = FaultKind.CUT if "Body" in text or "Decode" in text else FaultKind.UNREACHABLE
        return Fault(kind, cause[1] if cause else "")
    return Fault(FaultKind.OTHER, text.partition("\n")[0][:200])
