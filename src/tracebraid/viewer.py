"""Shows a report in this machine's browser: a server for one reader."""

from __future__ import annotations

import re
import secrets
import shutil
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, BinaryIO

from msgspec import Struct, field

from tracebraid.errors import ArgumentError, TracebraidError

TIMELINE = "timeline.pftrace.gz"
"""The timeline's address, relative to the page's, and its name where it is saved."""


class Served(Struct, frozen=True, eq=False):
    """Files of a server.

    Args:
        page: the page as UTF-8.
        policy: the page's Content-Security-Policy.
        write_timeline: writes the timeline into a new file.
        folder: a folder for it, which others cannot read.
    """

    page: bytes
    policy: str
    write_timeline: Callable[[Path], None]
    folder: Path
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def timeline(self) -> Path:
        """The file of the timeline; several readers at once wait for the same."""
        path = self.folder / TIMELINE
        with self._writing:
            if not path.exists():
                self.write_timeline(path)
        return path


_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?", re.IGNORECASE)
"""Names under which a browser may reach the server; of any port, since ssh may forward another to it. A web site whose
name was pointed to 127.0.0.1 (DNS rebinding) comes with its own name."""
_WAIT_S = 30.0
"""A connection that says nothing for so long is closed."""
_HEADERS = {
    "Cache-Control": "no-store",
    # The tab that is opened for the timeline is of another origin, and must keep its tie to the page.
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_FRAMING = "frame-ancestors 'none'"
"""Policy that is valid only in a header, not in the page."""


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: ReportServer
    server_version, sys_version = "tracebraid", ""
    timeout = _WAIT_S

    def parse_request(self) -> bool:
        """Read the head of the request; refuse a foreign host, and all methods but GET."""
        if not super().parse_request():
            return False
        if not _HOST.fullmatch(self.headers.get("Host", "")):
            self._refuse(HTTPStatus.FORBIDDEN)
            return False
        if self.command != "GET":
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED)
            return False
        return True

    def do_GET(self) -> None:
        """Hand out what stands at the address."""
        root = f"/{self.server.token}/"
        if self._is_at(root):
            page = self.server.served.page
            self._send("text/html; charset=utf-8", BytesIO(page), len(page))
        elif self._is_at(root + TIMELINE):
            self._send_timeline()
        elif self.server.spend(self.path):
            self.send_response(HTTPStatus.SEE_OTHER)
            self.send_header("Location", root)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        """End the headers with those of every answer."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", f"{self.server.served.policy}; {_FRAMING}")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: addresses hold the token."""

    def _is_at(self, path: str) -> bool:
        return secrets.compare_digest(self.path.encode("latin-1", "replace"), path.encode())

    def _send_timeline(self) -> None:
        try:
            path = self.server.served.timeline()
        except TracebraidError as error:
            self._send_text(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
            return
        with path.open("rb") as file:
            self._send("application/octet-stream", file, path.stat().st_size)

    def _refuse(self, status: HTTPStatus) -> None:
        self._send_text(status, status.phrase)

    def _send_text(self, status: HTTPStatus, text: str) -> None:
        body = f"{text}\n".encode("utf-8", "backslashreplace")
        self._send("text/plain; charset=utf-8", BytesIO(body), len(body), status)

    def _send(self, kind: str, body: BinaryIO, size_bytes: int, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size_bytes))
        self.end_headers()
        shutil.copyfileobj(body, self.wfile)


_SERVER_HOST = "127.0.0.1"
_TOKEN_BYTES = 32


class ReportServer(ThreadingMixIn, TCPServer):
    """Serves a report; `serve_forever` runs until `KeyboardInterrupt`, and leaving the `with` block frees the port.

    Args:
        served: what it hands out.
        port: of 127.0.0.1; 0: any that is free.

    Raises:
        ArgumentError: the port cannot be had.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, served: Served, port: int = 0) -> None:
        self.served = served
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._once = f"/{secrets.token_urlsafe(_TOKEN_BYTES)}"
        try:
            super().__init__((_SERVER_HOST, port), Handler)
        except (OSError, OverflowError) as error:
            raise ArgumentError(
                f"port {port} of {_SERVER_HOST} cannot be had: {error}. Choose another, or 0 for any"
            ) from error

    @property
    def address(self) -> str:
        """The page's address."""
        return f"{self._origin}/{self.token}/"

    @property
    def opening_address(self) -> str:
        """An address that leads to the page a single time: for a command line, which other users can list."""
        return f"{self._origin}{self._once}"

    @property
    def _origin(self) -> str:
        return f"http://{_SERVER_HOST}:{self.server_address[1]}"

    def spend(self, path: str) -> bool:
        """Return whether this is the path of `opening_address`, and the first time that anybody asks for it."""
        valid = secrets.compare_digest(path.encode("latin-1", "replace"), self._once.encode())
        if valid:
            self._once = f"/{secrets.token_urlsafe(_TOKEN_BYTES)}"
        return valid

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
