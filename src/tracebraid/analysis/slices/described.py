"""What is known of each slice: its name and kind, what launched it, its shapes, its line of code."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.event_columns import event_columns, fetched, rows_of_events
from tracebraid.analysis.host.call_sites import call_sites
from tracebraid.analysis.kernels.work import device_work
from tracebraid.analysis.slices.dependencies import rows_of
from tracebraid.analysis.slices.et_inputs import et_inputs
from tracebraid.model.category import ROLE_BY_CATEGORY, Role
from tracebraid.model.device_kind import COMMUNICATION, MEMORY, WAIT
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report.timeline_tables import SliceKind

__all__ = ["described"]

_KIND_BY_ROLE = {
    Role.OP: SliceKind.OP,
    Role.ANNOTATION: SliceKind.ANNOTATION,
    Role.PYTHON: SliceKind.PYTHON,
    Role.CALL: SliceKind.CALL,
    Role.DEVICE_WORK: SliceKind.KERNEL,
    Role.DEVICE_ANNOTATION: SliceKind.DEVICE_ANNOTATION,
    Role.SYNC: SliceKind.WAIT,
}
_KIND_BY_DEVICE_KIND = {
    COMMUNICATION: SliceKind.COMMUNICATION.value,
    MEMORY: SliceKind.COPY.value,
    WAIT: SliceKind.WAIT.value,
}


def described(linked: LinkedTrace, slices: pl.DataFrame, drawn: pl.DataFrame) -> pl.DataFrame:
    """The slices with the columns of `TIMELINE_SLICES` that the rank itself knows; one row each, in their order.

    Args:
        linked: one rank.
        slices: see `merging.merged`.
        drawn: see `RankSlices.drawn`.
    """
    event = slices.get_column("event_id")
    named = slices.select(
        "lane",
        "level",
        "start_ns",
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
        "count",
        "busy_ns",
        "event_id",
    ).with_columns(event_columns(linked.timeline, event, name="name", category="category"))
    found = named.hstack(_of_device(linked, event, drawn)).hstack(_of_host(linked, event))
    kinds = {category: kind.value for category, kind in _kinds().items()}
    plain = as_text("category").replace_strict(kinds, default=SliceKind.OTHER.value)
    return found.with_columns(
        as_text("name"),
        pl.when(pl.col("count") > 1)
        .then(pl.lit(SliceKind.MERGED.value))
        .otherwise(pl.coalesce("device_kind", plain))
        .alias("kind"),
    ).drop("category", "device_kind")


def _kinds() -> dict[str, SliceKind]:
    return {
        category: _KIND_BY_ROLE[role] for category, role in ROLE_BY_CATEGORY.items() if role in _KIND_BY_ROLE
    }


def _of_device(linked: LinkedTrace, event: pl.Series, drawn: pl.DataFrame) -> pl.DataFrame:
    """device_kind, family, call, op, grid, size_bytes; null for what is no work of a device."""
    work, details = device_work(linked), linked.timeline.device_work
    known = fetched(
        work.select("kind", "family", "call_event", "op_event"),
        rows_of_events(work.get_column("event_id"), event),
    )
    launch = fetched(
        details.select("grid", "block", "size_bytes"), rows_of_events(details.get_column("event_id"), event)
    )
    sizes = [pl.col(name).cast(pl.List(pl.String)).list.join(" x ") for name in ("grid", "block")]
    return pl.DataFrame(
        [
            known.select(
                as_text("kind").replace_strict(_KIND_BY_DEVICE_KIND, default=None, return_dtype=pl.String)
            )
            .to_series()
            .alias("device_kind"),
            known.get_column("family"),
            rows_of(drawn, known.get_column("call_event")).alias("call"),
            rows_of(drawn, known.get_column("op_event")).alias("op"),
            launch.select(pl.format("{} blocks of {} threads", *sizes).alias("grid")).to_series(),
            launch.get_column("size_bytes"),
        ]
    )


def _of_host(linked: LinkedTrace, event: pl.Series) -> pl.DataFrame:
    """node_id, shapes, types, call_site; null for what is no event of the host."""
    ops, sites = linked.timeline.host_ops, call_sites(linked).sort("event_id")
    args = fetched(
        ops.select(shapes=as_text("input_dims"), types=as_text("input_types")),
        rows_of_events(ops.get_column("event_id"), event),
    )
    site = fetched(sites.select("call_site"), rows_of_events(sites.get_column("event_id"), event))
    if not linked.has_et:
        node = pl.Series("node_id", [None] * len(event), dtype=pl.Int64)
        return pl.DataFrame([node, *args.get_columns(), site.get_column("call_site")])
    links = linked.host_links.select("event_id", "node_id").sort("event_id")
    nodes = fetched(links.select("node_id"), rows_of_events(links.get_column("event_id"), event))
    own = et_inputs(linked, nodes.get_column("node_id"))
    filled = args.select(pl.coalesce(args[name], own[name]).alias(name) for name in ("shapes", "types"))
    return pl.DataFrame([nodes.get_column("node_id"), *filled.get_columns(), site.get_column("call_site")])
