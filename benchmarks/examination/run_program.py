"""Run one program: `run_program.py NAME faulty|mended OUT [CAPTURE]`.

Without CAPTURE the step times in seconds of each rank go to OUT as JSON; with it a few steps are captured into that
folder.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import distributed

import tracebraid
from benchmarks.examination.cases import JOBS, PROGRAMS
from benchmarks.examination.device_programs import DEVICE_PROGRAMS
from benchmarks.examination.job_programs import WORLD
from benchmarks.examination.programs import Step

WARMUP_STEPS = 4
TIMED_STEPS = 12
BLOCK_S, MOST_STEPS = 0.25, 200
"""How long steps of a device are timed together, and how many at most."""
LONGEST_S = 10.0
"""Steps are timed for no longer than this."""


def timed(step: Step, steps: int, agreed: bool) -> list[float]:
    """Seconds of each step; ranks that have to agree on their number take all of them."""
    for _ in range(WARMUP_STEPS):
        step()
    found: list[float] = []
    while len(found) < steps and (agreed or sum(found) < LONGEST_S):
        began = time.perf_counter()
        step()
        found.append(time.perf_counter() - began)
    return found


def timed_on_device(step: Step) -> list[float]:
    """Mean seconds of steps that the host launches one after the other, until the device is through with all."""
    for _ in range(WARMUP_STEPS):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    count = min(max(int(BLOCK_S / (time.perf_counter() - began)), TIMED_STEPS), MOST_STEPS)
    began = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return [(time.perf_counter() - began) / count]


def captured(step: Step, folder: str) -> None:
    """Four steps with stacks and shapes; those before say what a step takes without a profiler."""
    with tracebraid.capture(folder, skip_first=4, wait=8, warmup=1, active=4, stacks=True) as cap:
        for _ in range(18):
            step()
            cap.step()


def rank_of(rank: int, name: str, faulty: bool, out: str, folder: str, store: str) -> None:
    """One rank of a job."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    run(JOBS[name](rank, faulty), f"{out}.{rank}", folder, agreed=True)
    distributed.destroy_process_group()


def run(step: Step, out: str, folder: str, agreed: bool = False) -> None:
    """Time the steps, or capture some."""
    if folder:
        captured(step, folder)
    else:
        Path(out).write_text(json.dumps(timed(step, TIMED_STEPS, agreed)))


def main(name: str, form: str, out: str, folder: str = "") -> None:
    """The command line."""
    torch.manual_seed(0)
    if name in DEVICE_PROGRAMS:
        step = DEVICE_PROGRAMS[name](form == "faulty")
        captured(step, folder) if folder else Path(f"{out}.0").write_text(json.dumps(timed_on_device(step)))
        return
    if name in PROGRAMS:
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        run(PROGRAMS[name](form == "faulty"), f"{out}.0", folder)
        return
    with tempfile.TemporaryDirectory() as stores:
        arguments = (name, form == "faulty", out, folder, f"{stores}/store")
        torch.multiprocessing.spawn(rank_of, arguments, nprocs=WORLD)


if __name__ == "__main__":
    main(*sys.argv[1:])
