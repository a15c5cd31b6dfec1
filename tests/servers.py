"""Servers for tests of URLs: moto's S3, and one whose answers fail as a test asks; all on this machine alone."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.waiting import HANG_S, let_others_run, wait_for

REGION = "us-east-1"
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


def s3_environment(endpoint: str) -> dict[str, str]:
    """The variables by which a process finds an S3 server and its key."""
    return {
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-key",
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
    }


@contextmanager
def moto_server() -> Iterator[str]:
    """The address of moto's S3, in a process of its own that ends with the block."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield _address(process, log)
        finally:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], log: IO[str]) -> str:
    """Where a server listens, by what it logs when it has started."""

    def logged() -> str:
        log.seek(0)
        return log.read()

    wait_for(lambda: _ADDRESS.search(logged()) or process.poll() is not None)
    found = _ADDRESS.search(logged())
    assert found is not None, "moto's server does not start"
    return found[0]


@dataclass
class Stub:
    """A server whose answers a test decides.

    Args:
        files: the content by path, with its `/`.
        faults: what is done in place of the next answers, one after the other; each returns whether it answered.
        pages: names that a listing of S3 has, a thousand to a page.
        ranges: whether it knows ranges.
        requests: (method, path, range) of each request.
        address: where it listens.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    faults: list[Callable[[Any], bool]] = field(default_factory=list)
    always: Callable[[Any], bool] | None = None
    listed: list[str] = field(default_factory=list)
    ranges: bool = True
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    address: str = ""


@contextmanager
def stub_server(**options: Any) -> Iterator[Stub]:
    """A server in a thread that ends with the block."""
    stub = Stub(**options)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"stub": stub}))
    server.daemon_threads = True
    stub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(HANG_S)


def status(code: int, xml_code: str = "", headers: dict[str, str] | None = None) -> Callable[[Any], bool]:
    """An answer with a status, and a code as S3 has it."""

    def answer(handler: _Handler) -> bool:
        body = f"<Error><Code>{xml_code}</Code></Error>".encode() if xml_code else b""
        handler.answer(code, body, headers or {})
        return True

    return answer


def cut_after(count: int) -> Callable[[Any], bool]:
    """An answer whose body ends after so many bytes, though more are announced."""

    def answer(handler: _Handler) -> bool:
        handler.answer_file(send=lambda body: body[:count])
        handler.close_connection = True
        return True

    return answer


def drip(handler: Any) -> bool:
    """An answer byte by byte, with a pause after each."""
    handler.answer_file(drips=True)
    return True


def hang(handler: Any) -> bool:
    """No answer until the client gives up."""
    handler.connection.recv(1)
    handler.close_connection = True
    return True


class _Handler(BaseHTTPRequestHandler):
    stub: Stub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        stub = self.stub
        parts = urlsplit(self.path)
        stub.requests.append((self.command, self.path, self.headers.get("Range", "")))
        if (stub.faults and stub.faults.pop(0)(self)) or (stub.always and stub.always(self)):
            return
        if "list-type" in parts.query:
            self.answer_list(parse_qs(parts.query))
        elif unquote(parts.path) in stub.files:
            self.answer_file()
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", {})

    do_HEAD = do_GET  # noqa: N815 - its name is that of the method

    def answer(self, code: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_file(self, send: Callable[[bytes], bytes] = bytes, drips: bool = False) -> None:
        content = self.stub.files[unquote(urlsplit(self.path).path)]
        asked = (
            re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if self.stub.ranges else None
        )
        start, stop = (int(asked[1]), min(int(asked[2]) + 1, len(content))) if asked else (0, len(content))
        if asked and start >= len(content):
            self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            return
        body = content[start:stop]
        self.send_response(206 if asked else 200)
        self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
        self.send_header("Last-Modified", "Sun, 22 Nov 2026 10:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            for piece in (body[at : at + 1] for at in range(len(body))) if drips else [send(body)]:
                self.wfile.write(piece)
                if drips:
                    let_others_run()
        except OSError:
            self.close_connection = True

    def answer_list(self, query: dict[str, list[str]]) -> None:
        prefix, first = query.get("prefix", [""])[0], int(query.get("continuation-token", ["0"])[0])
        names = [name for name in self.stub.listed if name.startswith(prefix)]
        page = names[first : first + 1000]
        rows = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>2026-11-22T10:00:00.000Z</LastModified>"
            f'<ETag>"1"</ETag><Size>5</Size></Contents>'
            for name in page
        )
        more = first + 1000 < len(names)
        token = f"<NextContinuationToken>{first + 1000}</NextContinuationToken>" if more else ""
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{rows}{token}</ListBucketResult>"
        )
        self.answer(200, text.encode(), {"Content-Type": "application/xml"})

    def log_message(self, format: str, *args: Any) -> None:
        pass
