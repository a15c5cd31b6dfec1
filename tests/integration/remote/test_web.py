"""Are files of web servers read, and does no answer lead anywhere else?"""

from __future__ import annotations

import datetime as dt
import gzip
import http.server
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import tracebraid
from tests.builders import kineto_text, op
from tests.integration.command import fail, succeed
from tests.servers import Stub, status, stub_server
from tracebraid.errors import InputError

TEXT = kineto_text([op("aten::mm", 10, 50), op("aten::add", 70, 5)]).encode()
PATH = "/runs/kineto_trace_3.json"


@pytest.fixture
def stub() -> Iterator[Stub]:
    with stub_server(files={PATH: TEXT, f"{PATH}.gz": gzip.compress(TEXT)}) as server:
        yield server


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Python's own server of a folder, which knows no ranges."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def plain_server(tmp_path: Path) -> Iterator[http.server.ThreadingHTTPServer]:
    (tmp_path / "kineto_trace_3.json").write_bytes(TEXT)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("suffix", ["", ".gz", "?X-Amz-Signature=SECRET", "#part"])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_is_a_job_of_one_rank(stub: Stub, suffix: str, ranges: bool) -> None:
    stub.ranges = ranges
    job = tracebraid.open(f"{stub.address}{PATH}{suffix}")
    assert job.ranks == [3]
    assert job[3].timeline.events.height == 2
    assert "SECRET" not in f"{job.path} {job[3].timeline.path} {job.findings}"


def test_pythons_own_server_is_read_and_its_listing_is_refused(
    plain_server: http.server.ThreadingHTTPServer,
) -> None:
    address = f"http://127.0.0.1:{plain_server.server_port}"
    (found,) = json.loads(succeed("info", f"{address}/kineto_trace_3.json", "--json"))["files"]
    assert found["kind"] == "kineto-trace"
    for path in ("/", ""):
        assert "Name the files themselves" in fail("summary", address + path)


def test_a_signature_is_in_no_output(stub: Stub) -> None:
    url = f"{stub.address}{PATH}?X-Amz-Credential=SECRET&X-Amz-Signature=SECRET"
    for command in ("info", "check", "summary"):
        assert "SECRET" not in succeed(command, url, "--json")
    assert "SECRET" not in fail("summary", url.replace("trace_3", "trace_4"))


@pytest.mark.parametrize(
    "target",
    ["file:///etc/hostname", "ftp://127.0.0.1/x", "http://localhost:1/x", "https://127.0.0.1/x", "data:,x"],
)
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_redirect_leads_elsewhere(stub: Stub, target: str, code: int) -> None:
    stub.faults = [status(code, headers={"Location": target})]
    with pytest.raises(InputError, match="redirects to another address"):
        tracebraid.read_timeline(stub.address + PATH)
    assert len(stub.requests) == 1


def test_a_redirect_within_the_server_is_followed_and_a_circle_is_not(stub: Stub) -> None:
    there = status(302, headers={"Location": PATH})
    stub.always = lambda handler: handler.path == "/latest" and there(handler)
    assert tracebraid.read_timeline(f"{stub.address}/latest").events.height == 2
    stub.always = status(302, headers={"Location": "/latest"})
    with pytest.raises(InputError, match="302"):
        tracebraid.read_timeline(f"{stub.address}/latest")
    assert len(stub.requests) < 40


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({"Content-Length": "x"}, "does not state the size"),
        ({"Content-Type": "text/html"}, "web page"),
    ],
)
def test_answers_that_are_no_files_are_refused(stub: Stub, headers: dict[str, str], word: str) -> None:
    stub.always = status(200, headers=headers)
    with pytest.raises(InputError, match=word):
        tracebraid.read_timeline(stub.address + PATH)


def test_an_answer_that_never_ends_is_refused(stub: Stub) -> None:
    def endless(handler: http.server.BaseHTTPRequestHandler) -> bool:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.close_connection = True
        return True

    stub.always = endless
    with pytest.raises(InputError, match="does not state the size"):
        tracebraid.read_timeline(stub.address + PATH)


def test_no_more_is_read_than_was_announced(stub: Stub) -> None:
    def too_much(handler: http.server.BaseHTTPRequestHandler) -> bool:
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes 0-{len(TEXT) - 1}/{len(TEXT)}")
        handler.send_header("Content-Length", str(1 << 40))
        handler.end_headers()
        handler.wfile.write(TEXT + b" " * 100)
        handler.close_connection = True
        return True

    stub.always = too_much
    assert tracebraid.read_timeline(stub.address + PATH).events.height == 2


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://example.com/x.json", "use https://"),
        ("http://10.0.0.1/x.json", "use https://"),
        ("https:///x.json", "names no host"),
        ("https://user:word@localhost/x.json", "a user or a password"),
        ("https://localhost:99999/x.json", "[Pp]ort"),
        ("https://" + "a" * 70 + ".example/x.json", "no name of a machine"),
    ],
)
def test_urls_that_are_not_taken(url: str, word: str) -> None:
    with pytest.raises(InputError, match=word) as caught:
        tracebraid.open(url)
    assert "word" not in str(caught.value).replace("password", "")


def test_a_certificate_that_nobody_signed_is_refused_and_one_that_is_known_is_taken(
    plain_server: http.server.ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    plain_server.socket = context.wrap_socket(plain_server.socket, server_side=True)
    url = f"https://127.0.0.1:{plain_server.server_port}/kineto_trace_3.json"
    with pytest.raises(InputError, match="certificate"):
        tracebraid.open(url)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert tracebraid.open(url).ranks == [3]


def self_signed(folder: Path) -> Path:
    """A certificate of 127.0.0.1 with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path
