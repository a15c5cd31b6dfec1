"""Python threads that wait for each other by a lock or a queue, as their stacks say."""

from __future__ import annotations

import polars as pl

from tracebraid.graph.activities import RankActivities
from tracebraid.graph.hosts.hand_overs import PROMPT_NS
from tracebraid.graph.hosts.thread_chains import ThreadChains
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment

__all__ = ["RESUMED_WITHIN_NS", "lock_waits"]

_CALL = r"^<built-in method (\w+) of (\S+) object at 0x[0-9a-fA-F]+>$"
"""A method and the class of its object; the address does not tell objects apart: the profiler names each method once,
by the first object that it was called on."""
_WAITS = {"acquire": "release", "get": "put"}
"""A method that waits, and the method of the same class for which it does: of locks, and of queues."""

RESUMED_WITHIN_NS = 1_000_000
"""A thread that resumes later than this waited for something else, unless it had to wait for the interpreter."""


def lock_waits(activities: RankActivities, chains: ThreadChains) -> EdgeList:
    """From the start of the call that frees a lock or fills a queue to the end of a call that waited for it.

    It waited for the last such call of another thread, if it returned soon behind that. Where the other keeps
    Python's interpreter lock until it waits itself, it returned no sooner: an edge from the start of that wait, too.

    Args:
        activities: of a rank.
        chains: the moments of its threads.
    """
    calls = _calls(activities, chains)
    frees = calls.filter(pl.col("method").is_in(list(_WAITS.values()))).select(
        "class", "method", free="activity", free_thread="thread", freed_ns="start_ns"
    )
    waits = calls.filter(pl.col("method").is_in(list(_WAITS))).with_columns(pl.col("method").replace(_WAITS))
    pairs = waits.sort("end_ns").join_asof(
        frees.sort("freed_ns"),
        left_on="end_ns",
        right_on="freed_ns",
        by=["class", "method"],
        strategy="backward",
        check_sortedness=False,
    )
    pairs = pairs.filter(
        (pl.col("freed_ns") >= pl.col("start_ns")) & (pl.col("thread") != pl.col("free_thread"))
    ).sort("activity")
    blocked = _until_blocked(pairs, waits)
    soon = pl.col("end_ns") - pl.col("freed_ns") <= RESUMED_WITHIN_NS
    kept = pairs.filter(soon | pl.col("activity").is_in(blocked.get_column("activity").implode()))
    found = pl.concat([kept.select("activity", before="free"), blocked])
    wait, before = (found.get_column(name).to_numpy() for name in ("activity", "before"))
    return EdgeList.of(moment(before, Point.START), moment(wait, Point.END), EdgeKind.THREAD, wait)


def _until_blocked(pairs: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The waits that ended promptly when the thread that ended them began to wait for something itself."""
    blocked = waits.select(free_thread="thread", before="activity", blocked_ns="start_ns").sort("blocked_ns")
    late = pairs.filter(pl.col("end_ns") - pl.col("freed_ns") > PROMPT_NS).sort("end_ns")
    return (
        late.join_asof(
            blocked,
            left_on="end_ns",
            right_on="blocked_ns",
            by="free_thread",
            strategy="backward",
            tolerance=PROMPT_NS,
            check_sortedness=False,
        )
        .filter(pl.col("blocked_ns") > pl.col("freed_ns"))
        .select("activity", "before")
    )


def _calls(activities: RankActivities, chains: ThreadChains) -> pl.DataFrame:
    """Calls of built-in methods of objects."""
    table = activities.table.select(
        pl.int_range(pl.len()).cast(pl.Int64).alias("activity"),
        as_text("kind", "name"),
        "start_ns",
        "end_ns",
    )
    calls = table.filter(pl.col("kind") == ActivityKind.PYTHON.value).with_columns(
        pl.col("name").str.extract(_CALL, 1).alias("method"),
        pl.col("name").str.extract(_CALL, 2).alias("class"),
    )
    calls = calls.filter(pl.col("class").is_not_null())
    position = chains.position[moment(calls.get_column("activity").to_numpy(), Point.START)]
    return calls.with_columns(pl.Series("thread", chains.thread[position]))
