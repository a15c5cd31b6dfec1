"""Programs that replace functions of Python in the middle of a run: one forked process each, from one import of torch.

It prints how each ended, and what it printed.
"""

from __future__ import annotations

import os
import signal
import sys

import torch
import torch._dynamo

RAISES = "def broken(*words, **options): raise ValueError('replaced')\n"
_FUNCTIONS = [
    "os.getpid",
    "os.kill",
    "os.open",
    "os.replace",
    "os.stat",
    "time.monotonic",
    "time.perf_counter_ns",
    "time.sleep",
    "json.dumps",
    "threading.get_ident",
    "builtins.open",
    "sys.exit",
    "sys.stderr.write",
    "atexit.register",
    "gzip.open",
    "mmap.mmap",
    "pathlib.Path.unlink",
    "signal.getsignal",
    "secrets.token_hex",
    "contextlib.suppress",
]
PROGRAMS = {
    **{name: f"import {name.split('.')[0]}\n{RAISES}{name} = broken" for name in _FUNCTIONS},
    "getpid of another": "import os\nos.getpid = lambda: 1",
    "getpid of text": "import os\nos.getpid = lambda: 'one'",
    "getpid that counts": "import os, itertools\nos.getpid = itertools.count().__next__",
    "time that stands": "import time\ntime.monotonic = time.time = time.perf_counter = lambda: 0.0",
    "no sleep": "import time\ntime.sleep = lambda seconds: None",
    "open that returns nothing": "import builtins\nbuiltins.open = lambda *words, **options: None",
    "no standard error": "import sys\nsys.stderr = None",
    "standard error closed": "import sys\nsys.stderr.close()",
    "no modules": "import sys\nfor n in list(sys.modules):\n    if n.startswith('tracebraid'): del sys.modules[n]",
    "no collection": "import gc\ngc.disable()",
    "an exit handler": "import atexit\natexit.register(print, 'over')",
    "an exit code": "import sys\nend = sys.exit\nsys.exit = lambda code=0: end(7)",
    "an exception": "raise ValueError('of the program')",
}


def work(code: str, at: int) -> None:
    """Take 5 steps, and run code after one of them."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if step == at:
            exec(code, {})
    os.write(1, b"done\n")


def started(code: str, rank: int, world: int) -> tuple[int, int]:
    """Start a program in a forked process: its pid, and where its output is read."""
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(writes, 1)
        os.close(writes)
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
        end = sys.exit
        signal.alarm(60)
        work(code, 2)
        end(3)
    os.close(writes)
    return pid, reads


def ending(pid: int, reads: int) -> str:
    """Wait for a program."""
    with os.fdopen(reads, "rb") as file:
        printed = file.read()
    return f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])} {printed!r}"


if __name__ == "__main__":
    programs = list(enumerate(PROGRAMS.items()))
    together = len(os.sched_getaffinity(0))
    for at in range(0, len(programs), together):
        running = [
            (name, started(code, rank, len(programs))) for rank, (name, code) in programs[at : at + together]
        ]
        for name, program in running:
            sys.stdout.write(f"{name}: {ending(*program)}\n")
        sys.stdout.flush()
