"""The server gives the page to whoever knows the token, and nothing to anybody else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.viewer.serving import PAGE, TIMELINE_BYTES, ask, serving
from tracebraid.errors import ArgumentError, OutputError
from tracebraid.reports.page.modules import content_policy
from tracebraid.viewer import TIMELINE, ReportServer, Served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportServer]:
    with serving(tmp_path_factory.mktemp("served")) as server:
        yield server


def test_the_page_and_the_timeline_are_handed_out(server: ReportServer) -> None:
    assert (ask(server).status, ask(server).body) == (200, PAGE)
    assert ask(server, TIMELINE).body == TIMELINE_BYTES


def test_only_this_machine_s_address_is_bound(server: ReportServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/favicon.ico",
        "/wrong/",
        f"/wrong/{TIMELINE}",
        "../",
        "../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "/../../../etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        "unknown",
        f"{TIMELINE}/",
        "?query",
    ],
)
def test_nothing_stands_at_other_addresses(server: ReportServer, path: str) -> None:
    answer = ask(server, path)
    assert answer.status == 404
    assert server.token.encode() not in answer.body


@pytest.mark.parametrize("cut", [1, 10])
def test_a_part_of_the_token_is_not_enough(server: ReportServer, cut: int) -> None:
    assert ask(server, f"/{server.token[:-cut]}/").status == 404


def test_tokens_differ(server: ReportServer, tmp_path: Path) -> None:
    with serving(tmp_path) as other:
        assert other.token != server.token
        assert ask(other, f"/{server.token}/").status == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost:8080", 200),
        ("LOCALHOST", 200),
        ("evil.example", 403),
        ("evil.example:80", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost@evil.example", 403),
        ("", 403),
        ("[::1", 403),
    ],
)
def test_a_foreign_host_is_refused(server: ReportServer, host: str, status: int) -> None:
    assert ask(server, host=host).status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "PLANTED"])
def test_only_get_is_allowed(server: ReportServer, method: str) -> None:
    answer = ask(server, method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize("path", ["", TIMELINE, "/wrong/"])
def test_every_answer_has_the_strict_headers(server: ReportServer, path: str) -> None:
    headers = ask(server, path).headers
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    rules = headers["Content-Security-Policy"].split("; ")
    assert rules == [*content_policy(served=True).split("; "), "frame-ancestors 'none'"]
    assert "Access-Control-Allow-Origin" not in headers


def test_the_opening_address_leads_to_the_page_a_single_time(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        path = server.opening_address.removeprefix(f"http://127.0.0.1:{server.server_address[1]}")
        assert server.token not in path
        first, second = ask(server, path), ask(server, path)
    assert (first.status, first.headers["Location"], second.status) == (303, f"/{server.token}/", 404)


def test_several_readers_at_once_get_a_timeline_that_is_written_once(tmp_path: Path) -> None:
    written = []

    def write(path: Path) -> None:
        written.append(path)
        path.write_bytes(TIMELINE_BYTES)

    with serving(tmp_path, write_timeline=write) as server:
        bodies: list[bytes] = []
        readers = [
            threading.Thread(target=lambda: bodies.append(ask(server, TIMELINE).body)) for _ in range(4)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert bodies == [TIMELINE_BYTES] * 4
    assert written == [tmp_path / TIMELINE]


def test_why_a_timeline_cannot_be_written_is_answered(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        raise OutputError(str(path), "planted", "Planted")

    with serving(tmp_path, write_timeline=write) as server:
        answer = ask(server, TIMELINE)
        assert (answer.status, b"planted" in answer.body) == (500, True)
        assert ask(server).status == 200


def test_a_reader_that_goes_away_or_talks_nonsense_ends_nothing(
    server: ReportServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for data in (
        b"",
        b"\x00\xff\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\r\n\r\n",
        f"GET /{server.token}/ HTTP/1.1\r\n".encode(),
    ):
        with socket.create_connection(("127.0.0.1", server.server_address[1])) as connection:
            connection.sendall(data)
    assert ask(server).status == 200
    assert capfd.readouterr().err == ""


def test_a_port_that_cannot_be_had_is_an_error(server: ReportServer, tmp_path: Path) -> None:
    served = Served(b"", "", lambda _: None, tmp_path)
    for port in (server.server_address[1], 70_000, -1):
        with pytest.raises(ArgumentError):
            ReportServer(served, port)
