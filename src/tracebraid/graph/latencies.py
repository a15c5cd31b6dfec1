"""Latencies that are usual on a rank, learned from its own edges."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.analysis.collectives.bandwidth import fit_alpha_beta
from tracebraid.analysis.collectives.collective_fit import collective_fit
from tracebraid.analysis.collectives.transfers import transfers
from tracebraid.analysis.launches.queues import SLOW
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import EdgeKind, EdgeList, LatencySource
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.links import LATENCIES
from tracebraid.native.loops import native_loop

LATENT = (
    EdgeKind.LAUNCH,
    EdgeKind.STREAM_ORDER,
    EdgeKind.EVENT_WAIT,
    EdgeKind.SYNC,
    EdgeKind.THREAD,
    EdgeKind.COMMUNICATION_WAIT,
    EdgeKind.QUEUE,
)
"""Kinds of edges that have no work of their own, but a latency."""

_BY_CALL_BEFORE = (EdgeKind.LAUNCH,)
_BY_CALL_AFTER = (EdgeKind.SYNC, EdgeKind.QUEUE)
_BY_WORK_BEFORE = (EdgeKind.STREAM_ORDER,)
_BY_WORK_AFTER = (EdgeKind.LAUNCH, EdgeKind.STREAM_ORDER)


def latency_groups(edges: EdgeList, activities: pl.DataFrame) -> pl.DataFrame:
    """The group of each edge, as `code` (`EdgeKind`) and `key`.

    The key is, of a launch, the call and the kind of work; of stream order, the kinds of both works; of a wait of the
    host, the call; of others null.
    """
    names = activities.select(as_text("name", "kind"))
    before, after = names[edges.before // 2], names[edges.after // 2]
    code = pl.Series("code", edges.kind, dtype=pl.UInt8)
    rows = pl.DataFrame(
        [
            code,
            before.get_column("name").alias("call_before"),
            before.get_column("kind").alias("work_before"),
            after.get_column("name").alias("call_after"),
            after.get_column("kind").alias("work_after"),
        ]
    )
    parts = [
        _where(_BY_CALL_BEFORE, "call_before"),
        _where(_BY_WORK_BEFORE, "work_before"),
        _where(_BY_CALL_AFTER, "call_after"),
        _where(_BY_WORK_AFTER, "work_after"),
    ]
    key = pl.concat_str(parts, separator=" > ", ignore_nulls=True)
    return rows.select("code", pl.when(key != "").then(key).alias("key"))


def _where(kinds: tuple[EdgeKind, ...], column: str) -> pl.Expr:
    return pl.when(pl.col("code").is_in([int(kind) for kind in kinds])).then(pl.col(column))


_Ints = NDArray[np.int64]

_LOWEST = np.iinfo(np.int64).min


def sole_dependency(edges: EdgeList, times_ns: _Ints, most_ns: _Ints) -> NDArray[np.bool_]:
    """Return whether all else that the moment of each edge waits for was ready when this edge's wait began."""
    began = times_ns[edges.before]
    latest, second = (np.full(len(times_ns), _LOWEST, dtype=np.int64) for _ in range(2))
    edge_of = np.full(len(times_ns), -1, dtype=np.int64)
    return began >= _latest_of_others(edges.after, began + most_ns, latest, second, edge_of)


@native_loop
def _latest_of_others(after: _Ints, ready_ns: _Ints, latest: _Ints, second: _Ints, edge_of: _Ints) -> _Ints:
    """Ready time of the last of the other edges to the same moment; the lowest number if there is none.

    The last three have an entry for each moment: the two latest times, which begin as the lowest number, and the
    edge of the latest, -1.
    """
    for edge in range(len(after)):
        moment, ready = after[edge], ready_ns[edge]
        if ready > latest[moment] or edge_of[moment] < 0:
            second[moment], latest[moment], edge_of[moment] = latest[moment], ready, edge
        elif ready > second[moment]:
            second[moment] = ready
    found = np.empty(len(after), dtype=np.int64)
    for edge in range(len(after)):
        moment = after[edge]
        found[edge] = second[moment] if edge_of[moment] == edge else latest[moment]
    return found


MIN_SAMPLES = 5
"""Minimum samples of a median: with fewer, a single late moment would pass as usual."""

LONGEST_NS = 100_000
"""Maximum latency with few samples: for launches, gaps, waits and syncs 1 to 50 µs are usual on
V100, A100, H100, MI250, MI300X and MTIA (`DependencyGraph.latencies` of public traces)."""

_MOST_NS = 1_000_000
"""Maximum latency with any number of samples: work that always starts later waits for something unrecorded."""

_LOW = 0.1
_HIGH = 0.9

_SPREAD = 4.0
"""Multiple of the 10th percentile above which a sample is not a latency: the moment waited for something unrecorded.

A choice: of 29 groups with 50 samples or more, in the smaller public GPU traces, the 90th percentile is at most
4 times the 10th in 21, and up to 1,000 times in the others. With 2 or 8 instead, the median of a group stays the same
in most; at the extremes it is 0.5 and 1.7 times what it is with 4.
"""

_GROUP = ["code", "key"]
_SOURCES = (LatencySource.GROUP, LatencySource.KIND, LatencySource.LOWEST)


def usual_latencies(rows: pl.DataFrame) -> pl.DataFrame:
    """A row for each group: code, key, edges, samples, typical_ns, low_ns, high_ns, source, most_ns.

    The typical latency is the median of the samples of the group, without those that are no latency; of fewer than
    `MIN_SAMPLES` that of the kind; where the kind has too few as well, the lowest sample of the kind, 0 if that is too
    long for a latency; without any sample 0: how long an edge has waited that never decided says nothing. `most_ns`
    is what the latency hardly exceeds: the 90th percentile of the samples that it was learned from, 0 if there is
    none.
    """
    rows = rows.with_columns(pl.col("is_sample") & (pl.col("slack_ns") <= _MOST_NS))
    every = pl.col("slack_ns").filter("is_sample")
    sample = every.filter(every <= _SPREAD * every.quantile(_LOW, "nearest"))
    lowest = every.min()
    of_kind = rows.group_by("code").agg(
        pl.col("is_sample").sum().alias("kind_samples"),
        sample.median().alias("kind_typical_ns"),
        sample.quantile(_HIGH, "nearest").alias("kind_most_ns"),
        pl.when(lowest <= LONGEST_NS).then(lowest).otherwise(0).cast(pl.Float64).alias("lowest_ns"),
        every.min().clip(upper_bound=LONGEST_NS).fill_null(0).cast(pl.Float64).alias("lowest_sample_ns"),
    )
    found = rows.group_by(_GROUP).agg(
        pl.len().alias("edges"),
        pl.col("is_sample").sum().alias("samples"),
        sample.median().alias("own_ns"),
        sample.quantile(_HIGH, "nearest").alias("own_most_ns"),
        every.quantile(_LOW, "nearest").alias("low_ns"),
        every.quantile(_HIGH, "nearest").alias("high_ns"),
    )
    chosen = [
        _by_samples("own_ns", "kind_typical_ns", "lowest_ns").alias("typical_ns"),
        _by_samples("own_most_ns", "kind_most_ns", "lowest_sample_ns").alias("most_ns"),
        pl.when(pl.col("kind_samples") == 0)
        .then(pl.lit(LatencySource.NONE.value))
        .otherwise(_by_samples(*(pl.lit(source.value) for source in _SOURCES)))
        .alias("source"),
    ]
    return (
        found.join(of_kind, on="code", how="left").with_columns(chosen).sort("code", "key", nulls_last=False)
    )


def _by_samples(own: str | pl.Expr, of_kind: str | pl.Expr, lowest: str | pl.Expr) -> pl.Expr:
    """Latency from the group's own samples, from those of its kind if they are few, or neither."""
    enough, has_enough_samples = (pl.col(name) >= MIN_SAMPLES for name in ("samples", "kind_samples"))
    return pl.when(enough).then(own).when(has_enough_samples).then(of_kind).otherwise(lowest)


_ROUNDS = 2
"""In the first pass, other dependencies of a moment count as ready at once; in the next, after their latency."""


class Learned(Struct, frozen=True, eq=False):
    """Edges with latencies as work.

    Args:
        edges: the edges, in the same order.
        latencies: `LATENCIES`, of one rank.
    """

    edges: EdgeList
    latencies: pl.DataFrame


def with_latencies(edges: EdgeList, times_ns: _Ints, activities: pl.DataFrame) -> Learned:
    """Set the work of each latency edge to the usual latency, at most the available time."""
    latent = np.flatnonzero(np.isin(edges.kind, LATENT))
    if not len(latent):
        return Learned(edges, LATENCIES.empty())
    chosen = edges[latent]
    slack_ns = times_ns[chosen.after] - times_ns[chosen.before]
    rows = latency_groups(chosen, activities).with_columns(pl.Series("slack_ns", slack_ns))
    most_ns = edges.work_ns.copy()
    for _ in range(_ROUNDS):
        alone = sole_dependency(edges, times_ns, most_ns)[latent]
        usual = usual_latencies(rows.with_columns(pl.Series("is_sample", alone)))
        found = rows.join(usual, on=["code", "key"], how="left", nulls_equal=True, maintain_order="left")
        most_ns[latent] = np.minimum(found.get_column("most_ns").to_numpy(), slack_ns).astype(np.int64)
    typical = np.minimum(found.get_column("typical_ns").to_numpy(), slack_ns).astype(np.int64)
    work_ns = edges.work_ns.copy()
    work_ns[latent] = typical
    return Learned(replace(edges, work_ns=work_ns), _table(usual, activities))


def _table(usual: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    names = {int(kind): kind.name.lower() for kind in EdgeKind}
    kind = pl.col("code").replace_strict(names, return_dtype=pl.String).alias("kind")
    rank = activities.get_column("rank").first()
    return LATENCIES.conform(usual.with_columns(kind, pl.lit(rank, dtype=pl.Int64).alias("rank")))


def with_long_calls(edges: EdgeList, times_ns: _Ints, activities: pl.DataFrame) -> EdgeList:
    """Attribute the time of a call before its launch to the launch edge, as work of the call.

    A call that loads a module, or copies to a staging buffer, takes long, and its work cannot start before that is
    done: of a call that takes `SLOW` times the median of its name or more, what it took beyond that median until the
    work started is added to the usual latency, where the work waited for nothing else.
    """
    ready = sole_dependency(edges, times_ns, edges.work_ns)
    launch = np.flatnonzero((edges.kind == EdgeKind.LAUNCH) & ready)
    call = edges.before[launch] // 2
    lasted_ns = times_ns[2 * call + 1] - times_ns[2 * call]
    slack_ns = times_ns[edges.after[launch]] - times_ns[edges.before[launch]]
    usual_ns = _usual_ns(call, lasted_ns, activities)
    extra_ns = np.minimum(lasted_ns, slack_ns) - usual_ns
    long = (lasted_ns >= SLOW * usual_ns) & (extra_ns > 0)
    chosen = launch[long]
    work_ns, owner = edges.work_ns.copy(), edges.activity.copy()
    work_ns[chosen] = np.minimum(slack_ns[long], work_ns[chosen] + extra_ns[long])
    owner[chosen] = call[long]
    return replace(edges, work_ns=work_ns, activity=owner)


def _usual_ns(call: _Ints, lasted_ns: _Ints, activities: pl.DataFrame) -> _Ints:
    """The median duration of the calls of each call's name."""
    rows = pl.DataFrame({"call": call, "lasted_ns": lasted_ns}).with_columns(
        activities.select(as_text("name")).to_series().gather(call).alias("name")
    )
    calls = rows.unique("call").group_by("name").agg(pl.col("lasted_ns").median().alias("usual_ns"))
    found = rows.join(calls, on="name", how="left", maintain_order="left").get_column("usual_ns")
    usual: _Ints = found.fill_null(0).cast(pl.Int64).to_numpy()
    return usual


_KEY = ["group", "type"]


def communication_latency(ranks: LinkedRanks) -> pl.DataFrame:
    """The fitted line of each group and type: `alpha_ns`, and `ns_per_byte`, 0 if times do not grow with sizes.

    Alpha is the lower of the fit's and of that of the shortest transfers of each size: delays are no latency of the
    network. Where they hide how times grow with sizes, the shortest transfers tell it, too; a line that explains no
    time is none.
    """
    return ranks.derived(_lines)


def _lines(ranks: LinkedRanks) -> pl.DataFrame:
    fit = collective_fit(ranks).drop_nulls("alpha_ns").unique(_KEY, keep="first", maintain_order=True)
    short = transfers(ranks).filter(
        pl.col("size_bytes").is_not_null()
        & (pl.col("transfer_ns") > 0)
        & ~pl.col("is_bound").fill_null(value=True)
    )
    by_size = short.group_by(*_KEY, "size_bytes").agg(pl.col("transfer_ns").quantile(_LOW, "nearest"))
    rows = []
    for key, part in by_size.sort(*_KEY, "size_bytes").group_by(*_KEY, maintain_order=True):
        if part.height > 1:
            sizes, times = (
                part.get_column(name).cast(pl.Float64).to_numpy() for name in ("size_bytes", "transfer_ns")
            )
            line = fit_alpha_beta(sizes, times)
            rows.append((*key, line.alpha, line.slope))
    keys = [(name, fit.schema[name]) for name in _KEY]
    schema = [*keys, ("least_ns", pl.Float64()), ("least_ns_per_byte", pl.Float64())]
    least = pl.DataFrame(rows, schema=schema, orient="row")
    found = fit.join(least, on=_KEY, how="left", maintain_order="left", nulls_equal=True)
    alpha = pl.min_horizontal("alpha_ns", "least_ns").alias("alpha_ns")
    rate = pl.coalesce(1e9 / pl.col("beta_bytes_per_s"), "least_ns_per_byte", 0.0).alias("ns_per_byte")
    return found.select(*_KEY, alpha, rate).filter((pl.col("alpha_ns") > 0) | (pl.col("ns_per_byte") > 0))
