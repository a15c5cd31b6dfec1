"""Stretches of host threads that by their names load data, record results, or compile."""

from __future__ import annotations

from enum import Enum

import numpy as np
import polars as pl

from tracebraid.analysis.host.host_rows import NO_ROW, host_rows, names_of_rows
from tracebraid.analysis.host.name_rules import by_rules, is_in_role
from tracebraid.analysis.host.surroundings import nearest_or_none
from tracebraid.analysis.time.intervals import Cover, cover_of
from tracebraid.model.category import Role
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["HostWork", "all_ranges", "ranges_of"]


class HostWork(Enum):
    """What the host does beside computing and launching."""

    LOADS = "it waits for the next batch"
    RECORDS = "it saves, logs, prints or computes metrics"
    COMPILES = "it compiles"


_LOADER = r"^enumerate\(DataLoader\)#.*__next__$"
_LOADER_FRAMES = r"(^|/)torch/utils/data/dataloader\.py\(\d+\): __next__$"
_RECORDING = (
    r"(?i)(^|[^a-z])(log|logs|logging|log_\w+|metrics?|\w*metrics_\w+|print|tensorboard|wandb|mlflow"
    r"|save|saving|save_checkpoint|checkpoint_save|write_checkpoint)([^a-z]|$)"
)
"""Annotations; `checkpoint` alone is that of activations."""
_RECORDING_FRAMES = (
    r"^<built-in (function|method) print|(^|/)torch/serialization\.py\(\d+\): save$"
    r"|(^|/)torch/distributed/checkpoint/.*: (save|async_save|save_state_dict)$|(^|/)safetensors/.*: save\w*$"
    r"|(^|/)(torch/utils/tensorboard|tensorboardX)/.*: add_\w+$|(^|/)wandb/.*: log$|(^|/)mlflow/.*: log_\w+$"
    r"|(^|/)logging/__init__\.py\(\d+\): (debug|info|warning|error|critical|exception|log)$"
    r"|(^|/)tqdm/.*: (update|set_postfix|set_description|refresh|write)$"
    r"|(^|/)(torchmetrics|torcheval|evaluate)/.*: (forward|update|compute|add|add_batch)$"
)
_COMPILING = (
    r"\(dynamo_timed\)|(^|/)torch/_dynamo/convert_frame\.py|(^|/)torch/_inductor/compile_fx\.py"
    r"|(^|/)triton/compiler/compiler\.py"
)
"""torch.compile's own timers, its Python frames, and Triton's compiler."""


def ranges_of(linked: LinkedTrace, work: HostWork) -> pl.DataFrame:
    """The outermost stretches of some work: `start_ns`, `end_ns`, `event_id`, `op` (its name), in the order of starts.

    Args:
        linked: one rank.
        work: what the host does.
    """
    return linked.derived(_ranges, work)


def all_ranges(linked: LinkedTrace) -> Cover:
    """The moments in which some thread of the host does any of `HostWork`."""
    found = pl.concat([ranges_of(linked, work) for work in HostWork])
    return cover_of(*(found.get_column(name).to_numpy() for name in ("start_ns", "end_ns")))


def _ranges(linked: LinkedTrace, work: HostWork) -> pl.DataFrame:
    wanted = by_rules(linked, lambda names: names.select(_rule(work).alias("wanted")))["wanted"]
    host = host_rows(linked)
    enclosing = nearest_or_none(linked, wanted)
    rows = np.flatnonzero(wanted & (enclosing[host.parent] == NO_ROW))
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    return pl.DataFrame(
        {
            "start_ns": host.start_ns[rows],
            "end_ns": host.end_ns[rows],
            "event_id": host.event_id[rows],
            "op": names_of_rows(linked, rows).cast(pl.String),
        }
    )


def _rule(work: HostWork) -> pl.Expr:
    name = pl.col("name")
    named, frame = is_in_role(Role.OP, Role.ANNOTATION), is_in_role(Role.PYTHON)
    if work is HostWork.LOADS:
        return (named & name.str.contains(_LOADER)) | (frame & name.str.contains(_LOADER_FRAMES))
    if work is HostWork.RECORDS:
        annotation = is_in_role(Role.ANNOTATION) & name.str.contains(_RECORDING)
        return annotation | (frame & name.str.contains(_RECORDING_FRAMES))
    return (named | frame) & name.str.contains(_COMPILING)
