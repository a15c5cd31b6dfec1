"""Training that computes its metrics in each step, on the host and in Python.

python metrics_in_the_step.py traces/slow
python metrics_in_the_step.py traces/mended --mended       # every hundredth step
"""

from __future__ import annotations

import argparse

import torch
from torch.profiler import record_function

import tracebraid

SAMPLES, FEATURES, STEPS, SELDOM = 4000, 64, 18, 100


def accuracy_by_threshold(scores: torch.Tensor, labels: torch.Tensor) -> dict[float, float]:
    """The share of samples on the right half of each threshold, one sample after the other."""
    pairs = list(zip(scores.tolist(), labels.tolist(), strict=True))
    return {
        threshold / 20: sum((score > threshold / 20) == label for score, label in pairs) / len(pairs)
        for threshold in range(20)
    }


def main() -> None:
    """Train, and capture some steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--mended", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    inputs, labels = torch.randn(SAMPLES, FEATURES), torch.rand(SAMPLES) > 0.5
    model = torch.nn.Linear(FEATURES, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    logged = []
    with tracebraid.capture(arguments.folder, skip_first=2, wait=0, warmup=1, active=12) as capture:
        for number in range(STEPS):
            scores = model(inputs).squeeze(1).sigmoid()
            torch.nn.functional.binary_cross_entropy(scores, labels.float()).backward()
            optimizer.step()
            optimizer.zero_grad()
            if not arguments.mended or number % SELDOM == 0:
                with record_function("log metrics"):
                    logged.append(accuracy_by_threshold(scores, labels))
            capture.step()


if __name__ == "__main__":
    main()
