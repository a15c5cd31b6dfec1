"""Slices of a timeline: which events are drawn, on which line, and what joins them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.device import device_events_by_step, event_columns, fetched, rows_of_events
from tracebraid.analysis.host.host_trees import call_sites
from tracebraid.analysis.kernels.kernels import device_work
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.category import Category, Role, categories_of
from tracebraid.model.compact import compact
from tracebraid.model.device_peaks import COMMUNICATION, MEMORY, WAIT
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import CriticalPath
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.report import (
    MOST_SLICES,
    TIMELINE_LINKS,
    TIMELINE_PATH,
    TIMELINE_RANKS,
    TIMELINE_SLICES,
    TIMELINE_TRACKS,
    SliceKind,
)
from tracebraid.model.schema.kineto import LANES


class SliceChoice(Struct, frozen=True):
    """Timeline of a rank.

    Args:
        steps: names of the steps; empty: the whole trace.
        most: slices that may be drawn of the rank.
    """

    steps: tuple[str, ...] = ()
    most: int = MOST_SLICES


def window_of(linked: LinkedTrace, choice: SliceChoice) -> tuple[int, int] | None:
    """Interval on the rank's own clock of its steps and the work launched in them.

    None if the rank has no such step, or no event at all.
    """
    if not choice.steps:
        return linked.timeline.span_ns
    wanted = pl.col("step").is_in(choice.steps)
    steps = step_windows(linked).filter(wanted)
    if steps.is_empty():
        return None
    work = device_events_by_step(linked).filter(wanted)
    ends = [
        steps.select(pl.col("end_ns").max()).item(),
        work.select((pl.col("ts_ns") + pl.col("dur_ns")).max()).item(),
    ]
    return steps.select(pl.col("start_ns").min()).item(), max(end for end in ends if end is not None)


_SHOWN_BY_SLICES = ("launch", "stream_order", "forward_backward")
"""Kinds that need no links: slices have `call` and `op` and an order; `forward_backward` is a table of its own."""


def rows_of(drawn: pl.DataFrame, events: pl.Series) -> pl.Series:
    """Return the row of each event's slice; null if the event is null or not drawn."""
    at = rows_of_events(drawn.get_column("event_id"), events)
    return fetched(drawn.select("row"), at).get_column("row")


def links_of(linked: LinkedTrace, drawn: pl.DataFrame) -> pl.DataFrame:
    """The dependencies whose ends are both drawn, each once: `TIMELINE_LINKS`, by rows of the rank's slices."""
    waits = linked.dependencies.filter(~as_text("kind").is_in(_SHOWN_BY_SLICES)).select(
        "before_event", "after_event", as_text("kind"), "slack_ns"
    )
    backward = linked.forward_backward.select(
        pl.col("forward_event").alias("before_event"),
        pl.col("backward_event").alias("after_event"),
        pl.lit("forward_backward").alias("kind"),
        pl.lit(None, dtype=pl.Int64).alias("slack_ns"),
    )
    both = pl.concat([waits, backward])
    found = both.with_columns(
        rows_of(drawn, both.get_column(f"{end}_event")).alias(end) for end in ("before", "after")
    )
    ends = found.filter(pl.col("before").is_not_null() & (pl.col("before") != pl.col("after")))
    ends = ends.drop_nulls("after").unique(["before", "after", "kind"], keep="first", maintain_order=True)
    return TIMELINE_LINKS.conform(ends)


def et_inputs(linked: LinkedTrace, nodes: pl.Series) -> pl.DataFrame:
    """`shapes` and `types` of the inputs of some nodes, JSON lists; null if the node is."""
    nothing = pl.Series("shapes", [None] * len(nodes), dtype=pl.String)
    if linked.et is None or nodes.null_count() == len(nodes):
        return pl.DataFrame([nothing, nothing.alias("types")])
    quoted = (
        as_text("type").str.replace_all("\\", "\\\\", literal=True).str.replace_all('"', '\\"', literal=True)
    )
    listed = [
        as_text("shape").fill_null("null").alias("shapes"),
        pl.format('"{}"', quoted.fill_null("")).alias("types"),
    ]
    inputs = linked.et.values.filter(
        ~pl.col("is_output") & pl.col("node_id").is_in(nodes.drop_nulls().implode())
    )
    lists = (
        inputs.sort("node_id", "position")
        .select("node_id", *listed)
        .group_by("node_id")
        .agg(pl.format("[{}]", pl.col(name).str.join(",")).alias(name) for name in ("shapes", "types"))
    )
    found = nodes.alias("node_id").to_frame().join(lists, on="node_id", how="left", maintain_order="left")
    return found.select("shapes", "types")


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
    """The slices with the columns of `TIMELINE_SLICES` that the rank itself knows; one row each, in their order."""
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
        category.value: _KIND_BY_ROLE[category.role]
        for category in Category
        if category.role in _KIND_BY_ROLE
    }


def _of_device(linked: LinkedTrace, event: pl.Series, drawn: pl.DataFrame) -> pl.DataFrame:
    """device_kind, family, call, op, grid, size_bytes; null for other than device work."""
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
    """node_id, shapes, types, call_site; null for other than host events."""
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


_Ints = NDArray[np.int64]

MOST_OVERLAPPING = 200
"""Lines that slices which overlap without nesting can take; more share the last one. Queues of 100 streams fit."""


def levels_of(slices: pl.DataFrame) -> pl.Series:
    """The line of each slice, from 0: below what it lies in, and free at its time.

    Nesting that is known is kept where no two slices overlap by it. Otherwise each slice takes the first free line
    below the innermost slice that holds it, in the order of starts, long ones first.
    """
    found = slices.select(
        "lane",
        pl.col("depth").fill_null(0).alias("level"),
        "ts_ns",
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
    )
    before = pl.col("end_ns").cum_max().shift(1).over("lane", "level")
    clashing = found.filter(pl.col("ts_ns") < before).get_column("lane").unique().to_list()
    levels = found.get_column("level").to_numpy().copy()
    lanes = found.get_column("lane").to_numpy()
    starts, ends = (found.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    for lane in clashing:
        rows = np.flatnonzero(lanes == lane)
        levels[rows] = _first_free(starts[rows], ends[rows])
    return pl.Series("level", levels, dtype=pl.Int64)


def _first_free(starts: _Ints, ends: _Ints) -> list[int]:
    busy_until: list[int] = []
    levels = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        level = len(busy_until)
        while level and not (busy_until[level - 1] > start and busy_until[level - 1] >= end):
            level -= 1
        while level < len(busy_until) and busy_until[level] > start:
            level += 1
        if level == len(busy_until):
            busy_until.append(end)
        level = min(level, MOST_OVERLAPPING - 1)
        del busy_until[MOST_OVERLAPPING:]
        busy_until[level] = max(busy_until[level], end) if busy_until[level] > start else end
        levels.append(level)
    return levels


def merging_width(slices: pl.DataFrame, most: int) -> int:
    """The width in ns below which slices are merged, a power of 2; 0: there are few enough."""
    if slices.height <= most:
        return 0
    longest = slices.select(pl.col("dur_ns").max()).item()
    span = slices.select((pl.col("ts_ns") + pl.col("dur_ns")).max() - pl.col("ts_ns").min()).item()
    width = 1
    while width <= 2 * max(longest, span, 1):
        short = pl.col("dur_ns") < width
        kept = slices.filter(~short).height
        cells = slices.filter(short).select("lane", "level", pl.col("ts_ns") // width).n_unique()
        if kept + cells <= most:
            return width
        width *= 2
    return width


def merged(slices: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
    """Merge slices; return them, and the new row of each previous slice.

    Slices shorter than the width that start in the same interval of that width become one. None of them is longer
    than such an interval, so nothing of their line lies between them.
    """
    row = pl.int_range(pl.len(), dtype=pl.Int64)
    if not width:
        return _each(slices)
    cell = pl.col("ts_ns") // width
    is_short = pl.col("dur_ns") < width
    keyed = slices.with_columns(
        is_short.alias("is_short"), pl.when(is_short).then(cell).otherwise(row).alias("cell")
    )
    keys = ["lane", "level", "is_short", "cell"]
    groups = keyed.group_by(keys, maintain_order=True).agg(
        pl.col("ts_ns").min().alias("start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).max().alias("end_ns"),
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("dur_ns").sum().alias("busy_ns"),
        pl.when(pl.len() == 1).then(pl.col("event_id").first()).alias("event_id"),
    )
    groups = groups.sort("lane", "level", "start_ns", maintain_order=True).with_row_index("row")
    rows = keyed.select(keys).join(groups.select(*keys, "row"), on=keys, how="left", maintain_order="left")
    return groups.drop("is_short", "cell", "row"), rows.get_column("row").cast(pl.Int64)


def _each(slices: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """The slices as they are, by line and start, and the row of each."""
    ordered = slices.with_row_index("before").sort("lane", "level", "ts_ns", maintain_order=True)
    rows = np.empty(slices.height, dtype=np.int64)
    rows[ordered.get_column("before").to_numpy()] = np.arange(slices.height)
    start = pl.col("ts_ns").alias("start_ns")
    columns = [start, (start + pl.col("dur_ns")).alias("end_ns"), pl.lit(1, dtype=pl.Int64).alias("count")]
    single = ordered.select("lane", "level", *columns, pl.col("dur_ns").alias("busy_ns"), "event_id")
    return single, pl.Series("row", rows)


class RankSlices(Struct, frozen=True, eq=False):
    """Compute the timeline of a rank, without references to the linked trace.

    Args:
        rank: the rank.
        steps: names of the steps that are shown; empty: the whole trace.
        window_ns: from when to when, on the rank's own clock; None: there is nothing to show.
        merged_ns: consecutive slices shorter than this were merged; 0: none were.
        slices: as `TIMELINE_SLICES`, on the rank's own clock, with `lane` instead of `track`, and without what is
            known of collectives; `call` and `op` are rows of this table.
        links: as `TIMELINE_LINKS`, by rows of this table.
        drawn: `event_id` of each event in the window, and the `row` of the slice that stands for it.
        lanes: `LANES` that have slices.
    """

    rank: int
    steps: tuple[str, ...]
    window_ns: tuple[int, int] | None
    merged_ns: int
    slices: pl.DataFrame
    links: pl.DataFrame
    drawn: pl.DataFrame
    lanes: pl.DataFrame


def rank_slices(linked: LinkedTrace, choice: SliceChoice) -> RankSlices:
    """The slices of a rank; each event with a duration is one of them, or counted in one.

    Drawn are ops, annotations, Python functions and calls of the host, and work, waits and annotations of devices.
    Moments such as allocations are not.
    """
    window = window_of(linked, choice)
    events = _events_in(linked, window)
    events = events.with_columns(levels_of(events))
    width = merging_width(events, choice.most)
    slices, rows = merged(events, width)
    drawn = events.select("event_id").with_columns(rows.alias("row")).sort("event_id")
    lanes = linked.timeline.lanes.filter(pl.col("lane").is_in(slices.get_column("lane").unique().implode()))
    return RankSlices(
        linked.rank,
        choice.steps,
        window,
        width,
        compact(described(linked, slices, drawn)),
        compact(links_of(linked, drawn)),
        drawn,
        compact(LANES.conform(lanes)),
    )


def _events_in(linked: LinkedTrace, window: tuple[int, int] | None) -> pl.DataFrame:
    """event_id, lane, ts_ns, dur_ns, depth of the events that are drawn, by lane and start, long ones first."""
    start, end = window or (0, 0)
    stop = pl.col("ts_ns") + pl.col("dur_ns")
    inside = (pl.col("ts_ns") < end) & (stop > start) | (pl.col("dur_ns") == 0) & pl.col("ts_ns").is_between(
        start, end
    )
    category = as_text("category").fill_null("")
    moments = categories_of(Role.INSTANT)
    idle = category.is_in(categories_of(Role.OTHER)) & (pl.col("dur_ns") == 0)
    return (
        linked.timeline.events.filter(inside if window else pl.lit(value=False))
        .filter(~category.is_in([*moments, Category.TRACE.value]) & ~idle)
        .select("event_id", "lane", "ts_ns", "dur_ns")
        .join(linked.host_tree.select("event_id", "depth"), on="event_id", how="left", maintain_order="left")
        .sort("lane", "ts_ns", "dur_ns", "event_id", descending=[False, False, True, False])
    )


def path_on_slices(
    path: CriticalPath | None,
    drawn: pl.DataFrame,
    tracks: pl.DataFrame,
    shown: Sequence[RankSlices],
    origin: int,
) -> pl.DataFrame:
    """The segments of the shown steps: `TIMELINE_PATH`."""
    if path is None or not shown:
        return TIMELINE_PATH.empty()
    steps = list(dict.fromkeys(step for part in shown for step in part.steps))
    of_steps = pl.col("step").is_in(steps) if steps else pl.lit(value=True)
    segments = path.segments.filter(of_steps)
    found = (
        segments.join(drawn, on=["rank", "event_id"], how="left", maintain_order="left")
        .join(tracks.select("rank", "lane", "track"), on=["rank", "lane"], how="left", maintain_order="left")
        .sort("start_ns", "order")
    )
    return TIMELINE_PATH.conform(
        found.select(
            pl.col("track").cast(pl.Int64),
            pl.col("row").alias("slice"),
            pl.col("start_ns") - origin,
            "duration_ns",
            as_text("kind", "name"),
        )
    )


def timeline_view(
    parts: Sequence[RankSlices], ranks: LinkedRanks, path: CriticalPath | None = None
) -> dict[str, pl.DataFrame]:
    """Tables of a job's timeline: `TIMELINE_TABLES`, by name in `RunResults.views`.

    Slices stand on the reference's clock, from the earliest start of a rank's window. A rank whose clock is unknown is
    moved so that its window starts with the others'.
    """
    shown = sorted((part for part in parts if part.slices.height), key=lambda part: part.rank)
    clocks = _clocks(shown, ranks)
    origin = clocks.select(pl.col("start_ns").min()).item() or 0
    slices = _all_slices(shown, clocks, ranks, origin)
    tracks = _tracks(shown, slices)
    keys = ["rank", "lane"]
    numbered = slices.join(tracks.select(*keys, "track"), on=keys, how="left", maintain_order="left")
    links = [part.links.with_columns(pl.col("before", "after") + first) for part, first in _firsts(shown)]
    return {
        "timeline-slices": TIMELINE_SLICES.conform(numbered),
        "timeline-tracks": TIMELINE_TRACKS.conform(tracks),
        "timeline-ranks": _ranks(shown, clocks, origin),
        "timeline-links": TIMELINE_LINKS.conform(pl.concat([TIMELINE_LINKS.empty(), *links])),
        "timeline-path": path_on_slices(path, _drawn(shown), tracks, shown, origin),
    }


def _clocks(shown: Sequence[RankSlices], ranks: LinkedRanks) -> pl.DataFrame:
    """rank, start_ns, end_ns of the window on the reference's clock, shift_ns of what has no clock, is_aligned."""
    windows = pl.DataFrame(
        [(part.rank, *(part.window_ns or (0, 0))) for part in shown],
        schema={"rank": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64},
        orient="row",
    )
    known = ranks.clocks.select("rank", pl.col("offset_ns").is_not_null().alias("is_aligned"))
    aligned = ranks.aligned(windows, "start_ns", "end_ns").join(
        known, on="rank", how="left", maintain_order="left"
    )
    is_aligned = pl.col("is_aligned").fill_null(value=False) | (pl.len() == 1)
    aligned = aligned.with_columns(is_aligned.alias("is_aligned"))
    first = pl.col("start_ns").filter("is_aligned").min()
    projected_on = pl.coalesce(first, pl.col("start_ns").min())
    shift = pl.when("is_aligned").then(0).otherwise(projected_on - pl.col("start_ns"))
    return aligned.with_columns(shift.alias("shift_ns")).with_columns(
        pl.col("start_ns", "end_ns") + pl.col("shift_ns")
    )


def _firsts(shown: Sequence[RankSlices]) -> list[tuple[RankSlices, int]]:
    """Each part with the row of its first slice among those of all ranks."""
    firsts, first = [], 0
    for part in shown:
        firsts.append((part, first))
        first += part.slices.height
    return firsts


def _drawn(shown: Sequence[RankSlices]) -> pl.DataFrame:
    """rank, event_id, and the row of its slice."""
    rank = pl.Series("rank", [], dtype=pl.Int64)
    none = pl.DataFrame({"rank": rank, "event_id": rank.alias("event_id"), "row": rank.alias("row")})
    found = [
        part.drawn.select(pl.lit(part.rank, dtype=pl.Int64).alias("rank"), "event_id", pl.col("row") + first)
        for part, first in _firsts(shown)
    ]
    return pl.concat([none, *found])


def _all_slices(
    shown: Sequence[RankSlices], clocks: pl.DataFrame, ranks: LinkedRanks, origin: int
) -> pl.DataFrame:
    frames = [
        part.slices.with_columns(
            pl.lit(part.rank, dtype=pl.Int64).alias("rank"), pl.col("call", "op") + first
        )
        for part, first in _firsts(shown)
    ]
    if not frames:
        of_rank = [pl.lit(None, dtype=pl.Int64).alias(name) for name in ("rank", "lane")]
        return TIMELINE_SLICES.empty().drop("track").with_columns(of_rank)
    members = ranks.members.select(
        "rank",
        "event_id",
        "collective",
        "group",
        "sequence",
        pl.max_horizontal("in_bytes", "out_bytes").alias("_bytes"),
    ).unique(["rank", "event_id"], keep="first")
    every = ranks.aligned(pl.concat(frames), "start_ns")
    return (
        every.join(members, on=["rank", "event_id"], how="left", maintain_order="left")
        .join(clocks.select("rank", "shift_ns"), on="rank", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("size_bytes", "_bytes").alias("size_bytes"),
            pl.col("start_ns") + pl.col("shift_ns") - origin,
        )
    )


def _tracks(shown: Sequence[RankSlices], slices: pl.DataFrame) -> pl.DataFrame:
    keys = ["rank", "lane"]
    on_device = as_text("kind").is_in(["kernel", "copy", "communication", "device annotation"])
    found = slices.group_by(keys).agg(
        (on_device | as_text("family").is_not_null()).any().alias("has_work"),
        (pl.col("level").max() + 1).alias("levels"),
        pl.len().cast(pl.Int64).alias("slices"),
        pl.col("count").sum().alias("events"),
    )
    lanes = [part.lanes.with_columns(pl.lit(part.rank, dtype=pl.Int64).alias("rank")) for part in shown]
    if not lanes:
        return TIMELINE_TRACKS.empty()
    named = found.join(pl.concat(lanes), on=keys, how="left")
    pid, tid = (pl.coalesce(as_text(name), pl.col(f"{name}_text")) for name in ("pid", "tid"))
    is_device = pl.col("has_work") | pl.col("process_labels").str.starts_with("GPU").fill_null(value=False)
    process = pl.when(is_device).then(pl.format("device {}", pid)).otherwise(pl.format("process {}", pid))
    label = pl.when(is_device).then(pl.format("stream {}", tid)).otherwise(pl.format("thread {}", tid))
    return (
        named.with_columns(
            is_device.alias("is_device"),
            pl.coalesce("thread_name", label, pl.lit("?")).alias("label"),
            pl.coalesce(process, pl.lit("?")).alias("process"),
        )
        .sort("rank", "is_device", "lane")
        .with_row_index("track")
    )


def _ranks(shown: Sequence[RankSlices], clocks: pl.DataFrame, origin: int) -> pl.DataFrame:
    rows = [
        (", ".join(part.steps) or None, part.drawn.height, part.slices.height, part.merged_ns)
        for part in shown
    ]
    schema = {"steps": pl.String, "events": pl.Int64, "slices": pl.Int64, "merged_ns": pl.Int64}
    counts = pl.DataFrame(rows, schema=schema, orient="row")
    found = clocks.with_columns(
        pl.col("start_ns", "end_ns") - origin, pl.lit(origin, dtype=pl.Int64).alias("origin_ns")
    )
    return TIMELINE_RANKS.conform(found.hstack(counts))
