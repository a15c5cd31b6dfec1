"""Modules as stacks: host and device time of each."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.flames.frame_table import Stacks
from tracebraid.analysis.flames.host_stacks import NO_NAME, in_step
from tracebraid.analysis.ops.launch_rows import host_times, launched
from tracebraid.analysis.ops.modules.module_rows import ModuleTree
from tracebraid.analysis.ops.modules.module_tree import module_tree
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.model.answers.flames import FlameKind, FlameTree
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["IN_NO_MODULE", "module_stacks"]

_Ints = NDArray[np.int64]

IN_NO_MODULE = "(in no module)"
"""The root of time that no module has."""


def module_stacks(linked: LinkedTrace, annotation: str, step: str | None) -> list[Stacks]:
    """Host and device time by module, forward and backward; none where nothing says what the modules are.

    Args:
        linked: one rank.
        annotation: what marks a step.
        step: only this step; None: all.
    """
    tree = module_tree(linked)
    if tree.source is None:
        return []
    options = StepOptions(annotation, step is not None)
    host, device = host_times(linked, options), launched(linked, options)
    on_host, on_device = in_step(host, step).to_numpy(), in_step(device, step).to_numpy()
    of_device = np.r_[tree.path, -1][device.get_column("row").to_numpy()]
    own = host.get_column("exclusive_ns").to_numpy()
    calls = _calls(tree, on_host)
    return [
        _stacks(FlameTree.MODULES_HOST, tree, calls, (tree.path[on_host], own[on_host])),
        _stacks(
            FlameTree.MODULES_DEVICE,
            tree,
            calls,
            (of_device[on_device], device.get_column("dur_ns").to_numpy()[on_device]),
        ),
    ]


def _stacks(kind: FlameTree, tree: ModuleTree, calls: pl.Series, times: tuple[_Ints, _Ints]) -> Stacks:
    """A row for each path, and the last for what is in no module.

    Args:
        kind: what the times are.
        tree: the modules.
        calls: of each row.
        times: path of each event, -1 for none, and its time.
    """
    path, own = times
    paths = len(tree.paths.parent)
    self_ns, events = (np.zeros(paths + 1, dtype=np.int64) for _ in range(2))
    np.add.at(self_ns, path, own)
    np.add.at(events, path, 1)
    names = [tree.names[name] or NO_NAME for name in tree.paths.name.tolist()]
    kinds = [FlameKind.MODULE.value] * paths + [FlameKind.UNATTRIBUTED.value]
    return Stacks(
        kind,
        np.r_[tree.paths.parent, -1],
        pl.DataFrame({"name": [*names, IN_NO_MODULE], "kind": kinds}),
        self_ns,
        calls,
        events > 0,
    )


def _calls(tree: ModuleTree, counts: NDArray[np.bool_]) -> pl.Series:
    """How often each path was called; null: not in the trace."""
    paths = len(tree.paths.parent)
    if tree.is_call is None:
        return pl.Series("count", [None] * (paths + 1), dtype=pl.Int64)
    calls = np.zeros(paths + 1, dtype=np.int64)
    np.add.at(calls, tree.path[tree.is_call & counts], 1)
    return pl.Series("count", calls).set(pl.Series(np.arange(paths + 1) == paths), None)
