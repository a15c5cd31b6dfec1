"""Does a Ray cluster answer at an address? Ray itself tries for minutes."""

from __future__ import annotations

import os
import re
import socket

from tracebraid.errors import EngineError

__all__ = ["check_cluster_answers"]

_TIMEOUT_S = 5.0
"""A cluster of the same network answers in milliseconds."""
_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[^:/\s]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What a client of HTTP/2, and so of gRPC, sends first: RFC 9113, 3.4, with an empty frame of settings."""
_HEADER_BYTES = 9
_SETTINGS = 4


def check_cluster_answers(address: str) -> None:
    """Check that something answers as a Ray cluster does: by gRPC.

    Args:
        address: `host:port`, or `ray://host:port`.

    Raises:
        EngineError: it is no such address, or nothing answers, or something else does.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 1 << 16:
        raise EngineError(
            f"{address!r} is no address of a Ray cluster: give host:port, such as 10.0.0.1:6379"
        )
    try:
        with socket.create_connection((match["host"].strip("[]"), int(match["port"])), _TIMEOUT_S) as stream:
            is_grpc = os.environ.get("RAY_USE_TLS") == "1" or _speaks_grpc(stream)
    except OSError as error:
        reason = error.strerror or str(error) or "no answer"
        raise EngineError(f"no Ray cluster answers at {address} ({reason}); {_ADVICE}") from error
    if not is_grpc:
        raise EngineError(f"what answers at {address} is no Ray cluster; {_ADVICE}")


_ADVICE = "check the address (of a head node its port 6379), or leave it out"


def _speaks_grpc(stream: socket.socket) -> bool:
    stream.sendall(_PREFACE)
    header = b""
    while len(header) < _HEADER_BYTES:
        more = stream.recv(_HEADER_BYTES - len(header))
        if not more:
            return False
        header += more
    return header[3] == _SETTINGS
