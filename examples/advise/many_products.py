"""A mixture of small experts, each a matrix product of its own in a Python loop.

python many_products.py traces/slow
python many_products.py traces/mended --mended       # a batched product of all experts
"""

from __future__ import annotations

import argparse

import torch

import tracebraid

EXPERTS, SIZE, STEPS = 1500, 16, 18


def main() -> None:
    """Ask all experts, and capture some steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--mended", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    inputs, weights = torch.randn(EXPERTS, SIZE, SIZE), torch.randn(EXPERTS, SIZE, SIZE)
    outputs = torch.empty(EXPERTS, SIZE, SIZE)
    experts = list(zip(inputs.unbind(), weights.unbind(), outputs.unbind(), strict=True))
    with (
        torch.inference_mode(),
        tracebraid.capture(arguments.folder, skip_first=2, wait=0, warmup=1, active=12) as capture,
    ):
        for _ in range(STEPS):
            if arguments.mended:
                torch.bmm(inputs, weights, out=outputs)
            else:
                for own_input, weight, output in experts:
                    torch.mm(own_input, weight, out=output)
            outputs.softmax(-1)
            capture.step()


if __name__ == "__main__":
    main()
