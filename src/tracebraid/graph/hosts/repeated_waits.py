"""Waits that nothing names: where a thread falls silent and resumes right behind the same moment of another, again and
again.

A thread that waits for a future or a queue shows nothing without its Python functions. By chance another thread's last
moment would lie in the last tenth of a silence once in ten times; a thread that works by itself does not resume right
behind the same moment of another most times.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.graph.hosts.hand_overs import PROMPT_NS
from tracebraid.graph.hosts.thread_chains import NO_POSITION, ThreadChains
from tracebraid.graph.hosts.waits import WAITS
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind, EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["FEWEST", "LATE_SHARE", "SILENT_NS", "repeated_waits"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

SILENT_NS = 100_000
"""A thread that shows nothing for this long may have waited; linking counts threads as silent from the same time on."""
LATE_SHARE = 0.1
"""Of its silence, by how much a thread may resume later than what it waited for."""
FEWEST = 3
"""How often it must do so, and more often than not: by chance three times of five are less likely than 1 in 100."""

_WAIT_NAME = r"(?i)\bwait|acquire|\bjoin\b|\bget\b|result"
_SLEEP_NAME = r"(?i)sleep"
_NUMBERS = r"\d+"
_SILENCE, _GIVER = ["thread", "fell", "resumed"], ["giver", "given"]


def repeated_waits(activities: RankActivities, chains: ThreadChains, known: EdgeList) -> EdgeList:
    """From the last moment of the other thread to the moment at which the silent thread resumes.

    A silence is alike another if it lies between moments of the same names on the same thread; numbers in names do not
    count. Ranges of communication are left to the ops that ask for them, and silences that a known edge explains
    count, but get no other edge.

    Args:
        activities: of a rank.
        chains: the moments of its threads.
        known: edges that were found before.
    """
    rows = activities.table.select(
        as_text("kind", "name"), key=as_text("name").str.replace_all(_NUMBERS, "#").rank("dense")
    )
    silent = _silences(rows, chains)
    giver = _givers(rows, chains, silent)
    key = 2 * rows.get_column("key").fill_null(0).cast(pl.Int64).to_numpy()[chains.moments // 2]
    key += chains.moments % 2
    fits = giver != NO_POSITION
    found = pl.DataFrame(
        {
            "thread": chains.thread[silent],
            "fell": key[silent - 1],
            "resumed": key[silent],
            "giver": np.where(fits, chains.thread[giver], -1),
            "given": np.where(fits, key[giver], -1),
        }
    ).with_columns(total=pl.len().over(_SILENCE), times=pl.len().over(_SILENCE + _GIVER))
    often = (pl.col("times") >= FEWEST) & (2 * pl.col("times") > pl.col("total")) & (pl.col("giver") >= 0)
    kept = found.select(often).to_series().to_numpy() & ~_explained(chains, silent, known)
    after = chains.moments[silent[kept]]
    return EdgeList.of(chains.moments[giver[kept]], after, EdgeKind.THREAD, after // 2)


def _silences(rows: pl.DataFrame, chains: ThreadChains) -> _Ints:
    """The positions that end silences in which a thread may have waited: in no op, call or annotation of its own."""
    position = np.flatnonzero(chains.owner >= 0)
    position = position[chains.times_ns[position] - chains.times_ns[position - 1] >= SILENT_NS]
    is_thread = rows.select(pl.col("kind") == ActivityKind.THREAD.value).to_series().to_numpy()
    own = rows[chains.owner[position]].select(
        thread=pl.col("kind") == ActivityKind.THREAD.value,
        outer=pl.col("kind").is_in([ActivityKind.ANNOTATION.value, ActivityKind.PYTHON.value]),
        waits=pl.col("name").str.contains(_WAIT_NAME).fill_null(False),
        sleeps=pl.col("name").str.contains(_SLEEP_NAME).fill_null(False),
    )
    thread, outer, waits, sleeps = (own.get_column(name).to_numpy() for name in own.columns)
    # An annotation with nothing in it says what the thread did.
    whole = chains.moments[position] // 2 == chains.moments[position - 1] // 2
    ends_thread = is_thread[chains.moments[position] // 2]
    begins_thread = is_thread[chains.moments[position - 1] // 2]
    may = (thread | (outer & (waits | ~whole))) & ~sleeps & ~ends_thread & ~begins_thread
    found: _Ints = position[may]
    return found


def _givers(rows: pl.DataFrame, chains: ThreadChains, silent: _Ints) -> _Ints:
    """For each silence the last moment of another thread in its last tenth, behind which that falls silent; else -1.

    Where the silent thread is in no event at all it waited for something to do: then the other may go on.
    """
    idle = _is(rows, ActivityKind.THREAD)[chains.owner[silent]]
    no_giver = _is(rows, ActivityKind.COMMUNICATION) | _is(rows, ActivityKind.THREAD)
    resumed_ns, since_ns = chains.times_ns[silent], chains.times_ns[silent - 1]
    within_ns = np.maximum(PROMPT_NS, ((resumed_ns - since_ns) * LATE_SHARE).astype(np.int64))
    earliest_ns = np.maximum(since_ns, resumed_ns - within_ns)
    found = np.full(len(silent), NO_POSITION, dtype=np.int64)
    for thread in range(len(chains.first) - 1):
        end = chains.first[thread + 1] - 1
        last = np.minimum(chains.last_until(np.full(len(silent), thread), resumed_ns - 1), end - 1)
        there = np.maximum(last, 0)
        rests = (there + 1 == end) | (chains.times_ns[there + 1] - chains.times_ns[there] >= SILENT_NS)
        fits = (last >= 0) & (chains.thread[silent] != thread) & (chains.times_ns[there] > earliest_ns)
        fits &= (rests | idle) & ~no_giver[chains.moments[there] // 2]
        later = fits & ((found < 0) | (chains.times_ns[there] > chains.times_ns[found]))
        found[later] = there[later]
    return found


def _is(rows: pl.DataFrame, kind: ActivityKind) -> _Flags:
    return rows.select((pl.col("kind") == kind.value).fill_null(False)).to_series().to_numpy()


def _explained(chains: ThreadChains, silent: _Ints, known: EdgeList) -> _Flags:
    """Whether a known edge says what the thread waited for until the end of each silence."""
    edges = known[np.isin(known.kind, WAITS)]
    on_thread = chains.position[edges.before] >= 0
    before, after = edges.before[on_thread], edges.after[on_thread]
    latest_ns = np.full(len(chains.position), np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(latest_ns, after, chains.times_ns[chains.position[before]])
    explained: _Flags = latest_ns[chains.moments[silent]] > chains.times_ns[silent - 1]
    return explained
