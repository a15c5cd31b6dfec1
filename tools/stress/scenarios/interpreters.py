"""Sub-interpreters that run while a window is open."""

from __future__ import annotations

import importlib
import importlib.util
import threading
from typing import Any

from tools.stress.model import Scenario
from tools.stress.run import Run

_NAMES = ("_interpreters", "_xxsubinterpreters")
_CODE = "import sys, json; total = sum(range(1000)); json.dumps([total])"


def _interpreters() -> Any:
    name = next(name for name in _NAMES if importlib.util.find_spec(name))
    return importlib.import_module(name)


def work(run: Run) -> None:
    """Make, run and destroy them, here and on a thread."""
    module = _interpreters()
    # A Python before 3.12 no longer knows then whose lock it holds, and autograd refuses to run.
    with run.captured(trains=False) as step:
        for _ in range(12):
            _use(module)
            if run.random.random() < 0.5:
                thread = threading.Thread(target=_use, args=(module,))
                thread.start()
                step()
                thread.join()
            else:
                step()


def _use(module: Any) -> None:
    made = module.create()
    module.run_string(made, _CODE)
    module.destroy(made)


def _why_not() -> str:
    has = any(importlib.util.find_spec(name) for name in _NAMES)
    return "" if has else "this Python has no sub-interpreters that Python code can make"


SCENARIO = Scenario("sub-interpreters beside an open window", work, why_not=_why_not)
