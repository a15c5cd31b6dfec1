"""Recordings of our own that start and stop on several threads, while others train, load data and fork."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
import time
from pathlib import Path

import torch

import tracebraid
from tools.stress.model import Scenario
from tools.stress.run import Network, Run


def work(run: Run) -> None:
    """Everything at once, for a few seconds."""
    until_s = time.monotonic() + (30.0 if run.is_full else 2.0)
    failures: list[BaseException] = []
    recorded: list[int] = []
    shared = torch.randn(100)
    # No thread draws of the program's random numbers: a fork while their mutex is held hangs in PyTorch.
    drawn = random.Random(run.seed)
    networks = [Network().eval() for _ in range(3)]

    def train(network: Network) -> None:
        rows = torch.ones(4, 8)
        while time.monotonic() < until_s:
            network(rows).sum().backward()
            short = threading.Thread(target=lambda: torch.ones(2) + 1)
            short.start()
            short.join()

    def share() -> None:
        while time.monotonic() < until_s:
            shared[drawn.randrange(50) :].view(-1).add(1)

    def fork() -> None:
        while time.monotonic() < until_s:
            if (pid := os.fork()) == 0:
                torch.ones(2)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            time.sleep(0.02)

    def record(path: Path) -> None:
        while time.monotonic() < until_s:
            observer = tracebraid.ExecutionTraceObserver("native")
            observer.register_callback(path)
            for _ in range(drawn.randrange(1, 4)):
                observer.start()
                time.sleep(drawn.random() * 0.03)
                observer.stop()
            observer.unregister_callback()
            recorded.append(_checked(path))

    def held(action: object, *arguments: object) -> None:
        try:
            action(*arguments)  # type: ignore[operator]
        except BaseException as error:
            failures.append(error)
            raise

    jobs: list[tuple[object, ...]] = [(share,), (share,), (fork,), *((train, one) for one in networks)]
    jobs += [(record, run.folder / f"et_{number}.json.gz") for number in range(2)]
    threads = [threading.Thread(target=held, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    with run.captured() as step:
        for _ in range(12):
            step()
            time.sleep(0.1)
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert sum(recorded) > 0


def _checked(path: Path) -> int:
    """The number of nodes of a recording, all of which are right."""
    nodes = json.loads(gzip.decompress(path.read_bytes()))["nodes"]
    by_id = {node["id"]: {one["name"]: one["value"] for one in node["attrs"]} for node in nodes}
    assert len(by_id) == len(nodes)
    for node in nodes:
        parent, own = by_id[node["ctrl_deps"]], by_id[node["id"]]
        assert parent["tid"] in (own["tid"], 0), node["name"]
        assert own["fw_parent"] == 0 or own["fw_parent"] in by_id, node["name"]
    return len(nodes)


SCENARIO = Scenario(
    "two threads start and stop recordings while five train and one forks", work, recorders=("native",)
)
