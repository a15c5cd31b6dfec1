"""A server that runs while a test asks it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.waiting import HANG_S
from tracebraid.reports.page.modules import content_policy
from tracebraid.viewer import ReportServer, Served

PAGE = b"<!doctype html><title>planted</title>"
TIMELINE_BYTES = bytes(range(256)) * 8


class Answer(NamedTuple):
    """What the server answered."""

    status: int
    headers: HTTPMessage
    body: bytes


def write_planted(path: Path) -> None:
    path.write_bytes(TIMELINE_BYTES)


@contextmanager
def serving(
    folder: Path, page: bytes = PAGE, write_timeline: Callable[[Path], None] = write_planted
) -> Iterator[ReportServer]:
    """A server in a thread of its own."""
    with ReportServer(Served(page, content_policy(served=True), write_timeline, folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server: ReportServer, path: str = "", method: str = "GET", host: str | None = None) -> Answer:
    """The answer to a request.

    Args:
        server: who is asked.
        path: of what is asked for; a relative path is behind the token.
        method: of the request.
        host: its header; None: the server's.
    """
    address = urlsplit(server.address)
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=HANG_S)
    try:
        connection.putrequest(method, path if path.startswith("/") else address.path + path, skip_host=True)
        connection.putheader("Host", address.netloc if host is None else host)
        connection.endheaders()
        response = connection.getresponse()
        return Answer(response.status, response.msg, response.read())
    finally:
        connection.close()
