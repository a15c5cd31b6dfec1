"""A wrong address is an error within a moment, whatever answers there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from tests.waiting import HANG_S
from tracebraid.engine import ray_connection
from tracebraid.engine.ray_connection import check_cluster_answers
from tracebraid.engine.ray_engine import RayEngine
from tracebraid.errors import EngineError
from tracebraid.model.rank_files import RankFiles


@contextmanager
def listening(answer: Callable[[socket.socket], None] | None) -> Iterator[str]:
    """The address of a server that takes one connection, where it does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            stream, _ = server.accept()
            with closing(stream):
                assert answer is not None
                answer(stream)

        thread = threading.Thread(target=serve, daemon=True)
        if answer is not None:
            thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        if answer is not None:
            thread.join(HANG_S)


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    "address", ["", "nonsense", "host", "host:", "host:0", "host:70000", "http://host:1", "a b:1"]
)
def test_what_is_no_address_is_an_error_that_shows_one(address: str) -> None:
    with pytest.raises(EngineError, match="host:port"):
        check_cluster_answers(address)


@pytest.mark.slow
def test_a_port_that_nobody_listens_on_is_an_error_before_ray_tries_for_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_connection, "_init", pytest.fail)
    with pytest.raises(EngineError, match="no Ray cluster answers at 127"):
        list(RayEngine(free_address()).outcomes(never, [RankFiles(0, "a", None)], None))


def never(files: RankFiles, progress: object) -> None:
    raise AssertionError("no work is done without a cluster")


def test_a_server_of_something_else_is_an_error() -> None:
    with (
        listening(lambda stream: stream.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address,
        pytest.raises(EngineError, match="Ray cluster"),
    ):
        check_cluster_answers(address)


def test_a_server_that_hangs_up_is_an_error() -> None:
    with listening(lambda stream: None) as address, pytest.raises(EngineError, match="Ray cluster"):
        check_cluster_answers(address)


def test_a_server_that_says_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connection, "_TIMEOUT_S", 0.2)
    with listening(None) as address, pytest.raises(EngineError, match="no Ray cluster answers"):
        check_cluster_answers(address)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_server_of_grpc_is_taken_for_a_cluster(scheme: str) -> None:
    with listening(lambda stream: stream.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))) as address:
        check_cluster_answers(scheme + address)
