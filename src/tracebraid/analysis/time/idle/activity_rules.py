"""What the name of a host event says about what the host does in it."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.launches.synchronising import kinds_of_apis
from tracebraid.model.answers import SyncKind
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.user_frame import is_user_frame

__all__ = ["name_rules"]

_SYNC_OPS = ["aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"]
"""Ops whose result the host reads from the device."""

_DATA_RANGE = "enumerate(DataLoader)#"
_DATA_OPS = ["aten::pin_memory", "aten::_pin_memory"]
_DATA_FRAMES = (
    r"(^|/)torch/utils/data/.*: (__next__|_next_data|_get_data|_try_get_data|fetch|next|__iter__)$"
    r"|(^|/)queue\.py\(\d+\): get$|(^|/)multiprocessing/queues\.py\(\d+\): get$"
)
"""Frames of a program that waits for its DataLoader, or for another thread or process to feed a queue."""

_HOST_BACKEND = r"^(gloo|mpi|ucc):"
_WAIT_FRAMES = r"distributed_c10d\.py\(\d+\): (barrier|monitored_barrier)$|^<built-in method wait of .*Work"
"""Ranges of collectives that run on the host, and frames that wait for a collective."""

_RANGE_OP = r"#|^[^:]*\.[^:]*$"
"""Ops that are annotations in truth: `ProfilerStep#2`, `Optimizer.step#SGD.step`, `DistributedDataParallel.forward`."""

_MODULE = "nn.Module: "


def name_rules(events: pl.DataFrame) -> pl.DataFrame:
    """The flags that each event bears by its name and category.

    Columns: booleans `is_op`, `is_annotation`, `is_call`, `is_frame`, `is_module`, `is_user_frame`, `is_data`,
    `is_sync`, `is_collective`.

    Args:
        events: columns `name` and `category`, each pair of them once: they are searched as text.
    """
    text = events.select(as_text("name", "category")).with_columns(pl.col("name").fill_null(""))
    name = pl.col("name")
    op, range_, call, frame = (
        pl.col("category").is_in(categories_of(role))
        for role in (Role.OP, Role.ANNOTATION, Role.CALL, Role.PYTHON)
    )
    is_op = op & ~name.str.contains(_RANGE_OP)
    named = op | range_
    return text.select(
        is_op.alias("is_op"),
        (named & ~is_op).alias("is_annotation"),
        call.alias("is_call"),
        frame.alias("is_frame"),
        (frame & name.str.starts_with(_MODULE)).alias("is_module"),
        (frame & is_user_frame(name)).alias("is_user_frame"),
        (
            (named & (name.str.starts_with(_DATA_RANGE) | name.is_in(_DATA_OPS)))
            | (frame & name.str.contains(_DATA_FRAMES))
        ).alias("is_data"),
        ((call & name.is_in(_synchronising(text))) | (op & name.is_in(_SYNC_OPS))).alias("is_sync"),
        ((named & name.str.contains(_HOST_BACKEND)) | (frame & name.str.contains(_WAIT_FRAMES))).alias(
            "is_collective"
        ),
    ).with_columns(pl.all().fill_null(value=False))


def _synchronising(events: pl.DataFrame) -> list[str]:
    """The names of calls that wait for the device: a query of an event only asks."""
    calls = events.filter(pl.col("category").is_in(categories_of(Role.CALL))).get_column("name")
    kinds = kinds_of_apis(calls).filter(pl.col("named_kind") != SyncKind.QUERY.value)
    return kinds.get_column("api").to_list()
