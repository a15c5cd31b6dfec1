"""What an Execution Trace costs in each form: its size, the time to write it, and to read it.

    python -m benchmarks.forms [--steps 1500] [--rounds 3]

Needs torch. The same steps of a small training loop are recorded by two native recorders at once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch

import tracebraid
from benchmarks.overhead import small_ops

__all__: list[str] = []

FORMS = ("et.json", "et.json.gz", "et.arrow.zip")


def seconds(work: Callable[[], object]) -> float:
    """How long some work takes, on the clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(folder: Path, steps: int, rounds: int) -> tuple[int, dict[str, tuple[int, float, float]]]:
    """The number of nodes, and of each form its bytes, and the seconds to write and to read it."""
    step = small_ops()
    observers = {
        form: tracebraid.ExecutionTraceObserver("native").register_callback(folder / form) for form in FORMS
    }
    for observer in observers.values():
        observer.start()
    for _ in range(steps):
        step()
    for observer in observers.values():
        observer.stop()
    writing = {form: seconds(observer.unregister_callback) for form, observer in observers.items()}
    reading: dict[str, list[float]] = {form: [] for form in FORMS}
    for _ in range(rounds):
        for form, times in reading.items():
            times.append(seconds(lambda form=form: tracebraid.read_execution_trace(folder / form)))  # type: ignore[misc]
    nodes = tracebraid.read_execution_trace(folder / FORMS[-1]).nodes.height
    return nodes, {
        form: ((folder / form).stat().st_size, writing[form], median(reading[form])) for form in FORMS
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.forms", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--steps", type=int, default=1500, metavar="N", help="steps of 216 operators each (1500)"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is read (3)")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        nodes, forms = measure(Path(folder), given.steps, given.rounds)
    print(f"torch {torch.__version__}, {nodes:,} nodes\n")
    print(f"{'form':14}{'size':>12}{'a node':>10}{'written in':>12}{'read in':>10}")
    for form, (size, written, read) in forms.items():
        print(f"{form:14}{size / 1e6:>9.1f} MB{size / nodes:>8.0f} B{written:>10.2f} s{read:>8.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
