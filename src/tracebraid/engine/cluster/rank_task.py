"""The function that Ray runs on a node: it travels by value, so that it can say that our code is not there.

It imports what it needs itself, from Python's library and from Ray alone, until it knows that the versions agree.
"""

from __future__ import annotations

__all__ = ["run_task"]


def run_task(work: bytes, task: bytes, version: str, folder: str) -> tuple[str, str, bytes, bool]:
    """Work on a rank.

    Args:
        work: the work, as `work_bytes` has it.
        task: the rank, see `worker.work_on`.
        version: that of Tracebraid in the driver.
        folder: the driver's working folder, from which nothing is imported, though Ray would.

    Returns:
        The node; a clause why it cannot be used, or ""; and the result of `worker.work_on`.
    """
    import os
    import socket
    import sys

    from ray.util import get_node_ip_address

    node = f"node {socket.gethostname()} ({get_node_ip_address()})"
    os.environ["POLARS_MAX_THREADS"] = "1"
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != os.path.realpath(folder)]
    try:
        from tracebraid.version import __version__ as own
    except ImportError as error:
        return node, f"has no Tracebraid ({error}): install version {version} there", b"", False
    if own != version:
        problem = f"has Tracebraid {own}, and this process {version}: install the same version on both"
        return node, problem, b"", False
    from tracebraid.engine.cluster.worker import work_on

    return node, "", *work_on(work, task, folder, node)
