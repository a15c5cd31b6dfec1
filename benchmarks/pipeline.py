"""A model in one process and as a pipeline of two, in turn, and what `pipeline 1->2` says of the first.

`python -m benchmarks.pipeline --rounds 3` prints the median step of each round, and the predicted one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from torch import distributed, multiprocessing, nn

import tracebraid
from benchmarks.shape_programs import FeedForward

__all__ = ["main"]

WIDTH, ROWS, BLOCKS, MICRO_BATCHES, FEATURES = 384, 64, 4, 4, 64
SKIPPED, STEPS = 5, 40


class Stage:
    """The blocks of a stage, and its messages."""

    def __init__(self, stage: int, stages: int) -> None:
        self.first, self.last = stage == 0, stage == stages - 1
        self.stage, self.ahead = stage, stages - 1 - stage
        layers: list[nn.Module] = [FeedForward(WIDTH, 1) for _ in range(BLOCKS // stages)]
        head = [nn.Linear(FEATURES, WIDTH)] if self.first else []
        tail = [nn.Linear(WIDTH, FEATURES)] if self.last else []
        self.model = nn.Sequential(*head, *layers, *tail)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.under_way: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.sent: list[tuple[distributed.Work | None, torch.Tensor]] = []

    def step(self) -> None:
        """A step in the order of 1F1B."""
        for _ in range(self.ahead):
            self.forward()
        for _ in range(MICRO_BATCHES - self.ahead):
            self.forward()
            self.backward()
        for _ in range(self.ahead):
            self.backward()
        for work, _ in self.sent:
            if work is not None:
                work.wait()
        self.sent.clear()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def forward(self) -> None:
        """A micro-batch, from the stage before and to the next one."""
        given = torch.randn(ROWS, FEATURES) if self.first else self.received(self.stage - 1).requires_grad_()
        found = self.model(given)
        if self.last:
            found = found.square().mean()
        else:
            self.send(found.detach(), self.stage + 1)
        self.under_way.append((given, found))

    def backward(self) -> None:
        """The oldest micro-batch."""
        given, found = self.under_way.pop(0)
        found.backward(None if self.last else self.received(self.stage + 1))
        if not self.first:
            assert given.grad is not None
            self.send(given.grad, self.stage - 1)

    def received(self, rank: int) -> torch.Tensor:
        """Activations, or their gradients."""
        message = torch.empty(ROWS, WIDTH)
        distributed.recv(message, rank)
        return message

    def send(self, message: torch.Tensor, rank: int) -> None:
        """Send without waiting."""
        self.sent.append((distributed.isend(message, rank), message))


def _run(rank: int, stages: int, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    if stages > 1:
        distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=stages)
    stage, seconds = Stage(rank, stages), []
    for _ in range(SKIPPED + STEPS):
        begins = time.perf_counter()
        stage.step()
        seconds.append(time.perf_counter() - begins)
    if rank == 0:
        (folder / "seconds").write_text(str(median(seconds[SKIPPED:])))
    if stages == 1:
        with tracebraid.capture(folder / "traces", check=False) as capture:
            for _ in range(SKIPPED + STEPS):
                stage.step()
                capture.step()
    else:
        distributed.destroy_process_group()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    for number in range(1, parser.parse_args().rounds + 1):
        took = {}
        with tempfile.TemporaryDirectory() as folder:
            for stages in (1, 2) if number % 2 else (2, 1):
                multiprocessing.spawn(_run, (stages, Path(folder)), stages)
                took[stages] = float((Path(folder) / "seconds").read_text())
            found = tracebraid.what_if(tracebraid.open(Path(folder) / "traces"), "pipeline 1->2")
        assert found.unrecorded is not None
        share = found.unrecorded.after_ns / found.unrecorded.before_ns
        error = took[1] * share / took[2] - 1
        print(
            f"round {number}: {1e3 * took[1]:.1f} ms, as a pipeline {1e3 * took[2]:.1f} ms; predicted {share:.1%} of "
            f"the step, {1e3 * took[1] * share:.1f} ms: {error:+.1%}"
        )


if __name__ == "__main__":
    main()
