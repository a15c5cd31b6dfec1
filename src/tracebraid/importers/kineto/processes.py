"""Refuse a Kineto trace read as one rank that holds several processes, each with a program and ids of its own."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

import polars as pl

from tracebraid.errors import WrongTraceError
from tracebraid.importers.merged import labels_of_ranks, split_pid
from tracebraid.model.category import Category, Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.name_rules import CallAction, call_does
from tracebraid.model.step import is_step_name

_EFFECTS = (CallAction.LAUNCH_KERNEL, CallAction.LAUNCH_GRAPH, CallAction.COPY, CallAction.FILL)
_SHOWN = 4
_FILES_OF_RANKS = "Give the file of each rank"


def refuse_several_processes(path: str, tables: Mapping[str, pl.DataFrame], is_labelled: bool) -> None:
    """Refuse labelled ranks, which are read one by one, and processes that each ran a program.

    Args:
        path: the file.
        tables: its tables.
        is_labelled: whether these are those of one label.

    Raises:
        WrongTraceError: it is such a file; the advice is how to split it.
    """
    pid_of_lane = dict(tables["lanes"].select("lane", pl.coalesce(as_text("pid"), "pid_text")).iter_rows())
    if labels := labels_of_ranks(split_pid(pid)[0] for pid in pid_of_lane.values()):
        advice = "Open it with tracebraid.open, under a name without a rank: it reads each rank on its own"
        raise WrongTraceError(
            path, f"it holds the processes of {len(labels)} ranks: {_listed(labels)}", advice
        )
    programs = list(dict.fromkeys(pid_of_lane[lane] for lane in sorted(_lanes_of_programs(tables))))
    if len(programs) > 1:
        what = f"it holds {len(programs)} processes that each run a program, with ids of their own: {_listed(programs)}"
        ranks = None if is_labelled else _processes_by_rank(programs, pid_of_lane, tables)
        raise WrongTraceError(path, what, _FILES_OF_RANKS if ranks is None else _advice(path, ranks))


def _lanes_of_programs(tables: Mapping[str, pl.DataFrame]) -> set[int]:
    """The threads with ops, and steps, collectives, or calls that put work on a device: helpers have none of these."""
    events = tables["events"]
    with_ops = events.filter(pl.col("category") == Category.CPU_OP.value).get_column("lane").unique()
    annotations = pl.col("category").is_in(categories_of(Role.ANNOTATION))
    steps = events.filter(annotations & is_step_name(as_text("name")))
    on_host = events.filter(pl.col("category").is_in(categories_of(Role.OP)))
    communication = on_host.join(tables["collectives"], on="event_id", how="semi")
    with_work = pl.concat([found.get_column("lane") for found in (steps, communication, _launches(tables))])
    return set(with_ops) & set(with_work)


def _launches(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """`lane` and `correlation` of the calls that put work on a device."""
    puts_work = pl.any_horizontal(call_does(as_text("name"), action) for action in _EFFECTS)
    calls = tables["host_calls"].join(tables["device_work"], on="correlation", how="semi")
    return (
        calls.select("event_id", "correlation")
        .join(tables["events"].filter(puts_work), on="event_id")
        .select("lane", "correlation")
    )


def _processes_by_rank(
    programs: list[str | None], pid_of_lane: Mapping[int, str | None], tables: Mapping[str, pl.DataFrame]
) -> dict[str, int] | None:
    """The rank of each process, in the order of the programs; None if a process of a device may be of several.

    Equal correlations prove nothing, as each process counts its own: a device belongs to the program that alone
    launched its work.
    """
    pids = pl.DataFrame({"lane": list(pid_of_lane), "pid": list(pid_of_lane.values())}, strict=False)
    launched = _launches(tables).join(pids, on="lane").select("correlation", program="pid").unique()
    work = (
        tables["device_work"]
        .select("event_id", "correlation")
        .join(tables["events"].select("event_id", "lane"), on="event_id")
        .join(pids, on="lane")
        .filter(~pl.col("pid").is_in(programs))
    )
    owners = work.join(launched, on="correlation").select("pid", "program").unique().rows()
    of_device = dict(owners)
    if len(of_device) < len(owners) or len(of_device) < work.get_column("pid").n_unique():
        return None
    rank = {pid: number for number, pid in enumerate(programs)}
    return {
        str(pid): rank[program]
        for pid, program in [*zip(programs, programs, strict=True), *of_device.items()]
    }


def _advice(path: str, ranks: Mapping[str, int]) -> str:
    """The command that labels the processes with their ranks, for `tracebraid.open` to split them."""
    relabel = (
        f"{json.dumps(ranks)} as $rank | "
        r'(.traceEvents[] | select(has("pid")).pid) |= "[rank \($rank["\(.)"] // 0)] \(.)"'
    )
    return f"Give the file of each rank, or label them: gzip -dcf {shlex.quote(path)} | jq -c '{relabel}' > merged.json"


def _listed(values: list[str] | list[str | None]) -> str:
    shown = ", ".join(map(str, values[:_SHOWN]))
    return shown + (", ..." if len(values) > _SHOWN else "")
