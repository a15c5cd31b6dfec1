"""A server on 127.0.0.1 whose addresses hold a token that nobody guesses."""

from __future__ import annotations

import secrets
import sys
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from tracebraid.errors import ArgumentError
from tracebraid.viewer.handler import Handler
from tracebraid.viewer.served import Served

__all__ = ["ReportServer"]

_HOST = "127.0.0.1"
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
            super().__init__((_HOST, port), Handler)
        except (OSError, OverflowError) as error:
            raise ArgumentError(
                f"port {port} of {_HOST} cannot be had: {error}. Choose another, or 0 for any"
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
        return f"http://{_HOST}:{self.server_address[1]}"

    def spend(self, path: str) -> bool:
        """Whether this is the path of `opening_address`, and the first time that anybody asks for it."""
        valid = secrets.compare_digest(path.encode("latin-1", "replace"), self._once.encode())
        if valid:
            self._once = f"/{secrets.token_urlsafe(_TOKEN_BYTES)}"
        return valid

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
