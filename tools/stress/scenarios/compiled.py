"""torch.compile: graph breaks, recompilations, errors in compiled code; with and without a compiler of C++."""

from __future__ import annotations

import importlib.util
import os
import shutil

import torch

from tools.stress.model import Scenario
from tools.stress.run import Network, Run


def _broken(value: torch.Tensor, flag: int) -> torch.Tensor:
    value = value.sin()
    if float(value.sum()) > flag:
        value = value * 2
    print("", end="")
    return value.cos() + flag


def work(run: Run) -> None:
    """Call compiled functions in each step, and a compiled network."""
    backend = "inductor" if run.is_full and shutil.which("g++") else run.random.choice(["eager", "aot_eager"])
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(run.folder.parent / "tmp" / "inductor"))
    broken = torch.compile(_broken, backend=backend)
    network = torch.compile(Network().eval(), backend=backend)
    with run.captured() as step:
        for number in range(12):
            value = torch.full((3 + number % 3,), 0.5, requires_grad=True)
            broken(value, number % 2).sum().backward()
            run.note(value.grad, network(torch.ones(1 + number % 2, 8)))
            try:
                broken(torch.ones(2), "no number")
            except (TypeError, torch._dynamo.exc.TorchRuntimeError):
                run.note("refused")
            step()
    shutil.rmtree(run.folder.parent / "tmp" / "inductor", ignore_errors=True)


def _why_not() -> str:
    return "" if importlib.util.find_spec("torch._dynamo") else "this torch has no torch.compile"


SCENARIO = Scenario("torch.compile with graph breaks, recompilations and errors", work, why_not=_why_not)
