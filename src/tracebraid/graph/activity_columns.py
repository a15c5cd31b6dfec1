"""What belongs to the activities of a rank: family, module, shapes, node, bytes."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_columns import fetched, rows_of_events
from tracebraid.analysis.host.host_rows import NO_ROW, host_rows, modules_of_rows
from tracebraid.analysis.host.surroundings import surroundings
from tracebraid.analysis.kernels.work import device_work
from tracebraid.errors import InputError
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.kernel_family import family_of_op
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["with_descriptions"]

_NAME_TYPE = pl.Categorical()


def with_descriptions(
    table: pl.DataFrame, linked: LinkedTrace, annotation: str
) -> tuple[pl.DataFrame, tuple[Finding, ...]]:
    """The activities of a rank with family, module, shapes, node and bytes, and what was noticed.

    Args:
        table: `ACTIVITIES`: host events, a row for each of `host_tree`; threads; device work, a row for each device
            event.
        linked: the rank.
        annotation: what marks a step.
    """
    event, op = table.get_column("event_id"), table.get_column("op_event")
    host_ops, work = linked.timeline.host_ops, linked.timeline.device_work
    nodes, findings = _nodes(linked, op)
    described = table.with_columns(
        _families(table, linked),
        modules_of_rows(linked, _module_rows(table.height, linked, annotation)).alias("module"),
        _of_events(host_ops, op, "input_dims").alias("shapes"),
        nodes,
        _of_events(work, event, "size_bytes"),
    )
    return described, findings


def _of_events(table: pl.DataFrame, events: pl.Series, column: str) -> pl.Series:
    rows = rows_of_events(table.get_column("event_id"), events)
    values: pl.Series = fetched(table.select(column), rows).to_series()
    return values


def _families(table: pl.DataFrame, linked: LinkedTrace) -> pl.Series:
    """Of device work that of its kernel, of ops that of the kernels that they launch; each name decided once."""
    of_work = device_work(linked).get_column("family").cast(_NAME_TYPE)
    host = table.head(table.height - len(of_work))
    is_op = host.get_column("kind").cast(pl.String) == ActivityKind.OP.value
    names = host.get_column("name").set(~is_op, None)
    distinct = names.unique().drop_nulls()
    decided = [family_of_op(name) for name in distinct.cast(pl.String).to_list()]
    of_name = pl.Series([family and family.value for family in decided], dtype=pl.String).cast(_NAME_TYPE)
    of_host = names.replace_strict(distinct, of_name, default=None, return_dtype=_NAME_TYPE)
    families: pl.Series = pl.concat([of_host, of_work]).alias("family")
    return families


def _module_rows(count: int, linked: LinkedTrace, annotation: str) -> NDArray[np.int64]:
    """The row of the module's call of each activity; of device work that of the call that launched it."""
    host, module = host_rows(linked), surroundings(linked, annotation).module
    found = np.full(count, NO_ROW, dtype=np.int64)
    found[: len(host.event_id)] = module[:-1]
    launch = device_events(linked).select(pl.coalesce("call_event", "op_event").fill_null(-1)).to_series()
    if len(launch):
        found[count - len(launch) :] = module[host.rows(launch.to_numpy())]
    return found


def _nodes(linked: LinkedTrace, op: pl.Series) -> tuple[pl.Series, tuple[Finding, ...]]:
    """The nodes of ops; null without an Execution Trace that can be read and fits: the graph needs none."""
    nothing = pl.select(pl.repeat(None, len(op), dtype=pl.Int64).alias("node_id")).to_series()
    if not linked.has_et:
        return nothing, ()
    try:
        links = linked.host_links
    except InputError as error:
        unread = Finding.of(FindingCode.GRAPH_WITHOUT_NODES, error.path, error.where, problem=error.problem)
        return nothing, (unread,)
    return _of_events(links.sort("event_id"), op, "node_id"), ()
