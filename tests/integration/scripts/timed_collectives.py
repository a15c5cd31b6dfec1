"""Two ranks that time their collectives themselves: `timed_collectives.py FOLDER STORE`.

In each step: large all-reduces, small ones, and some for which rank 1 comes late. `times_<rank>.json` has, of each
step, the starts and ends of the calls by kind, in ns on the unix clock; beside them, of `wakes`: how long it takes
another thread to wake and to be heard of, which a busy machine draws out.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import torch
from torch import distributed

import tracebraid

STEPS, SKIPPED, WARM_UP = 5, 1, 1
LARGE, LARGE_COUNT = 1 << 24, 6
SMALL, SMALL_COUNT = 1 << 10, 10
LATE, LATE_COUNT, SLEEP_S = 1 << 11, 2, 0.15


def timed(tensor: torch.Tensor, before: Callable[[], None]) -> tuple[int, int]:
    distributed.barrier()
    before()
    start = time.time_ns()
    distributed.all_reduce(tensor)
    return start, time.time_ns()


def wake() -> tuple[int, int]:
    """A thread that waits is woken, and wakes its caller."""
    asked, answered = Event(), Event()

    def answer() -> None:
        asked.wait()
        answered.set()

    thread = Thread(target=answer)
    thread.start()
    start = time.time_ns()
    asked.set()
    answered.wait()
    end = time.time_ns()
    thread.join()
    return start, end


def nothing() -> None:
    pass


def come_late() -> None:
    if distributed.get_rank() == 1:
        time.sleep(SLEEP_S)


def step() -> dict[str, list[tuple[int, int]]]:
    kinds = {
        "large": (torch.ones(LARGE), LARGE_COUNT, nothing),
        "small": (torch.ones(SMALL), SMALL_COUNT, nothing),
        "late": (torch.ones(LATE), LATE_COUNT, come_late),
    }
    done: dict[str, list[tuple[int, int]]] = {kind: [] for kind in (*kinds, "wakes")}
    for kind, (tensor, count, before) in kinds.items():
        for _ in range(count):
            done[kind].append(timed(tensor, before))
            done["wakes"].append(wake())
    return done


def rank_of_two(rank: int, folder: str, store: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    steps = []
    capture = tracebraid.capture(
        folder,
        skip_first=SKIPPED,
        wait=0,
        warmup=WARM_UP,
        active=STEPS - SKIPPED - WARM_UP,
        recorder="torch",
        check=False,
    )
    with capture as cap:
        for _ in range(STEPS):
            steps.append(step())
            cap.step()
    recorded = steps[SKIPPED + WARM_UP :]
    Path(folder, f"times_{rank}.json").write_text(json.dumps(recorded))
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(rank_of_two, tuple(sys.argv[1:]), nprocs=2)
