"""Two ranks of DDP, of which rank 1 sleeps in each step: `straggler.py FOLDER STORE`; with STACKS set, with stacks."""

import os
import sys
import time
from typing import Any

import tiny
import torch
from torch import distributed

import tracebraid

SKIPPED, WARM_UP, ACTIVE = 1, 1, 9
SLEEP_S = 0.05
"""At least; five times what the step before took on a machine that is busy, whose own delays are shorter than that."""


def rank_of_two(rank: int, folder: str, store: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(tiny.make_model())
    optimizer = tiny.make_optimizer(model)
    settings: dict[str, Any] = {"skip_first": SKIPPED, "wait": 0, "warmup": WARM_UP, "active": ACTIVE}
    settings["stacks"] = "STACKS" in os.environ
    with tracebraid.capture(folder, recorder="torch", check=False, **settings) as cap:
        took_s = 0.0
        for _ in range(SKIPPED + WARM_UP + ACTIVE):
            if rank == 1:
                time.sleep(min(max(SLEEP_S, 5 * took_s), 1))
            begin_s = time.perf_counter()
            tiny.train(model, optimizer)
            took_s = time.perf_counter() - begin_s
            cap.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(rank_of_two, tuple(sys.argv[1:]), nprocs=2)
