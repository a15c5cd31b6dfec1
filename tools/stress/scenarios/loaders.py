"""DataLoaders with workers: forked and spawned, persistent and not, whose transforms run operators and raise."""

from __future__ import annotations

from contextlib import suppress

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run


class _Rows(torch.utils.data.Dataset):
    """Rows that are computed in the worker; one of them raises."""

    def __init__(self, failing: int) -> None:
        self.failing = failing

    def __len__(self) -> int:
        """How many rows there are."""
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        """A row, with random numbers of the worker's own."""
        if index == self.failing:
            raise ValueError(f"row {index}")
        return torch.nn.functional.relu(torch.rand(4)) + index


def work(run: Run) -> None:
    """One loader through all steps, and some more within."""
    context = "spawn" if run.seed % 3 == 0 else "fork"
    persistent = run.random.random() < 0.5
    generator = torch.Generator().manual_seed(run.seed)
    loader = torch.utils.data.DataLoader(
        _Rows(-1),
        4,
        num_workers=2,
        multiprocessing_context=context,
        persistent_workers=persistent,
        generator=generator,
    )
    failing = torch.utils.data.DataLoader(
        _Rows(5), 4, num_workers=1, multiprocessing_context="fork", generator=generator
    )
    with run.captured() as step:
        for number in range(4):
            for batch in loader:
                run.note(batch)
                step()
            if number % 2:
                with suppress(ValueError):
                    for batch in failing:
                        run.note(batch)
                    run.note("it did not raise")
            step()


SCENARIO = Scenario("DataLoader workers: fork and spawn, persistent, with rows that raise", work)
