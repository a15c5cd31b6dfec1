"""What a device event is busy with: computing, communicating, moving memory, or only waiting."""

from __future__ import annotations

import polars as pl

from tracebraid.model.category import Role, categories_of
from tracebraid.model.collectives.communication_rules import Says, Subject, rule_of
from tracebraid.model.name_rules import by_name

__all__ = ["COMMUNICATION", "COMPUTE", "MEMORY", "WAIT", "host_op_communicates", "kind_of_device_event"]

COMPUTE = "compute"
COMMUNICATION = "communication"
MEMORY = "memory"
WAIT = "wait"

_COPY_CATEGORIES = ["gpu_memcpy", "gpu_memset"]
_COPY_NAMES = ["dma_request"]
_WAIT_NAMES = ["event_wait", "event_record"]


def kind_of_device_event(work: pl.DataFrame) -> pl.Series:
    """The kind of each device event, by the first of these that decides:

    1. collective arguments of its own, or the category `collective_comm`: communication;
    2. a copy or fill by category or name: memory; a device queue's `event_wait` and `event_record`: waiting;
    3. its name is known for computing (`model.collectives.communication_rules`): compute;
    4. the op that launched it is a collective: communication;
    5. its name is of a communication library, or, unless an ATen op launched it, just of a collective:
       communication;
    6. compute.

    Args:
        work: columns `name`, `category`, `has_collective_args`, and of the innermost op or annotation that encloses the
            launching call `op_name` and `op_category`, null where there is none.
    """
    rules = work.with_columns(_says_of_kernels(work), _says_of_ops(work))
    name, category = pl.col("name"), pl.col("category")
    by_kernel, by_op = pl.col("by_kernel"), pl.col("by_op")
    kind = (
        pl.when(pl.col("has_collective_args") | (category == "collective_comm"))
        .then(pl.lit(COMMUNICATION))
        .when(category.is_in(_COPY_CATEGORIES) | name.is_in(_COPY_NAMES))
        .then(pl.lit(MEMORY))
        .when(name.is_in(_WAIT_NAMES))
        .then(pl.lit(WAIT))
        .when(by_kernel == Says.COMPUTES.name)
        .then(pl.lit(COMPUTE))
        .when((by_op == Says.COMMUNICATES.name) | (by_kernel == Says.COMMUNICATES.name))
        .then(pl.lit(COMMUNICATION))
        .when((by_kernel == Says.MAY_COMMUNICATE.name) & by_op.ne_missing(Says.COMPUTES.name))
        .then(pl.lit(COMMUNICATION))
        .otherwise(pl.lit(COMPUTE))
    )
    return rules.select(kind.alias("kind")).to_series()


def host_op_communicates(ops: pl.DataFrame) -> pl.Series:
    """Whether each host op or annotation is one of a communication library.

    Args:
        ops: columns `name` and `category`.
    """
    named = ops.select(pl.col("name").alias("op_name"), pl.col("category").alias("op_category"))
    communicates = (pl.col("by_op") == Says.COMMUNICATES.name).fill_null(value=False)
    return named.select(_says_of_ops(named)).select(communicates.alias("communicates")).to_series()


def _says_of_kernels(work: pl.DataFrame) -> pl.Series:
    return _says(work.get_column("name"), Subject.KERNEL).alias("by_kernel")


def _says_of_ops(work: pl.DataFrame) -> pl.Series:
    """An annotation may bear any name: only those that backends make count."""
    name = work.get_column("op_name")
    is_op = work.get_column("op_category").is_in(categories_of(Role.OP)).fill_null(value=False)
    as_op, as_range = _says(name, Subject.OP, Subject.RANGE), _says(name, Subject.RANGE)
    found: pl.Series = as_op.zip_with(is_op, as_range).alias("by_op")
    return found


def _says(names: pl.Series, *subjects: Subject) -> pl.Series:
    """What the first fitting rule says of each name, each name asked once; null where none fits."""

    def said(distinct: pl.Series) -> pl.Series:
        rules = (None if name is None else rule_of(name, *subjects) for name in distinct.to_list())
        return pl.Series([None if rule is None else rule.says.name for rule in rules], dtype=pl.String)

    return by_name(names, said)
