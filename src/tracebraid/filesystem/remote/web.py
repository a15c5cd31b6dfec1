"""Web servers: `https://`, and `http://` on this machine."""

from __future__ import annotations

import http.client
import io
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from msgspec import Struct

from tracebraid import clock
from tracebraid.filesystem.interface import Entry
from tracebraid.filesystem.paths import is_loopback, name_of
from tracebraid.filesystem.remote.backend import Answer, Fault, FaultKind, Stat

SCHEMES = frozenset({"http", "https"})

_PART_BYTES = 1 << 16
_LEAST_BYTES = 1 << 16
"""Minimum bytes that a server must send within the timeout of a request."""
_LEAVE = "/%:@!$&'()*+,;=~-._"
"""Characters of a URL's path that stay as they are; `%` starts what is quoted already."""
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_NO_RANGE = re.compile(r"bytes \*/(\d{1,18})")
_PASSING_STATUS = (408, 425, 429)


class WebServers(Struct, frozen=True):
    """Asks web servers, see `Backend`. They have files only: no listing is part of HTTP.

    Args:
        timeout_s: how long a server may be silent, and take for 64 KiB.
    """

    timeout_s: float
    has_folders: bool = False

    def stat(self, url: str) -> Stat:
        """See `Backend`. A short range is asked for: addresses that are signed are so for GET only."""
        with _faults():
            response, stat, _ = self._get(url, 0, 1)
            response.close()
            return stat

    def fetch(self, url: str, start: int, stop: int) -> Answer:
        """See `Backend`. A server that knows no ranges sends the file whole, and what comes before is left out."""
        with _faults():
            response, stat, skip = self._get(url, start, stop)
        return Answer(stat, _body(response, skip, self.timeout_s), response.close)

    def is_folder(self, url: str) -> bool:
        """See `Backend`."""
        raise Fault(FaultKind.NO_LISTING)

    def entries(self, url: str) -> list[Entry]:
        """See `Backend`."""
        raise Fault(FaultKind.NO_LISTING)

    def _get(self, url: str, start: int, stop: int) -> tuple[Any, Stat, int]:
        """The response, what it says of the file, and how many bytes come before `start`."""
        headers = {
            "Range": f"bytes={start}-{stop - 1}",
            "Accept-Encoding": "identity",
            "User-Agent": "tracebraid",
        }
        request = urllib.request.Request(_quoted(url), headers=headers)
        try:
            response = _opener().open(request, timeout=self.timeout_s)
        except urllib.error.HTTPError as error:
            with closing(error):
                _refuse_unless_empty(error, start)
                return io.BytesIO(), Stat(0, _version(error.headers)), 0
        try:
            return (response, *_described(response, url, start))
        except Fault:
            response.close()
            raise


def _quoted(url: str) -> str:
    """A URL as it goes over the wire."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError as error:
        raise Fault(FaultKind.OTHER, str(error)) from None
    if not parts.hostname:
        raise Fault(FaultKind.OTHER, "the URL names no host")
    if parts.username is not None:
        raise Fault(FaultKind.OTHER, "a user or a password in a URL is not taken")
    if parts.scheme == "http" and not is_loopback(url):
        raise Fault(FaultKind.OTHER, "http:// is taken from this machine only; use https://")
    host = parts.netloc.encode("idna").decode()
    return urlunsplit((parts.scheme, host, quote(parts.path, safe=_LEAVE), parts.query, ""))


def _described(response: Any, url: str, start: int) -> tuple[Stat, int]:
    headers = response.headers
    if headers.get_content_type() == "text/html" and not name_of(url).lower().endswith((".html", ".htm")):
        raise Fault(FaultKind.NO_LISTING)
    version = _version(headers)
    if response.status == http.client.PARTIAL_CONTENT:
        found = _RANGE.fullmatch(headers.get("Content-Range", ""))
        if found is None:
            raise Fault(FaultKind.NO_SIZE)
        if int(found[1]) != start:
            raise Fault(FaultKind.OTHER, "the server sends another part of the file than it was asked for")
        return Stat(int(found[3]), version), 0
    length = headers.get("Content-Length", "")
    if response.status != http.client.OK or not re.fullmatch(r"\d{1,18}", length):
        raise Fault(FaultKind.NO_SIZE)
    return Stat(int(length), version), start


def _version(headers: Any) -> str:
    return str(headers.get("ETag") or headers.get("Last-Modified") or "")


def _refuse_unless_empty(error: urllib.error.HTTPError, start: int) -> None:
    """Accept an answer that the file is empty, which has no range."""
    found = _NO_RANGE.fullmatch(error.headers.get("Content-Range", ""))
    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and found is not None:
        if start == 0 and int(found[1]) == 0:
            return
        raise Fault(FaultKind.CHANGED)
    details = f"{error.code} {error.reason}"
    if error.code in (404, 410):
        raise Fault(FaultKind.ABSENT)
    if error.code in (401, 403, 407):
        raise Fault(FaultKind.REFUSED, details)
    is_passing = error.code >= http.client.INTERNAL_SERVER_ERROR or error.code in _PASSING_STATUS
    raise Fault(FaultKind.SERVER if is_passing else FaultKind.OTHER, details)


def _body(response: Any, skip: int, timeout_s: float) -> Iterator[bytes]:
    """Yield the bytes as they arrive, after the first `skip`; only waiting counts toward the timeout."""
    waited_s, came = 0.0, 0
    while True:
        begin = clock.now_s()
        with _faults():
            part = response.read1(_PART_BYTES)
        waited_s, came = waited_s + clock.now_s() - begin, came + len(part)
        if not part:
            return
        if came >= _LEAST_BYTES:
            waited_s, came = 0.0, 0
        elif waited_s > timeout_s:
            raise Fault(FaultKind.SLOW)
        if skip < len(part):
            yield part[skip:]
        skip = max(0, skip - len(part))


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follow redirects only within a host and scheme, so that no server chooses another address."""

    def redirect_request(self, req: Any, fp: Any, *rest: Any) -> Any:
        old, new = urlsplit(req.full_url), urlsplit(urljoin(req.full_url, rest[-1]))
        if (new.scheme, new.netloc) != (old.scheme, old.netloc):
            fp.close()
            raise Fault(FaultKind.REDIRECT, f"to {new.scheme}://{new.hostname or ''}")
        return super().redirect_request(req, fp, *rest)

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        location = headers.get("Location", "")
        scheme = urlsplit(location).scheme
        if scheme and scheme not in SCHEMES:
            fp.close()
            raise Fault(FaultKind.REDIRECT, f"to {scheme}://")
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _opener() -> urllib.request.OpenerDirector:
    """Build an opener for HTTP only: no `file:`, `ftp:` or `data:`."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _SameHost(),
    ):
        opener.add_handler(handler)
    return opener


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except urllib.error.URLError as error:
        reason = error.reason
        if isinstance(reason, TimeoutError):
            raise Fault(FaultKind.SLOW) from None
        kind = FaultKind.OTHER if isinstance(reason, ssl.SSLCertVerificationError) else FaultKind.UNREACHABLE
        raise Fault(kind, _words(reason)) from None
    except TimeoutError:
        raise Fault(FaultKind.SLOW) from None
    except (http.client.RemoteDisconnected, ConnectionError) as error:
        raise Fault(FaultKind.CUT, _words(error)) from None
    except http.client.HTTPException as error:
        raise Fault(FaultKind.CUT, type(error).__name__) from None
    except OSError as error:
        raise Fault(FaultKind.UNREACHABLE, _words(error)) from None
    except UnicodeError:
        raise Fault(FaultKind.OTHER, "the URL's host is no name of a machine") from None


def _words(error: object) -> str:
    if isinstance(error, socket.gaierror):
        return "its host is not known"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
