"""The connection to a Ray cluster: to one that runs, else to one that is started here and ends with the run."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracebraid.engine.cluster.library import ray_library
from tracebraid.engine.cluster.probe import check_cluster_answers
from tracebraid.engine.memory import cores
from tracebraid.errors import EngineError

__all__ = ["connected"]

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}
"""Variables of what Ray starts: it sends nobody statistics."""
_OPTIONS: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
_LOOPBACK = "127.0.0.1"
_SHORT_FOLDER = Path("/tmp")
"""The path of a socket has 107 bytes at most, and TMPDIR may be long."""


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster for as long as the block runs.

    A program that is connected to a cluster already works on that one, and stays connected. Else it is the cluster of
    the address, that of `RAY_ADDRESS`, or one that runs on this machine. If there is none, one is started, which
    only this machine reaches, and is ended with the block.

    Args:
        address: of the cluster, as `ray.init` takes it; None for any.

    Raises:
        MissingLibraryError: Ray is not installed.
        EngineError: the cluster does not answer, or is of another version of Ray or Python.
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
    """Refuse another cluster than that which this program is connected to: Ray knows one at a time.

    Raises:
        EngineError: it is another one.
    """
    own = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", own):
        raise EngineError(
            f"this program is connected to the Ray cluster at {own}, not {address}; leave out the address"
        )


def _connect(ray: Any, address: str | None) -> Path | None:
    """Connect to a cluster; the folder of the one that was started, None where one ran."""
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
    """The cluster that was started last on this machine, by Ray's own note of it; None where it does not answer."""
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
    """Within it Ray prints no message of its nodes: it would among the answers, on standard output.

    A lost worker is tried again, and reported where that is in vain. The switch is that of Ray's own debugger.
    """
    ray._private.worker._worker_logs_enabled = False
    try:
        yield
    finally:
        ray._private.worker._worker_logs_enabled = True


@contextmanager
def _quiet() -> Iterator[None]:
    """Within it Ray warns of nothing; what it changes in this process is as before after it."""
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
