"""What is changed between the two programs of a pair, in the grammar of `tracebraid what-if --change`."""

from __future__ import annotations

from benchmarks.whatif_programs.single_rank import PRODUCT, WIDE

__all__ = ["CHANGES"]

_PARAMETERS = 52
"""Of the model that `optimizer_foreach` trains: calls for each become a single call."""

CHANGES: dict[str, tuple[str, ...]] = {
    "loader_sleep": ("remove name=read",),
    "matmul_halved": (f"scale 0.5 shapes=*{WIDE}*",),
    "op_twice": (rf"scale 2 name=aten::mm shapes='/{PRODUCT}, ?{PRODUCT}\].*{PRODUCT}, ?{PRODUCT}\]/'",),
    "second_thread": ("remove name='make targets'",),
    "optimizer_foreach": (f"scale {1 / _PARAMETERS:.3f} name=Optimizer.step#SGD.step",),
    "layer_removed": (f"remove shapes=*{WIDE}*",),
    "loader_ahead": ("offload 1 name=load",),
    "straggler": ("remove name='late input'",),
    "all_reduce_halved": ("bandwidth 2 name=gloo:all_reduce",),
    "wait_at_the_end": ("defer name=gloo:all_reduce",),
    "barrier_removed": ("remove name=gloo:barrier,c10d::barrier",),
    "all_reduces_merged": ("merge 1MB name=gloo:all_reduce",),
}
"""By program, in the order in which they are done."""
