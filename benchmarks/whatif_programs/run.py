"""Run a program without and with its change, in turns, and capture it: first some steps without the profiler, then as
many with it.

    python -m benchmarks.whatif_programs.run loader_sleep FOLDER --rounds 3

The order in a round alternates, so that what else the machine does falls on both alike. What is there already stays.
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("program", choices=[*SINGLE_RANK, *TWO_RANKS])
    parser.add_argument(
        "folder", type=Path, help="of the program; its captures are base_1, changed_1, base_2, ..."
    )
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    wanted = captures(given.folder, given.rounds)
    if not wanted:
        return
    if given.program in SINGLE_RANK:
        torch.set_num_threads(1)
        for changed, folder in wanted:
            torch.manual_seed(0)
            step = SINGLE_RANK[given.program](changed)
            captured(step, folder, 0, given.program in WITH_STACKS)
        return
    with tempfile.TemporaryDirectory() as store:
        multiprocessing.spawn(rank_of_two, (given.program, wanted, Path(store) / "store"), RANKS)


def captures(folder: Path, rounds: int) -> list[tuple[bool, Path]]:
    """Whether each capture that is still missing is of the changed program, and where it goes."""
    turns = [
        (changed, folder / f"{'changed' if changed else 'base'}_{number}")
        for number in range(1, rounds + 1)
        for changed in ((False, True) if number % 2 else (True, False))
    ]
    return [(changed, target) for changed, target in turns if not target.exists()]


def rank_of_two(rank: int, program: str, wanted: list[tuple[bool, Path]], store: Path) -> None:
    """The program in a rank."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=RANKS)
    for changed, folder in wanted:
        torch.manual_seed(0)
        captured(TWO_RANKS[program](changed, rank), folder, rank)
        distributed.barrier()
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
