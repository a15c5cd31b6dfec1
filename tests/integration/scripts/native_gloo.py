"""Two ranks that reduce asynchronously, with both recorders on: `native_gloo.py FOLDER STORE`."""

import sys

import torch
from torch import distributed

import tracebraid

LARGE = 1 << 18


def step() -> None:
    tensors = [torch.ones(LARGE) for _ in range(4)]
    with torch.profiler.record_function("reduce"):
        works = [distributed.all_reduce(one, async_op=True) for one in tensors]
        for number in range(100):
            with torch.profiler.record_function(f"meanwhile {number % 5}"):
                (torch.ones(8) * number).sum()
        for work in works:
            work.wait()
    distributed.all_gather([torch.empty(4), torch.empty(4)], torch.ones(4))
    distributed.barrier()


def rank_of_two(rank: int, folder: str, store: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    profiler = torch._C._profiler
    profiler._add_execution_trace_observer(f"{folder}/theirs_{rank}.json")
    profiler._enable_execution_trace_observer()
    ours = tracebraid.ExecutionTraceObserver("native").register_callback(f"{folder}/ours_{rank}.json")
    ours.start()
    for _ in range(10):
        step()
    ours.stop()
    profiler._disable_execution_trace_observer()
    profiler._remove_execution_trace_observer()
    ours.unregister_callback()
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(rank_of_two, tuple(sys.argv[1:]), nprocs=2)
    print("done")
