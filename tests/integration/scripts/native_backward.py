"""Backward of a forward pass that another thread ran unseen: `native_backward.py FILE native|theirs`."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tracebraid

losses: list[Any] = []


def forward() -> None:
    x = torch.ones(4, 4, requires_grad=True)
    losses.append(torch.mm(x, x).sum())


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


in_thread(forward)
if sys.argv[2] == "native":
    observer = tracebraid.ExecutionTraceObserver("native").register_callback(Path(sys.argv[1]))
    observer.start()
    losses[0].backward()
    observer.stop()
    observer.unregister_callback()
else:
    torch._C._profiler._add_execution_trace_observer(sys.argv[1])
    torch._C._profiler._enable_execution_trace_observer()
    losses[0].backward()
    torch._C._profiler._disable_execution_trace_observer()
    torch._C._profiler._remove_execution_trace_observer()
print("done")
