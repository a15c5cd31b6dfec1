"""The connection to a Ray cluster: to one that runs, else to one that is started here and ends with the run."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import socket
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracebraid.engine.automatic import cores
from tracebraid.errors import EngineError
from tracebraid.extras import Extra, missing_extra

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
"""Environment of Ray's processes: no usage statistics."""
_OPTIONS: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
_LOOPBACK = "127.0.0.1"
_SHORT_FOLDER = Path("/tmp")
"""The path of a socket has 107 bytes at most, and TMPDIR may be long."""
_TIMEOUT_S = 5.0
"""Time for a cluster to answer, as Ray itself tries for minutes; one of the same network answers in milliseconds."""
_ADDRESS = re.compile(r"(?:ray://)?(?P<host>[^:/\s]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""Preface of an HTTP/2 (hence gRPC) client: RFC 9113, 3.4, with an empty settings frame."""
_HEADER_BYTES = 9
_SETTINGS = 4
_ADVICE = "check the address (of a head node its port 6379), or leave it out"


def ray_library() -> Any:
    """The module `ray`, with its exceptions."""
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise missing_extra(Extra.RAY) from error
    return ray


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster for as long as the block runs.

    A program that is connected to a cluster already works on that one, and stays connected. Else it is the cluster of
    the address, that of `RAY_ADDRESS`, or one that runs on this machine. If there is none, one is started, which
    only this machine reaches, and is ended with the block.
    """
    ray = ray_library()
    if ray.is_initialized():
        _refuse_other(ray, address)
        yield ray
        return
    with _without_messages(ray):
        folder = _connect(ray, address or os.environ.get("RAY_ADDRESS") or None)
        try:
            yield ray
        finally:
            with _quiet():
                ray.shutdown()
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


def _refuse_other(ray: Any, address: str | None) -> None:
    """Reject a cluster other than the connected one: Ray supports one at a time."""
    own = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", own):
        raise EngineError(
            f"this program is connected to the Ray cluster at {own}, not {address}; drop the address"
        )


def _connect(ray: Any, address: str | None) -> Path | None:
    """Connect to a cluster; the folder of the one that was started, None if one ran."""
    if address is not None and address not in ("auto", "local"):
        check_cluster_answers(address)
    try:
        with _quiet():
            return _init(ray, address)
    except (OSError, ValueError, RuntimeError, ImportError, AssertionError) as error:
        where = f"the Ray cluster at {address}" if address else "a Ray cluster"
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise EngineError(
            f"{where} cannot be used: {reason}. Check the address, or use the engine pool"
        ) from error


def _init(ray: Any, address: str | None) -> Path | None:
    found = address or _running(ray)
    if found not in (None, "local"):
        ray.init(address=found, **_OPTIONS)
        return None
    folder = Path(tempfile.mkdtemp(prefix="tb-", dir=_SHORT_FOLDER if _SHORT_FOLDER.is_dir() else None))
    ray.init(
        address="local",
        num_cpus=cores(),
        include_dashboard=False,
        _temp_dir=str(folder),
        _node_ip_address=_LOOPBACK,
        **_OPTIONS,
    )
    return folder


def _running(ray: Any) -> str | None:
    """The cluster that was started last on this machine, by Ray's own note of it; None if it does not answer."""
    address: str | None = ray._private.utils.read_ray_address()
    if not address:
        return None
    try:
        check_cluster_answers(address)
    except EngineError:
        # A head that was killed leaves its note behind.
        return None
    return address


@contextmanager
def _without_messages(ray: Any) -> Iterator[None]:
    """Suppress Ray's messages from its nodes, which would mix with answers on standard output.

    A lost worker is retried, and reported on failure. The switch is that of Ray's own debugger.
    """
    ray._private.worker._worker_logs_enabled = False
    try:
        yield
    finally:
        ray._private.worker._worker_logs_enabled = True


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Ray's warnings, and restore this process's state afterwards."""
    before = {name: os.environ.get(name) for name in _QUIET}
    logger = logging.getLogger("ray")
    level = logger.level
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    os.environ.update(_QUIET)
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        if is_main and handler is not None:
            signal.signal(signal.SIGTERM, handler)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def check_cluster_answers(address: str) -> None:
    """Check that something answers as a Ray cluster does: by gRPC."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 1 << 16:
        raise EngineError(
            f"{address!r} is not an address of a Ray cluster: give host:port, such as 10.0.0.1:6379"
        )
    try:
        with socket.create_connection((match["host"].strip("[]"), int(match["port"])), _TIMEOUT_S) as stream:
            is_grpc = os.environ.get("RAY_USE_TLS") == "1" or _speaks_grpc(stream)
    except OSError as error:
        reason = error.strerror or str(error) or "no answer"
        raise EngineError(f"no Ray cluster answers at {address} ({reason}); {_ADVICE}") from error
    if not is_grpc:
        raise EngineError(f"the server at {address} is not a Ray cluster; {_ADVICE}")


def _speaks_grpc(stream: socket.socket) -> bool:
    stream.sendall(_PREFACE)
    header = b""
    while len(header) < _HEADER_BYTES:
        more = stream.recv(_HEADER_BYTES - len(header))
        if not more:
            return False
        header += more
    return header[3] == _SETTINGS
