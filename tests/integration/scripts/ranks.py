"""A rank of two, whose loop is captured: `ranks.py FOLDER KIND [STORE]`, with a store both ranks are started here.

RECORDER in the environment names the recorder.
"""

import os
import signal
import sys

import tiny
import torch
from torch import distributed

import tracebraid

STEPS = 12


def shard(model: torch.nn.Sequential) -> torch.nn.Module:
    from torch.distributed.fsdp import fully_shard

    fully_shard(model[0])
    return fully_shard(model)


def loop(folder: str, kind: str) -> None:
    rank = distributed.get_rank()
    model = tiny.make_model()
    model = shard(model) if kind == "fsdp" else torch.nn.parallel.DistributedDataParallel(model)
    optimizer = tiny.make_optimizer(model)
    with tracebraid.capture(folder, recorder=os.environ.get("RECORDER", "auto")) as cap:
        for step in range(STEPS):
            tiny.train(model, optimizer)
            if rank == 1 and (kind, step) in (("killed-inside", 8), ("killed-after", 11)):
                os.kill(os.getpid(), signal.SIGKILL)
            cap.step()
        # Here ranks and groups are known no longer, and the capture has not ended yet.
        distributed.destroy_process_group()


def spawned(rank: int, folder: str, kind: str, store: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    loop(folder, kind)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        torch.multiprocessing.spawn(spawned, tuple(sys.argv[1:]), nprocs=2)
    else:
        distributed.init_process_group("gloo")
        loop(*sys.argv[1:])
