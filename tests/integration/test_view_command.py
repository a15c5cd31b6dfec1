"""`tracebraid view` as its user runs it: it prints an address, answers there, and ends with Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tests.integration.command import fail, run
from tests.integration.running import ended, started
from tracebraid.cli.view import ended_by_terminate


def test_it_serves_the_page_until_it_is_ended(job: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracebraid", "view", "--no-open", job]
    with started(*command, TMPDIR=str(tmp_path)) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        with urlopen(address) as answer:
            page = answer.read().decode()
        with pytest.raises(HTTPError) as wrong:
            urlopen(f"{address}wrong")
        wrong.value.close()
        process.send_signal(signal.SIGINT)
        done = ended(process)
    parts = urlsplit(address)
    assert (parts.hostname, wrong.value.code, done.returncode) == ("127.0.0.1", 404, 0)
    assert "open-in-perfetto" in page
    assert "Traceback" not in done.stderr
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", parts.port or 0)):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_request_to_terminate_ends_it_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ended_by_terminate():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_job_that_cannot_be_read_is_an_error_and_not_served(tmp_path: Path) -> None:
    fail("view", "--no-open", tmp_path)


def test_a_port_that_is_taken_is_an_error(job: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        fail("view", "--no-open", "--port", taken.getsockname()[1], job)


def test_a_port_that_there_is_not_is_wrong_usage(tmp_path: Path) -> None:
    assert run("view", "--no-open", "--port", 65_536, tmp_path).returncode == 2
