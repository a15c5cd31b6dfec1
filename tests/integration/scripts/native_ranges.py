"""Both recorders at once, on integers: `native_ranges.py FOLDER`; the environment asks for their ranges."""

import sys
from pathlib import Path

import torch

import tracebraid

FOLDER = Path(sys.argv[1])


def work() -> None:
    numbers = torch.tensor([-3, 5])
    numbers + torch.tensor([7])
    torch.nn.functional.embedding(torch.arange(4), torch.ones(4, 2))
    torch.stack([numbers, numbers * 1000])
    torch.ones(3) + torch.ones(3)
    torch.tensor([True]).any()
    torch.tensor([200], dtype=torch.uint8) // 3
    torch.empty(0, dtype=torch.int64).clone()
    torch.ones(4)[torch.tensor([1, 3])]
    torch.gather(torch.ones(1, 4, requires_grad=True), 1, torch.tensor([[2, 3]])).sum().backward()


profiler = torch._C._profiler
profiler._add_execution_trace_observer(str(FOLDER / "theirs.json"))
profiler._enable_execution_trace_observer()
ours = tracebraid.ExecutionTraceObserver("native").register_callback(FOLDER / "ours.json")
ours.start()
work()
ours.stop()
profiler._disable_execution_trace_observer()
profiler._remove_execution_trace_observer()
ours.unregister_callback()
print("done")
