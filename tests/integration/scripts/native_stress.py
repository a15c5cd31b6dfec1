"""Training, workers and threads that come and go while others record: `native_stress.py SECONDS FOLDER [no-fork]`.

No thread draws random numbers while others fork: a child that is forked while the mutex of PyTorch's generator is held
waits for ever in `torch.manual_seed`, with which each worker begins, whether or not anything records.
"""

import faulthandler
import json
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tracebraid.recorders.native.recorder import NativeRecorder

warnings.simplefilter("ignore")
torch.set_num_threads(1)
END = time.monotonic() + float(sys.argv[1])
faulthandler.dump_traceback_later(float(sys.argv[1]) + 45, exit=True)
FOLDER = Path(sys.argv[2])
FORKS = "no-fork" not in sys.argv
SHARED = torch.randn(100)
INPUT = torch.randn(4, 16)
failures: list[BaseException] = []
recordings: list[int] = []


def is_over() -> bool:
    return time.monotonic() > END or bool(failures)


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


NETWORKS = [network() for _ in range(5)]


def train(number: int) -> None:
    while not is_over():
        with torch.profiler.record_function(f"step {number}"):
            NETWORKS[number](INPUT).sum().backward()
        short = threading.Thread(target=lambda: torch.ones(2) + 1)
        short.start()
        short.join()


def share(_: int) -> None:
    while not is_over():
        SHARED[random.randrange(50) :].view(-1).add(1)


def load(_: int) -> None:
    data = torch.utils.data.TensorDataset(torch.ones(32, 4))
    while not is_over():
        for (batch,) in torch.utils.data.DataLoader(data, 4, num_workers=2 * FORKS):
            batch.sum()
        time.sleep(0.1)


def record(number: int) -> None:
    while not is_over():
        path = FOLDER / f"et_{number}.json"
        recorder = NativeRecorder(path, random.choice([1 << 16, 1 << 18, 64 << 20]))
        recorder.open()
        for _ in range(random.randrange(1, 4)):
            recorder.start()
            time.sleep(random.random() * 0.05)
            recorder.stop()
        recorder.close()
        check(json.loads(path.read_bytes())["nodes"], recorder.counts.nodes)
        recordings.append(recorder.counts.nodes)


def check(nodes: list[dict[str, Any]], count: int) -> None:
    by_id = {node["id"]: {one["name"]: one["value"] for one in node["attrs"]} for node in nodes}
    assert len(by_id) == len(nodes)
    assert len({attrs["rf_id"] for attrs in by_id.values()} - {0}) == count
    for node in nodes:
        parent, own = by_id[node["ctrl_deps"]], by_id[node["id"]]
        assert parent["tid"] in (own["tid"], 0), node["name"]
        assert own["fw_parent"] == 0 or own["fw_parent"] in by_id, node["name"]


def held(work: Callable[[int], object], number: int) -> None:
    try:
        work(number)
    except BaseException as error:
        failures.append(error)
        raise


works = [train] * len(NETWORKS) + [share] * 2 + [load] + [record] * 2
threads = [threading.Thread(target=held, args=(work, number)) for number, work in enumerate(works)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures
print(f"{len(recordings)} recordings of {sum(recordings)} nodes")
