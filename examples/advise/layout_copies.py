"""A model that takes images with channels first, of images that lie in memory with channels last.

python layout_copies.py traces/slow
python layout_copies.py traces/mended --mended       # they are laid out once, when they are loaded
"""

from __future__ import annotations

import argparse

import torch

import tracebraid

BATCH, HEIGHT, WIDTH, CHANNELS, STEPS = 16, 128, 128, 24, 18


def main() -> None:
    """Classify images, and capture some steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--mended", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    images = torch.randn(BATCH, HEIGHT, WIDTH, CHANNELS).permute(0, 3, 1, 2)
    if arguments.mended:
        images = images.contiguous()
    classifier = torch.nn.Linear(CHANNELS, 10)
    with (
        torch.inference_mode(),
        tracebraid.capture(arguments.folder, skip_first=2, wait=0, warmup=1, active=12) as capture,
    ):
        for _ in range(STEPS):
            rows = images.contiguous().view(BATCH, CHANNELS, -1)
            classifier(rows[:, :, ::WIDTH].mean(-1))
            capture.step()


if __name__ == "__main__":
    main()
