"""A small training or inference program that knows nothing of tracing: `train.py STEPS [words]`, see each word."""

import os
import signal
import sys

import torch
from descent import SGD
from torch import nn
from torch.profiler import record_function

WORDS = set(sys.argv[2:])
STEPS = int(sys.argv[1])


def make_model() -> nn.Module:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
    if "compile" in WORDS:
        return torch.compile(model, backend="aot_eager")
    if "fsdp" in WORDS:
        from torch.distributed.fsdp import fully_shard

        return fully_shard(model)
    if "dist" in WORDS:
        return nn.parallel.DistributedDataParallel(model)
    return model


class Noise(nn.Module):
    """A transform that is a module, as those of vision libraries are."""

    def forward(self, row: torch.Tensor) -> torch.Tensor:
        return row + torch.rand_like(row)


class Rows(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.transform = Noise()

    def __len__(self) -> int:
        return STEPS * 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(torch.ones(16))


def disturb(step: int) -> None:
    """What goes wrong in step 8."""
    if step == 8 and "raise" in WORDS:
        raise ValueError("boom")
    if step == 8 and "exit" in WORDS:
        sys.exit(3)
    if step == 8 and "terminate" in WORDS:
        os.kill(os.getpid(), signal.SIGTERM)
    if step == 8 and "kill" in WORDS and os.environ.get("RANK") == "1":
        os.kill(os.getpid(), signal.SIGKILL)


def train() -> None:
    model = make_model()
    optimizers = [SGD(model.parameters(), lr=0.1)]
    if "gan" in WORDS:
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())]
    workers = 2 if WORDS & {"workers", "spawned-workers"} else 0
    context = "spawn" if "spawned-workers" in WORDS else "fork" if workers else None
    loader = torch.utils.data.DataLoader(
        Rows(), batch_size=4, num_workers=workers, multiprocessing_context=context
    )
    for step, batch in enumerate(loader):
        model(batch).sum().backward()
        for optimizer in optimizers:
            if "annotated" in WORDS:
                with record_function("## optimizer ##"):
                    optimizer.step()
            else:
                optimizer.step()
            optimizer.zero_grad()
        disturb(step)


def infer() -> None:
    model = make_model()
    with torch.no_grad():
        for _ in range(STEPS):
            model(torch.ones(4, 16))


def main() -> None:
    torch.set_num_threads(1)
    if WORDS & {"dist", "fsdp"}:
        torch.distributed.init_process_group("gloo")
    infer() if "infer" in WORDS else train()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    print("done")


if __name__ == "__main__":
    main()
