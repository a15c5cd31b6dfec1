"""Ranks over gloo, a step of whose loop is captured: `parallel.py FOLDER KIND WORLD`.

KIND is ddp, fsdp, pipeline (stages that send and receive), groups (two by two: tensor and data parallel), or
collectives (one of each that gloo knows).
"""

import sys
import tempfile
from collections.abc import Callable

import torch
from descent import SGD
from ranks import shard
from tiny import make_model
from torch import distributed

import tracebraid

STEPS = 3
MICROBATCHES = 2
SHAPE = (8, 32)

Step = Callable[[], None]


def trained(model: torch.nn.Module) -> Step:
    optimizer = SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()

    return step


def pipeline(rank: int, world: int) -> Step:
    """All microbatches forward, then all backward; sends do not wait for their receiver."""
    layer = torch.nn.Linear(SHAPE[1], SHAPE[1])
    optimizer = SGD(layer.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        sent, done = [], []
        for _ in range(MICROBATCHES):
            given = torch.ones(SHAPE)
            if rank > 0:
                distributed.recv(given, rank - 1)
            given.requires_grad_()
            out = layer(given)
            if rank + 1 < world:
                sent.append(distributed.isend(out.detach(), rank + 1))
            done.append((given, out))
        for given, out in done:
            grad = torch.ones(SHAPE)
            if rank + 1 < world:
                distributed.recv(grad, rank + 1)
            out.backward(grad)
            if rank > 0:
                sent.append(distributed.isend(given.grad, rank - 1))
        for work in sent:
            work.wait()
        optimizer.step()

    return step


def groups(rank: int) -> Step:
    """Ranks 0 and 1, 2 and 3 share each layer; 0 and 2, 1 and 3 average their gradients."""
    tensor = [distributed.new_group(ranks) for ranks in ((0, 1), (2, 3))][rank // 2]
    data = [distributed.new_group(ranks) for ranks in ((0, 2), (1, 3))][rank % 2]
    layer = torch.nn.Linear(SHAPE[1], SHAPE[1])

    def step() -> None:
        out = layer(torch.ones(SHAPE))
        distributed.all_reduce(out.detach(), group=tensor)
        out.sum().backward()
        for parameter in layer.parameters():
            distributed.all_reduce(parameter.grad, group=data)

    return step


def collectives(world: int) -> Step:
    whole, parts = torch.ones(world * 16), torch.ones(world, 16)

    def step() -> None:
        distributed.broadcast(whole, 0)
        distributed.all_gather([torch.empty(16) for _ in range(world)], parts[0])
        distributed.reduce_scatter_tensor(torch.empty(16), whole)
        distributed.all_to_all_single(torch.empty_like(whole), whole)
        is_root = distributed.get_rank() == 0
        distributed.gather(parts[0], [torch.empty(16) for _ in range(world)] if is_root else None)
        distributed.scatter(torch.empty(16), list(parts) if is_root else None)
        distributed.reduce(whole, 0)
        distributed.barrier()
        distributed.all_reduce(whole)

    return step


def loop(rank: int, folder: str, kind: str, world: int, store: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    steps: dict[str, Callable[[], Step]] = {
        "ddp": lambda: trained(torch.nn.parallel.DistributedDataParallel(make_model())),
        "fsdp": lambda: trained(shard(make_model())),
        "pipeline": lambda: pipeline(rank, world),
        "groups": lambda: groups(rank),
        "collectives": lambda: collectives(world),
    }
    step = steps[kind]()
    with tracebraid.capture(folder, skip_first=1, wait=0, warmup=1, active=1, check=False) as cap:
        for _ in range(STEPS):
            step()
            cap.step()
        distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as stores:
        world = int(sys.argv[3])
        torch.multiprocessing.spawn(loop, (*sys.argv[1:3], world, f"{stores}/store"), nprocs=world)
