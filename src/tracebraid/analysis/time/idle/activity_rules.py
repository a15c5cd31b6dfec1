"""What the name of a host event says about what the host does in it."""

from __future__ import annotations

import polars as pl

from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text

__all__ = ["name_rules"]

_SYNC_CALLS = (
    r"(?i)synchronize|^(zeEvent|zeFence|ur|piEvent).*(wait|finish)"
    r"|^(cuda|hip)(Malloc|Free|HostAlloc|HostMalloc|MallocHost|FreeHost|HostFree|MallocManaged)(Pitch|3D)?$"
    r"|^cuMem(Alloc|Free|AllocHost|FreeHost|HostAlloc|AllocManaged)(_v2)?$"
    r"|^(cuda|hip)Mem(cpy|set)(2D|3D|ToSymbol|FromSymbol|DtoH|HtoD|WithStream)?$|^cuMemcpy(DtoH|HtoD)?(_v2)?$"
)
"""Calls that return only when the device is done, or that wait for it as a rule: the allocator's, plain copies."""

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
_INTERNAL_FRAME = (
    r"^<|^nn\.Module: |(^|/)(site-packages/|dist-packages/)?torch/|/lib/python3[.\d]*/[^/]*(\.py\(|/)"
    r"|^(threading|contextlib|queue|selectors|functools|runpy|copy|json|logging|pickle|enum|typing|inspect|warnings"
    r"|subprocess|socket|weakref|abc|re|random|dataclasses|os|glob|tempfile|asyncio|concurrent|collections"
    r"|importlib|multiprocessing)(/|\.py\()"
)
"""Frames that are not the user's: built-in functions, nn.Module marks, torch, and the standard library."""


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
        (frame & ~name.str.contains(_INTERNAL_FRAME)).alias("is_user_frame"),
        (
            (named & (name.str.starts_with(_DATA_RANGE) | name.is_in(_DATA_OPS)))
            | (frame & name.str.contains(_DATA_FRAMES))
        ).alias("is_data"),
        ((call & name.str.contains(_SYNC_CALLS)) | (op & name.is_in(_SYNC_OPS))).alias("is_sync"),
        ((named & name.str.contains(_HOST_BACKEND)) | (frame & name.str.contains(_WAIT_FRAMES))).alias(
            "is_collective"
        ),
    ).with_columns(pl.all().fill_null(value=False))
