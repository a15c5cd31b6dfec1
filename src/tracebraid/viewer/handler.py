"""Answers a browser: the page and the timeline to whoever knows the token, and nothing to anybody else."""

from __future__ import annotations

import re
import secrets
import shutil
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

from tracebraid.errors import TracebraidError
from tracebraid.viewer.served import TIMELINE

if TYPE_CHECKING:
    from tracebraid.viewer.server import ReportServer

__all__ = ["Handler"]

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
_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; style-src-attr 'unsafe-inline'; "
    "img-src data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page's own scripts, which hand the nonce to the modules that they import, and its own styles; charts
set those of single elements."""


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
        self.send_header("Content-Security-Policy", _POLICY.format(nonce=self.server.served.nonce))
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
