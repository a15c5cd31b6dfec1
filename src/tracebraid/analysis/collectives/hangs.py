"""Communication that was issued and never ended, and the ranks that it waited for: `HANGS`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from tracebraid.analysis.launches.lost_work import LEAST_WAIT_NS, TIMES_LONGEST, unended
from tracebraid.model.analysis import Family, Need, job_analysis
from tracebraid.model.answers.job import HANGS, HangState
from tracebraid.model.category import Role
from tracebraid.model.collectives import PAIRED, ranks_in_text
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import duration, ranges

_KEY = ["process_group", "description", "group_ranks", "sequence", "source", "destination"]


def last_activity(linked: LinkedTrace) -> pl.DataFrame:
    """What the host of a rank began last: rank, last_event; null: no op and no call was recorded."""
    events = pl.concat(
        [linked.timeline.of_role(role).select("ts_ns", as_text("name")) for role in (Role.OP, Role.CALL)]
    )
    last = None if events.is_empty() else events.item(int(events.get_column("ts_ns").arg_max() or 0), "name")
    return pl.DataFrame(
        {"rank": [linked.rank], "last_event": [last]}, schema_overrides={"last_event": pl.String}
    )


@job_analysis(
    HANGS,
    Family.COLLECTIVES,
    gathers=(unended, last_activity),
    needs=(Need.COMMUNICATION,),
    uses=(Need.SEVERAL_RANKS, Need.COLLECTIVES),
    shown="state type sequence waited_ns last_sequence last_event group end_ns!",
    when_empty=(
        "no communication was waited for longer than 5 s and 10 times the longest other, until it was given up or "
        "the recording stopped"
    ),
    formula=(
        "Launched communication without work, or the last of its group that not all its ranks have, on each rank that "
        "waits for it; then who of the group did not issue it."
    ),
)
def hangs(ranks: LinkedRanks) -> pl.DataFrame:
    """Which communication never ended, and who is missing?

    Communication that hangs: `HANGS`. A rank that did not issue it may have failed, left the loop, or taken another
    branch; where it was recorded for less long than the others waited, it may have come after its recording.

    Args:
        ranks: the ranks of a job.
    """
    if ranks.ranks.is_empty():
        return HANGS.empty()
    stuck = _stuck(ranks)
    rows = [row for of_one in _each(stuck) for row in _of_hang(of_one, ranks)]
    found = pl.DataFrame(rows, schema=HANGS.polars_schema(), orient="row")
    return HANGS.conform(found)


def hang_findings(ranks: LinkedRanks, path: str) -> list[Finding]:
    """A finding for each communication that never ended, which names the ranks that wait and those that are missing."""
    found = hangs(ranks)
    details = []
    for of_one in found.partition_by("group", "type", "sequence", maintain_order=True):
        row = of_one.row(0, named=True)
        state = {
            state: of_one.filter(pl.col("state") == state.value).get_column("rank") for state in HangState
        }
        waited = of_one.get_column("waited_ns").max()
        number = "" if row["sequence"] is None else f" {row['sequence']}"
        missing = state[HangState.NOT_ISSUED]
        details.append(
            {
                "case": FindingCase.HANG_OF_ALL if missing.is_empty() else FindingCase.HANG,
                "waiting": _ranks(state[HangState.WAITS]),
                "waited": duration(waited if isinstance(waited, int) else 0),
                "communication": f"{row['type']}{number} of group {row['group']}",
                "missing": _ranks(missing),
            }
        )
    return [Finding(FindingCode.NEVER_ENDED, path, details=of_hang) for of_hang in details]


def _ranks(ranks: pl.Series) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {ranges(ranks)}"


def _stuck(ranks: LinkedRanks) -> pl.DataFrame:
    """What ranks wait for: its group as all ranks name it, in the order of issue on aligned clocks."""
    known = ranks.members.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"),
        pl.coalesce("issued_ns", "start_ns").alias("issued_ns"),
        pl.col("group_ranks").cast(pl.String),
    )
    open_now = ranks.aligned(ranks.of(unended), "issued_ns")
    labels = (
        known.select("rank", "process_group", "group_ranks", "group")
        .drop_nulls("group")
        .unique(["rank", "process_group", "group_ranks"], keep="first", maintain_order=True)
    )
    labelled = open_now.join(
        labels,
        on=["rank", "process_group", "group_ranks"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    ).with_columns(pl.coalesce("group", "process_group", "group_ranks").alias("group"))
    columns = ["rank", "event_id", "step", "type", *_KEY, "issued_ns", "waited_ns", "group"]
    return (
        pl.concat(
            [labelled.select(columns), _incomplete(known, ranks).select(columns)], how="vertical_relaxed"
        )
        .filter(pl.col("type").is_not_null())
        .sort("issued_ns", "rank")
    )


def _incomplete(known: pl.DataFrame, ranks: LinkedRanks) -> pl.DataFrame:
    """The last communication of a group on a rank, where it took long, and another rank that is here lacks it."""
    here = ranks.ranks.get_column("rank").to_list()
    others = pl.when(pl.len() > 1).then(pl.col("dur_ns").top_k(2).min()).otherwise(0).over("rank")
    last = known.filter(
        (pl.col("issued_ns") == pl.col("issued_ns").max().over("rank", "group"))
        & (pl.col("dur_ns") >= pl.max_horizontal(pl.lit(LEAST_WAIT_NS), TIMES_LONGEST * others))
    )
    if last.is_empty():
        return last.with_columns(pl.col("dur_ns").alias("waited_ns"))
    met = (
        known.filter(pl.col("collective").is_not_null())
        .group_by("collective")
        .agg(pl.col("rank").unique().alias("met"))
    )
    joined = last.join(met, on="collective", how="left", maintain_order="left")
    lacking = [
        bool(set(_of_group(row, here)) & set(here) - set(row["met"] or [row["rank"]]))
        for row in joined.iter_rows(named=True)
    ]
    return joined.filter(pl.Series(lacking, dtype=pl.Boolean)).with_columns(
        pl.col("dur_ns").alias("waited_ns")
    )


def _of_group(row: dict[str, Any], here: list[int]) -> tuple[int, ...]:
    """The ranks that a communication needs: a pair, else its group, else all that are here."""
    pair = (row["source"], row["destination"])
    if row["type"] in PAIRED and None not in pair:
        return pair
    return ranks_in_text(row["group_ranks"]) or tuple(here)


def _each(stuck: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows of each communication, the first of each group: what is behind it waits for the same."""
    for of_group in stuck.partition_by("group", maintain_order=True):
        first = of_group.row(0, named=True)
        same = pl.col("type") == first["type"]
        if first["sequence"] is not None:
            same &= pl.col("sequence") == first["sequence"]
        yield of_group.filter(same).unique("rank", keep="first", maintain_order=True)


def _of_hang(waiting: pl.DataFrame, ranks: LinkedRanks) -> Iterator[dict[str, Any]]:
    """A row for each rank that the communication needs: those that wait first, then the others."""
    first = waiting.row(0, named=True)
    here = dict(ranks.ranks.select("rank", "end_ns").iter_rows())
    ends = dict(
        ranks.aligned(pl.DataFrame({"rank": list(here), "end_ns": list(here.values())}), "end_ns").iter_rows()
    )
    doing = dict(ranks.of(last_activity).select("rank", "last_event").iter_rows())
    others = ranks.members.filter(pl.col("group") == first["group"])
    waits = {row["rank"]: row for row in waiting.iter_rows(named=True)}
    last = dict(
        others.join(waiting.select("rank", "event_id"), on=["rank", "event_id"], how="anti")
        .group_by("rank")
        .agg(pl.col("sequence").max())
        .iter_rows()
    )
    needed = [*waits, *(rank for rank in _of_group(first, list(here)) if rank not in waits)]
    for rank in needed:
        own = waits.get(rank)
        number = last.get(rank)
        if own is not None:
            state = HangState.WAITS
        elif rank not in here:
            state = HangState.NOT_IN_TRACES
        elif first["sequence"] is not None and number is not None and number >= first["sequence"]:
            state = HangState.ENDED
        else:
            state = HangState.NOT_ISSUED
        yield {
            "step": first["step"],
            "group": first["group"],
            "description": first["description"],
            "type": first["type"],
            "sequence": first["sequence"],
            "rank": rank,
            "state": state.value,
            "issued_ns": own and own["issued_ns"],
            "waited_ns": own and own["waited_ns"],
            "last_sequence": number,
            "last_event": doing.get(rank),
            "end_ns": ends.get(rank),
            "event_id": own and own["event_id"],
        }
