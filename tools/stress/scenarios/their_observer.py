"""PyTorch's own observer in the program: it comes first where both want PyTorch's recorder."""

from __future__ import annotations

import json

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run


def work(run: Run) -> None:
    """Record with PyTorch's observer, from some step to another."""
    first = run.random.randrange(10)
    last = first + run.random.randrange(1, 4)
    path = run.folder / "theirs.json"
    observer = torch.profiler.ExecutionTraceObserver()
    with run.captured() as step:
        for number in range(14):
            if number == first:
                observer.register_callback(str(path))
                observer.start()
            torch.ones(2).add(1)
            if number == last:
                observer.stop()
                observer.unregister_callback()
            step()
    names = [node["name"] for node in json.loads(path.read_bytes())["nodes"]]
    run.note(names.count("aten::ones"))


SCENARIO = Scenario(
    "PyTorch's ExecutionTraceObserver in the program, registered in any step", work, recorders=("native",)
)
