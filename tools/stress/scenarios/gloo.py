"""Two ranks with gloo: collectives, DDP, asynchronous work; in some seeds a rank is killed in the middle."""

from __future__ import annotations

import multiprocessing
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from tools.stress.model import Scenario
from tools.stress.run import Network, Run, digest_of


def work(run: Run) -> None:
    """A second rank in a child; this process is rank 0."""
    is_killed = run.random.random() < 0.4
    context = multiprocessing.get_context("spawn")
    results: Any = context.SimpleQueue()
    other = context.Process(target=_other, args=(run.seed, run.folder, is_killed, results))
    other.start()
    run.note(*_train(run, 0, run.folder / "store", is_killed))
    if not is_killed:
        run.note(results.get())
    other.join()
    run.note(other.exitcode)
    (run.folder / "store").unlink(missing_ok=True)


def _other(seed: int, folder: Path, is_killed: bool, results: Any) -> None:
    torch.set_num_threads(1)
    results.put(_train(Run(seed, folder), 1, folder / "store", is_killed))


def _train(run: Run, rank: int, store: Path, is_killed: bool) -> list[str]:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    network = torch.nn.parallel.DistributedDataParallel(Network().eval())
    told: list[str] = []
    with run.captured() as step:
        for number in range(14):
            if number == 6 and is_killed and rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                value = torch.full((4,), float(rank + number))
                work = torch.distributed.all_reduce(value, async_op=True)
                work.wait()
                network(torch.ones(2, 8)).sum().backward()
                told.append(digest_of(value, *(one.grad for one in network.parameters())))
            except RuntimeError:
                told.append("the other rank is gone")
                break
            step()
    if not is_killed:
        torch.distributed.destroy_process_group()
    return told[:5] if is_killed else told


def _why_not() -> str:
    return "" if torch.distributed.is_available() else "this torch has no torch.distributed"


SCENARIO = Scenario(
    "DDP over gloo, two ranks, one of them killed in some", work, may_lose=True, why_not=_why_not
)
