"""Run one rank of a pair: its program before and after the change in turns, each in part captured.

    python -m benchmarks.whatif_pairs.run loader_sleep FOLDER STORE 0 before_1 after_1 before_2 after_2

A loop has steps that are not recorded, some that are, and again as many that are not. Beside the traces it leaves
`steps_<rank>.json`: when steps ended, on the clock that all processes share.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import distributed

import tracebraid
from benchmarks.whatif_pairs.declare import Pair, Step, pairs

__all__: list[str] = []

SKIPPED, UNRECORDED, WARMUP, RECORDED = 10, 30, 2, 20
CLOSING = 2
"""Steps after the window, the first of which waits until all ranks have written theirs."""


def main(name: str, folder: str, store: str, rank: str, *targets: str) -> None:
    """The command line."""
    pair = pairs()[name]
    if pair.ranks > 1:
        distributed.init_process_group("gloo", f"file://{store}", rank=int(rank), world_size=pair.ranks)
    warm_up(pair)
    for target in targets:
        captured(made(pair, target.startswith("after")), Path(folder) / target, int(rank), pair.stacks)
        agree()
    if pair.ranks > 1:
        distributed.destroy_process_group()


def warm_up(pair: Pair) -> None:
    """Run both programs recorded, as the first steps and the first recording of a process are slower than others."""
    for changed in (False, True):
        step = made(pair, changed)
        with (
            tempfile.TemporaryDirectory() as folder,
            tracebraid.capture(
                folder,
                skip_first=WARMUP,
                wait=0,
                active=RECORDED,
                check=False,
                stacks=pair.stacks,
                calibrate=False,
            ) as capture,
        ):
            for _ in range(2 * WARMUP + RECORDED):
                step()
                capture.step()
        agree()


def made(pair: Pair, changed: bool) -> Step:
    """The step of one of both programs, which nothing of the other one slows."""
    gc.collect()
    # Objects of PyTorch and others are so many that looking through all takes longer than a step.
    gc.freeze()
    torch.set_num_threads(pair.threads)
    torch.manual_seed(0)
    return pair.make(changed)


def agree() -> None:
    """Wait for the other ranks."""
    if distributed.is_initialized():
        distributed.barrier()


def captured(step: Step, folder: Path, rank: int, stacks: bool) -> None:
    """Run the loop."""
    first = SKIPPED + UNRECORDED + WARMUP
    again = first + RECORDED + CLOSING
    ends = [time.monotonic_ns()]
    with tracebraid.capture(
        folder,
        skip_first=SKIPPED,
        wait=UNRECORDED,
        warmup=WARMUP,
        active=RECORDED,
        check=False,
        stacks=stacks,
    ) as capture:
        for number in range(again + UNRECORDED):
            step()
            ends.append(time.monotonic_ns())
            capture.step()
            if number == first + RECORDED - 1:
                agree()
    found = {
        "unrecorded": [ends[begin : begin + UNRECORDED + 1] for begin in (SKIPPED, again)],
        # The first recorded step begins with the start of the recording.
        "recorded": ends[first + 1 : first + RECORDED + 1],
    }
    (folder / f"steps_{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
