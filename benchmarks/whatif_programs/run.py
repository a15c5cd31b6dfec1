"""Run a program and capture it: first some steps without the profiler, then as many with it.

    python -m benchmarks.whatif_programs.run loader_sleep FOLDER [--changed]

Beside the traces it leaves `untraced_<rank>.json`: seconds of each step that was not recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch
from torch import distributed, multiprocessing

import tracebraid
from benchmarks.whatif_programs.single_rank import SINGLE_RANK, WITH_STACKS, Step
from benchmarks.whatif_programs.two_ranks import TWO_RANKS

__all__: list[str] = []

SKIPPED, WARMUP, STEPS = 3, 2, 20
RANKS = 2


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("program", choices=[*SINGLE_RANK, *TWO_RANKS])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--changed", action="store_true")
    given = parser.parse_args()
    if given.program in SINGLE_RANK:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        captured(SINGLE_RANK[given.program](given.changed), given.folder, 0, given.program in WITH_STACKS)
        return
    with tempfile.TemporaryDirectory() as store:
        arguments = (given.program, given.folder, given.changed, Path(store) / "store")
        multiprocessing.spawn(rank_of_two, arguments, RANKS)


def rank_of_two(rank: int, program: str, folder: Path, changed: bool, store: Path) -> None:
    """The program in a rank."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=RANKS)
    captured(TWO_RANKS[program](changed, rank), folder, rank)
    distributed.destroy_process_group()


def captured(step: Step, folder: Path, rank: int, stacks: bool = False) -> None:
    """Run the loop."""
    seconds = []
    with tracebraid.capture(
        folder, skip_first=SKIPPED, wait=STEPS, warmup=WARMUP, active=STEPS, check=False, stacks=stacks
    ) as capture:
        for _ in range(SKIPPED + STEPS + WARMUP + STEPS):
            start = time.perf_counter()
            step()
            capture.step()
            seconds.append(time.perf_counter() - start)
    # The last step before the profiler warms up holds its start.
    untraced = seconds[SKIPPED : SKIPPED + STEPS - 1]
    (folder / f"untraced_{rank}.json").write_text(json.dumps(untraced))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
