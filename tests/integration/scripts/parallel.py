"""Ranks over gloo, a step of whose loop is captured: `parallel.py FOLDER KIND WORLD [--count]`.

KIND is ddp, fsdp, pipeline (stages that send and receive), groups (two by two: tensor and data parallel),
collectives (one of each that gloo knows), tensor (DTensor's tensor parallelism), tensor_fsdp (the same, two ranks each,
under FSDP2 over the others), or all_to_all (a mixture of experts: tokens to experts and back). Of several kinds with a
comma between them the traces are in FOLDER/KIND.

With --count each rank writes what it communicates in a step that is not captured to FOLDER/communication_<rank>.json.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from descent import SGD
from ranks import shard
from tiny import make_model
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.utils._python_dispatch import TorchDispatchMode

import tracebraid

STEPS = 3
MICROBATCHES = 2
SHAPE = (8, 32)

Step = Callable[[], None]


TYPES = {
    "allreduce_": "all_reduce",
    "all_reduce": "all_reduce",
    "allgather_": "all_gather",
    "_allgather_base_": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "alltoall_base_": "all_to_all",
    "broadcast_": "broadcast",
    "reduce_": "reduce",
    "gather_": "gather",
    "scatter_": "scatter",
    "barrier": "barrier",
    "send": "send",
    "recv_": "recv",
}
OUTPUT_FIRST = (
    "allgather_",
    "_allgather_base_",
    "_reduce_scatter_base_",
    "alltoall_base_",
    "gather_",
    "scatter_",
)


def tensor_bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(map(tensor_bytes, value)) if isinstance(value, (list, tuple)) else 0


class Counted(TorchDispatchMode):
    """Counts communication as PyTorch's dispatcher calls it: type, ranks of the group, bytes given and got, peer."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        space, name = func._schema.name.split("::")
        if space in ("c10d", "_c10d_functional") and name not in ("wait_tensor", "_wrap_tensor_autograd"):
            self.calls.append(self.counted(space, name, args))
        return func(*args, **(kwargs or {}))

    def counted(self, space: str, name: str, args: Any) -> dict[str, Any]:
        kind = TYPES[name]
        if space == "c10d":
            boxed = next(value for value in args if "ProcessGroup" in str(value))
            group = distributed.ProcessGroup.unbox(boxed)
        else:
            group = distributed.distributed_c10d._resolve_process_group(args[-1])
        ranks = distributed.get_process_group_ranks(group)
        given = args[1] if space == "c10d" and name in OUTPUT_FIRST else args[0]
        call = {"type": kind, "ranks": ranks, "bytes": 0 if kind == "barrier" else tensor_bytes(given)}
        return {**call, "peer": ranks[args[2]]} if kind in ("send", "recv") else call


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


def tensor_parallel(model: torch.nn.Sequential, mesh: DeviceMesh) -> torch.nn.Module:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def tensor_fsdp(world: int) -> torch.nn.Module:
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "tp"))
    model = tensor_parallel(make_model(), mesh["tp"])
    return fully_shard(model, mesh=mesh["dp"])


def all_to_all(world: int) -> Step:
    """A mixture of experts, an expert a rank: of each rank's tokens each expert gets as many."""
    expert = torch.nn.Linear(SHAPE[1], SHAPE[1])
    optimizer = SGD(expert.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(MICROBATCHES):
            tokens = torch.ones(world * SHAPE[0], SHAPE[1])
            given, returned = torch.empty_like(tokens), torch.empty_like(tokens)
            distributed.all_to_all_single(given, tokens)
            out = expert(given)
            distributed.all_to_all_single(returned, out.detach())
            out.backward(returned)
        optimizer.step()

    return step


def loops(rank: int, folder: str, kinds: str, world: int, store: str, counts: bool) -> None:
    torch.set_num_threads(1)
    for kind in kinds.split(","):
        own = f"{folder}/{kind}" if "," in kinds else folder
        loop(rank, own, kind, world, f"{store}_{kind}", counts)


def loop(rank: int, folder: str, kind: str, world: int, store: str, counts: bool) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    steps: dict[str, Callable[[], Step]] = {
        "ddp": lambda: trained(torch.nn.parallel.DistributedDataParallel(make_model())),
        "fsdp": lambda: trained(shard(make_model())),
        "pipeline": lambda: pipeline(rank, world),
        "groups": lambda: groups(rank),
        "collectives": lambda: collectives(world),
        "tensor": lambda: trained(tensor_parallel(make_model(), init_device_mesh("cpu", (world,)))),
        "tensor_fsdp": lambda: trained(tensor_fsdp(world)),
        "all_to_all": lambda: all_to_all(world),
    }
    step = steps[kind]()
    if counts:
        # DDP lays out its buckets anew in the second step, and tells the other ranks.
        for _ in range(2):
            step()
        with Counted() as counted:
            step()
        Path(folder).mkdir(exist_ok=True, parents=True)
        Path(folder, f"communication_{rank}.json").write_text(json.dumps(counted.calls))
    with tracebraid.capture(folder, skip_first=1, wait=0, warmup=1, active=1, check=False) as cap:
        for _ in range(STEPS):
            step()
            cap.step()
        distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as stores:
        world = int(sys.argv[3])
        arguments = (*sys.argv[1:3], world, f"{stores}/store", "--count" in sys.argv)
        torch.multiprocessing.spawn(loops, arguments, nprocs=world)
