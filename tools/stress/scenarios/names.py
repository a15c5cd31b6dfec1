"""Very many different names of annotations, and names of every kind.

But one: `","id":1,"x":"`, which Kineto writes as it is, makes valid JSON of another name.
"""

from __future__ import annotations

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run

_MANY, _SOME = 100_000, 4_000
_HOSTILE = (
    '"', "\\", "\n", "\x00", "\x7f", "\u0080", "\u202e", "\ud800", "\U0001f600", "</script>", "=cmd()", "x" * 100_000,
    "a\x00b", "", " ", "\x1b[2J", "null", "{}", "é" * 3_000, "ProfilerStep#1", "[pytorch|profiler]",
)  # fmt: skip


def work(run: Run) -> None:
    """Annotate with them, nested and not."""
    each = (_MANY if run.is_full else _SOME) // 4
    with run.captured() as step:
        for number in range(12):
            for count in range(each if number in (3, 4, 5, 6) else 10):
                with torch.profiler.record_function(f"name {number} {count}"):
                    pass
            for name in run.random.sample(_HOSTILE, 8):
                try:
                    with torch.profiler.record_function(name, name[:10]):
                        torch.ones(2)
                except RuntimeError:
                    # Half of a pair of surrogates is no text for PyTorch.
                    run.note("refused")
            step()


SCENARIO = Scenario("100,000 names of annotations (4,000 in the short form), and hostile names", work)
