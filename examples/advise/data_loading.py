"""Training that waits for its data: the batches are read in the process that trains.

python data_loading.py traces/slow
python data_loading.py traces/mended --mended       # four workers read ahead
"""

from __future__ import annotations

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset

import tracebraid

READ_S = 0.004
"""What it takes to read a sample from a remote disk."""
BATCH, FEATURES, STEPS = 10, 256, 18


class Samples(Dataset[torch.Tensor]):
    """Samples of which each takes its time to read."""

    def __len__(self) -> int:
        return BATCH * STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(READ_S)
        return torch.full((FEATURES,), index / len(self))


def loader_of(mended: bool) -> DataLoader[torch.Tensor]:
    """The data loader; mended, with workers that read ahead: they wait, so there may be more than there are cores."""
    if mended:
        return DataLoader(Samples(), BATCH, num_workers=4, prefetch_factor=4, persistent_workers=True)
    return DataLoader(Samples(), BATCH)


def main() -> None:
    """Train, and capture some steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--mended", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = loader_of(arguments.mended)
    with tracebraid.capture(arguments.folder, skip_first=2, wait=0, warmup=1, active=12) as capture:
        for batch in loader:
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            capture.step()


if __name__ == "__main__":
    main()
