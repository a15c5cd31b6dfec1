"""Python threads that wait for each other by a lock or a queue, of which their stacks name the object."""

from __future__ import annotations

import polars as pl

from tracebraid.graph.activities import RankActivities
from tracebraid.graph.hosts.hand_overs import PROMPT_NS
from tracebraid.graph.hosts.thread_chains import ThreadChains
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment

__all__ = ["lock_waits"]

_CALL = r"^<built-in method (\w+) of (.+ object at 0x[0-9a-fA-F]+)>$"
_WAITS = {"acquire": "release", "get": "put"}
"""A method that waits, and the method of the same object for which it does: of locks, and of queues."""


def lock_waits(activities: RankActivities, chains: ThreadChains) -> EdgeList:
    """From the start of the call that frees an object to the end of another thread's call that waited for it.

    It waited for the last such call on the same object that began meanwhile. Where that thread keeps Python's
    interpreter lock until it waits itself, the other resumes no sooner: a second edge, from the start of that wait.

    Args:
        activities: of a rank.
        chains: the moments of its threads.
    """
    calls = _calls(activities, chains)
    frees = calls.filter(pl.col("method").is_in(list(_WAITS.values()))).select(
        "object", "method", free="activity", free_thread="thread", freed_ns="start_ns"
    )
    waits = calls.filter(pl.col("method").is_in(list(_WAITS))).with_columns(pl.col("method").replace(_WAITS))
    pairs = waits.sort("end_ns").join_asof(
        frees.sort("freed_ns"),
        left_on="end_ns",
        right_on="freed_ns",
        by=["object", "method"],
        strategy="backward",
        check_sortedness=False,
    )
    pairs = pairs.filter(
        (pl.col("freed_ns") >= pl.col("start_ns")) & (pl.col("thread") != pl.col("free_thread"))
    ).sort("activity")
    found = [pairs.select("activity", before="free"), _until_blocked(pairs, waits)]
    wait, before = (pl.concat(found).get_column(name).to_numpy() for name in ("activity", "before"))
    return EdgeList.of(moment(before, Point.START), moment(wait, Point.END), EdgeKind.THREAD, wait)


def _until_blocked(pairs: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The waits that ended promptly when the thread that freed their object began to wait for something itself."""
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
    """Calls of built-in methods of objects that have an address."""
    table = activities.table.select(
        pl.int_range(pl.len()).cast(pl.Int64).alias("activity"),
        as_text("kind", "name"),
        "start_ns",
        "end_ns",
    )
    calls = table.filter(pl.col("kind") == ActivityKind.PYTHON.value).with_columns(
        pl.col("name").str.extract(_CALL, 1).alias("method"),
        pl.col("name").str.extract(_CALL, 2).alias("object"),
    )
    calls = calls.filter(pl.col("object").is_not_null())
    position = chains.position[moment(calls.get_column("activity").to_numpy(), Point.START)]
    return calls.with_columns(pl.Series("thread", chains.thread[position]))
