"""Which cluster is joined: never one that is gone."""

from __future__ import annotations

import socket
from types import SimpleNamespace

from tracebraid.engine import ray_connection


def _ray_with_note(address: str) -> SimpleNamespace:
    utils = SimpleNamespace(read_ray_address=lambda: address)
    return SimpleNamespace(_private=SimpleNamespace(utils=utils))


def test_the_note_of_a_cluster_that_is_gone_is_not_followed() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert ray_connection._running(_ray_with_note(f"127.0.0.1:{port}")) is None
    assert ray_connection._running(_ray_with_note("")) is None
