"""Settings of torch that change while windows open and close."""

from __future__ import annotations

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run


def work(run: Run) -> None:
    """Numbers of threads, determinism, types by default, modes of autograd, anomaly detection."""
    with run.captured() as step:
        for number in range(12):
            torch.set_num_threads(1 + number % 3)
            torch.use_deterministic_algorithms(number % 2 == 0)
            value = torch.full((64, 64), 0.5, requires_grad=True)
            with torch.autograd.set_detect_anomaly(run.random.random() < 0.3):
                (value @ value).relu().sum().backward()
            with torch.inference_mode(run.random.random() < 0.5):
                run.note(torch.arange(4) * 2)
            with torch.autocast("cpu", enabled=run.random.random() < 0.5):
                run.note(torch.ones(2, 2) @ torch.ones(2, 2))
            with torch.device("meta"):
                run.note(tuple(torch.ones(3).shape))
            run.note(value.grad, torch.are_deterministic_algorithms_enabled(), torch.get_num_threads())
            torch.use_deterministic_algorithms(False)
            torch.set_num_threads(1)
            step()


SCENARIO = Scenario("threads, determinism, autocast, inference mode, anomaly detection", work)
