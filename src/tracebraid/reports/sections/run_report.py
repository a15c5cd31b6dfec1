"""The report of a run: its sections, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone

import polars as pl
from msgspec.structs import replace

from tracebraid.model.analysis import Need
from tracebraid.model.answers.graph import SWEEP, SweepScope
from tracebraid.model.answers.ops import FLAME_FRAMES, FLAME_NAMES, FlameKind, FlameTree
from tracebraid.model.file_info import DeviceSource
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.quantities import NS_PER_S, duration, percent, ranges, size
from tracebraid.model.report import (
    FLAME_FRAMES_VIEW,
    FLAME_NAMES_VIEW,
    Chart,
    ChartKind,
    DataTable,
    Facts,
    Level,
    Missing,
    Note,
    Part,
    Report,
    RunResults,
    Section,
)
from tracebraid.model.step import some_steps
from tracebraid.reports.error_lines import error_lines
from tracebraid.reports.names import uncapitalised
from tracebraid.reports.sections.changes import changes
from tracebraid.reports.sections.collectives import collectives
from tracebraid.reports.sections.idle import answer_table, frame_of, idle
from tracebraid.reports.sections.job import job
from tracebraid.reports.sections.memory import different, memory, step_label, stragglers
from tracebraid.reports.sections.roofline import roofline
from tracebraid.reports.sections.timeline import timeline
from tracebraid.reports.sections.trust import answer_parts, trust
from tracebraid.reports.sections.verdict import verdict_section

_MOST_BARS = 20
"""Maximum groups of the chart: those with the largest gain."""
_TABLE_ROWS = 1_000

_FORMULA = (
    "The dependency graph of the run is replayed with 10 %, 50 % and 100 % of a group's work gone; the gain is what a "
    "step becomes shorter by, on average. Groups overlap, so gains do not add up. 'launched': with the calls in it and "
    "the device work that it launched (tracebraid what-if --sweep)."
)
_MAKE_IT = "`tracebraid what-if --sweep` computes it"


def sweep(results: RunResults) -> Section | None:
    """Build the section; None without what-if answers."""
    lead = "Gain of a step if work were faster, from a replay of its dependencies."
    swept = results.sweep
    if swept is None and not results.without_graph:
        return None
    if swept is None:
        lacks = Missing("What-if", results.without_graph, _MAKE_IT)
        return Section("what-if", "What-if", [lacks], lead)
    known = swept.filter(pl.col("gain_50_ns").is_not_null(), pl.col("gain_100_ns") > 0)
    if known.is_empty():
        return Section("what-if", "What-if", [Note("No gain is known for any group of work.")], lead)
    path = results.path_of_steps
    errors = [] if path is None else [Note(line) for line in error_lines(path.replay_error)]
    return Section("what-if", "What-if", [_chart(swept, known), *errors], lead)


def _chart(swept: pl.DataFrame, known: pl.DataFrame) -> Chart:
    shown = known.head(_MOST_BARS)
    labels = [_label(row) for row in shown.iter_rows(named=True)]
    gains = [pl.col(f"gain_{gone}_ns").clip(0) for gone in (10, 50, 100)]
    first, half, whole = gains[0].fill_null(0), gains[1], gains[2]
    bars = shown.select(
        pl.Series("label", labels, dtype=pl.String),
        first.alias("tenth"),
        (half - first).clip(0).alias("half"),
        (whole - pl.max_horizontal(half, first)).clip(0).alias("whole"),
    )
    series = [
        {"column": "tenth", "name": "with 10 % of the work gone", "colour": "series-1"},
        {"column": "half", "name": "more with 50 %", "colour": "series-2"},
        {"column": "whole", "name": "more with all of it", "colour": "series-3"},
    ]
    row = shown.row(0, named=True)
    gain = f"{duration(row['gain_50_ns'])} ({percent(row['gain_50'])})"
    summary = f"{labels[0]} gains most with half of its work gone: {gain}."
    columns = tuple(column.name for column in SWEEP.columns)
    table = DataTable(
        *("sweep-table", "What to optimise first", swept.head(_TABLE_ROWS), SWEEP, columns),
        left_out=max(0, swept.height - _TABLE_ROWS),
    )
    options = {"unit": "ns", "title": "gain of a step", "series": series, "whole": "with all of it gone"}
    title = "What to optimise first"
    return Chart(
        "what-if-gains", ChartKind.STACKED_BARS, title, summary, {"bars": bars}, options, _FORMULA, table
    )


def _label(row: dict[str, object]) -> str:
    scope = "" if row["scope"] == SweepScope.SELF.value else f" {row['scope']}"
    return f"{row['group_by']}{scope}: {row['name']}"


def _tables(id: str, title: str, lead: str, names: Sequence[str]) -> Callable[[RunResults], Section | None]:
    def section(results: RunResults) -> Section | None:
        declared = [
            name
            for name, answer in results.answers.items()
            if answer.analysis.on_page is not None and answer.analysis.on_page.section == id
        ]
        parts = answer_parts(results, [*names, *declared])
        if not parts:
            return None
        return Section(id, title, [*_ranks_notes(results), *parts], lead)

    return section


def _ranks_notes(results: RunResults) -> list[Note]:
    """Name the detailed ranks, if not all ranks are."""
    if len(results.detailed) >= len(results.ranks):
        return []
    text = (
        f"{len(results.ranks):,} ranks were read; these figures are of {len(results.detailed)} of them: "
        f"{ranges(results.detailed)}. --rank shows another."
    )
    return [Note(text)]


TABLES: tuple[Callable[[RunResults], Section | None], ...] = (
    _tables(
        "tables-kernels",
        "Kernels",
        "Work on the device.",
        ("kernels", "kernel_families", "kernels_by_op", "launchers", "graph_replays"),
    ),
    _tables("tables-ops", "Ops", "Time of ops by shapes.", ("ops", "op_costs", "mfu")),
    _tables(
        "tables-code",
        "Modules, annotations and Python",
        "The same time by names of the program.",
        ("modules", "user_annotations", "python_frames"),
    ),
    _tables(
        "tables-idle",
        "Idle gaps and their causes",
        "Causes of device idle time.",
        ("idle_causes", "idle_blame", "idle_gaps", "stream_idle"),
    ),
    _tables(
        "tables-launches",
        "Launches, copies and waits",
        "Waits between host and device.",
        ("launches", "launch_bound", "queue_lengths", "full_queue", "copies", "copy_bandwidth", "syncs"),
    ),
    _tables(
        "tables-communication",
        "Collectives, groups and clocks",
        "Transfers, overlap with compute, and waits.",
        (
            "overlap",
            "exposed_collectives",
            "collectives",
            "collective_totals",
            "collective_imbalance",
            "matched_groups",
            "clocks",
        ),
    ),
    _tables("tables-inference", "Inference", "Prefill and decode.", ("inference_phases", "token_times")),
)
"""Builders of one section each; they return None without answers."""


_TITLE = "Flame graphs"
_NEEDS = {
    FlameTree.HOST: Need.HOST_OPS,
    FlameTree.DEVICE: Need.DEVICE_WORK,
    FlameTree.MODULES_HOST: Need.MODULES,
}
"""Missing data by tree; modules are missing on the host and the device together."""
_NAME_CHARS = 400
"""Maximum characters of a name on the page; more would not be visible."""
_COLUMNS = ("parent", "name", "kind", "count", "self_ns", "total_ns")
_FLAME_FORMULA = (
    "Events whose names, and the names of all events around them, are the same make one frame, over threads, steps "
    "and ranks. A frame's self time is the sum of its events' own times: their durations less those of the events "
    "directly inside; on the device the sum of the durations of what was launched from that stack, without the "
    "launching call; by module as in `modules`. Its total adds the totals of the frames in it, and is its width. Work "
    "of several threads or streams at once counts for each."
)


def flame(results: RunResults) -> Section:
    """Build the section; a missing tree is named, with what to capture."""
    views = results.views or {}
    frames = views.get(FLAME_FRAMES_VIEW, FLAME_FRAMES.empty())
    names = views.get(FLAME_NAMES_VIEW, FLAME_NAMES.empty())
    found = [tree for tree in FlameTree if not frames.filter(tree=tree.value).is_empty()]
    parts: list[Part] = [_flame_chart(results, frames, names, found)] if found else []
    parts += [
        Missing.of(f"flame graph of {tree.title}", need) for tree, need in _NEEDS.items() if tree not in found
    ]
    return Section("flame", _TITLE, parts, _lead(results, frames))


def _flame_chart(
    results: RunResults, frames: pl.DataFrame, names: pl.DataFrame, found: list[FlameTree]
) -> Chart:
    table = DataTable(
        "flame-names", "Names by self time", names, FLAME_NAMES, left_out=0, start_ns=results.start_ns
    )
    return Chart(
        "flame-graph",
        ChartKind.FLAME,
        "Time by stack",
        _summary(frames, names, found),
        {tree.value: _shown(frames.filter(tree=tree.value)) for tree in found},
        {"trees": [{"name": tree.value, "title": tree.title} for tree in found]},
        _FLAME_FORMULA,
        table,
    )


def _shown(frames: pl.DataFrame) -> pl.DataFrame:
    """Return the drawn columns, with shortened names."""
    name = pl.col("name")
    cut = pl.when(name.str.len_chars() > _NAME_CHARS).then(name.str.head(_NAME_CHARS) + "…").otherwise(name)
    return frames.select(_COLUMNS).with_columns(cut.alias("name"))


def _summary(frames: pl.DataFrame, names: pl.DataFrame, found: list[FlameTree]) -> str:
    parts = []
    for tree in found:
        whole = int(frames.filter(tree=tree.value).get_column("self_ns").sum())
        first = names.filter(tree=tree.value).row(0, named=True)
        title = tree.title
        parts.append(f"{title} {duration(whole)}, most of it in itself: {first['name'][:_NAME_CHARS]}")
    return "; ".join(parts) + "."


def _lead(results: RunResults, frames: pl.DataFrame) -> str:
    shown = len(results.detailed) or len(results.ranks)
    ranks = "" if len(results.ranks) == 1 else f" of {shown:,} of {len(results.ranks):,} ranks, merged"
    smaller = not frames.filter(kind=FlameKind.SMALLER.value).is_empty()
    limit = " Narrow frames are merged into ones that say how many they are." if smaller else ""
    return f"The wider a frame, the more time is in it{ranks}; frames in it stand below it.{limit}"


def head(results: RunResults) -> Section:
    """Build the section."""
    facts = Facts([(label, text) for label, text in _facts(results) if text])
    parts: list[Part] = [facts, *answer_parts(results, ("step_times",))]
    if skewed := _skewed(results):
        parts.append(
            Note(
                f"Recordings of ranks began apart: the first step of {'rank' if len(skewed) == 1 else 'ranks'} "
                f"{ranges(skewed)}, which waits for the others to begin, is left out here. "
                "Ranks and steps has it from when all had begun."
            )
        )
    if results.detailed and len(results.detailed) < len(results.ranks):
        parts.insert(
            1,
            Note(
                f"Of {len(results.ranks):,} ranks the steps are compared; kernels, ops, memory and all else that is "
                f"of a single rank are of {len(results.detailed)}: {ranges(results.detailed)}."
            ),
        )
    return Section("run", "The run", parts)


def _skewed(results: RunResults) -> list[int]:
    """Return the ranks whose first step is not among the steps that each rank measures by itself."""
    steps, times = frame_of(results, "rank_steps"), frame_of(results, "step_times")
    if steps is None:
        return []
    first = steps.filter(pl.col("step") == pl.col("step").first())
    if times is not None:
        first = first.join(times, on=["rank", "step"], how="anti")
    ranks: list[int] = first.get_column("rank").sort().to_list()
    return ranks


def _facts(results: RunResults) -> Iterable[tuple[str, str]]:
    infos = results.infos
    yield "traces", results.path
    yield "devices", _devices(results)
    yield "ranks", _ranks(results)
    yield "torch", _torch([info.torch for info in infos if info.torch])
    yield "captured", _captured(results)
    spans = [info.span_ns for info in infos if info.start_ns is not None and info.span_ns is not None]
    yield "span of a trace", _between(spans)
    yield "steps", _steps(results)
    files = [info.size_bytes for info in infos]
    yield "files", f"{len(files):,} ({size(sum(files))})" if files else ""


_AT_LEAST = " or newer"


def _torch(versions: Sequence[str]) -> str:
    """Return the torch versions that files state, else closest bounds that follow from their content."""
    exact = [version for version in versions if " " not in version]
    between = [version for version in versions if " - " in version]
    if not exact and not between and all(version.endswith(_AT_LEAST) for version in versions):
        return max(versions, key=_number, default="")
    return ", ".join(dict.fromkeys(exact or between or versions))


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.removesuffix(_AT_LEAST).split(".")))


def _devices(results: RunResults) -> str:
    """List the devices with the number of ranks that have each."""
    counts: dict[str, int] = {}
    for info in results.infos:
        if info.start_ns is None and info.kind == "execution-trace":
            continue
        for device in dict.fromkeys(info.devices):
            counts[device] = counts.get(device, 0) + 1
    if not counts:
        on_host = {info.device_source for info in results.infos} & {DeviceSource.NONE}
        return "CPU only" if on_host else "unknown"
    if len(results.ranks) == 1:
        return ", ".join(counts)
    return ", ".join(
        f"{device} ({count:,} rank{'' if count == 1 else 's'})" for device, count in counts.items()
    )


def _ranks(results: RunResults) -> str:
    worlds = {info.world_size for info in results.infos if info.world_size is not None}
    ranks, world = ranges(sorted(results.ranks)), max(worlds, default=0)
    return f"{ranks} ({len(results.ranks):,} of {world:,})" if world > len(results.ranks) else ranks


def _captured(results: RunResults) -> str:
    starts = list(results.starts.values())
    if not starts:
        return ""
    return f"{datetime.fromtimestamp(min(starts) // NS_PER_S, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _between(values: list[int]) -> str:
    if not values:
        return ""
    least, most = duration(min(values)), duration(max(values))
    return least if least == most else f"{least} to {most}"


def _steps(results: RunResults) -> str:
    answer = results.answers.get("steps")
    names = [] if answer is None else answer.frame.get_column("step").unique(maintain_order=True).to_list()
    return f"{len(names):,}: {some_steps(names)}" if names else "none is marked"


_MOST_RANKS = 48
"""Maximum rows of a heat map: more do not fit a screen."""
_MOST_STEPS = 60
"""Maximum columns of a heat map: more are too narrow on a phone."""

_HEAT_COLUMNS = [
    "rank",
    "step",
    "span_ns",
    "compute_ns",
    "transfer_ns",
    "waiting_ns",
    "caused_ns",
    "idle_ns",
    "late_ns",
    "late_count",
]
_SPAN = "The length of the step on the host of the rank (analysis rank_steps)."
_WAITING = (
    "How long the rank's collectives wait for another rank in the step; overlaps count once. "
    "What of a collective is waiting and what transfer is said by the last to arrive (analysis rank_steps)."
)
_BLOCKS = " Steps are put together in blocks; a cell is the mean of its steps."


def heat(results: RunResults) -> Section | None:
    """Build the section; None with fewer than two ranks with steps."""
    steps = frame_of(results, "rank_steps")
    if steps is None or steps.get_column("rank").n_unique() < 2:
        return None
    ranks = steps.get_column("rank").n_unique()
    kept = different(steps.fill_null(0), ["span_ns", "waiting_ns"], ["step"], _MOST_RANKS)
    shown = steps.filter(pl.col("rank").is_in(kept))
    table = answer_table(results, "rank_steps", "Ranks and steps", _HEAT_COLUMNS)
    parts: list[Part] = [_map("heat-span", "Step time, rank by step", shown, "span_ns", _SPAN)]
    if shown.select(pl.col("waiting_ns").fill_null(0).max()).item() > 0:
        title = "Waiting for other ranks, rank by step"
        parts.append(_map("heat-waiting", title, shown, "waiting_ns", _WAITING))
    if len(kept) < ranks:
        text = f"{len(kept)} of {ranks:,} ranks are shown: those whose steps and waiting differ most."
        parts.append(Note(text))
    lead = (
        "A row that is darker than the others is a rank that is slower or waits longer; a column is a step."
    )
    return Section("ranks-and-steps", "Ranks and steps", [*parts, table], lead)


def _map(id: str, title: str, steps: pl.DataFrame, value: str, formula: str) -> Chart:
    cells, ranks, columns = _cells(steps, value)
    blocked = steps.get_column("step").n_unique() > len(columns)
    most = cells.sort("value", descending=True).row(0, named=True)
    summary = (
        f"The most is {duration(most['value'])}, on rank {ranks[most['y']]} in step {columns[most['x']]}."
    )
    options = {
        "unit": "ns",
        "x_labels": columns,
        "y_labels": ranks,
        "x_title": "step",
        "y_title": "rank",
        "value_title": "step time" if value == "span_ns" else "waiting",
        "from_zero": value != "span_ns",
    }
    formula += _BLOCKS if blocked else ""
    return Chart(id, ChartKind.HEAT_MAP, title, summary, {"cells": cells}, options, formula)


def _cells(steps: pl.DataFrame, value: str) -> tuple[pl.DataFrame, list[str], list[str]]:
    """Return cells by column and row number, and the labels of rows and columns."""
    order = steps.group_by("step").agg(pl.col("start_ns").min()).sort("start_ns", "step")
    names = order.get_column("step").to_list()
    size = max(1, -(-len(names) // _MOST_STEPS))
    column = {name: number // size for number, name in enumerate(names)}
    firsts = [names[at : at + size] for at in range(0, len(names), size)]
    labels = [
        step_label(block[0]) if len(block) == 1 else f"{step_label(block[0])} - {step_label(block[-1])}"
        for block in firsts
    ]
    ranks = steps.get_column("rank").unique().sort().to_list()
    row = {rank: number for number, rank in enumerate(ranks)}
    cells = (
        steps.select(
            pl.col("step").replace_strict(column, return_dtype=pl.Int64).alias("x"),
            pl.col("rank").replace_strict(row, return_dtype=pl.Int64).alias("y"),
            pl.col(value).fill_null(0).alias("value"),
        )
        .group_by("x", "y")
        .agg(pl.col("value").mean())
        .sort("y", "x")
    )
    return cells, [str(rank) for rank in ranks], labels


SECTIONS: tuple[Callable[[RunResults], Section | None], ...] = (
    verdict_section,
    head,
    changes,
    job,
    heat,
    stragglers,
    collectives,
    timeline,
    flame,
    idle,
    memory,
    roofline,
    sweep,
    *TABLES,
    trust,
)
"""Builders of one section each; they return None for a section that does not apply."""


_UNFOLDED = (verdict_section, head, timeline)
"""Sections that a page shows expanded."""

_OVER_RANKS = (job, heat, stragglers, collectives)
"""Sections that compare ranks."""


def run_report(results: RunResults, title: str) -> Report:
    """Build the report of a run."""
    chosen = tuple(finding for finding in results.findings if finding.code is FindingCode.RANKS_CHOSEN)
    found: list[Section] = []
    left_out: list[Missing] = []
    for make in SECTIONS:
        section = make(results)
        if section is None:
            continue
        parts, missing = _split(section)
        left_out += missing
        if parts:
            notes = chosen if make in _OVER_RANKS else ()
            section = _with_notes(replace(section, parts=parts), notes)
            found.append(replace(section, folds=make not in _UNFOLDED))
    if left_out:
        found.append(Section("left-out", "Left out", _merged(left_out)))
    return Report(title, tuple(found))


def _split(section: Section) -> tuple[list[Part], list[Missing]]:
    """Split a section into shown and missing parts; a section of notes alone shows nothing."""
    parts: list[Part] = [part for part in section.parts if not isinstance(part, Missing)]
    missing = [part for part in section.parts if isinstance(part, Missing)]
    if missing and not parts:
        return [], [replace(part, title=section.title) for part in missing]
    notes = [part for part in parts if isinstance(part, Note) and part.level is Level.NOTE]
    if len(notes) == len(parts):
        lacking = (Missing(section.title, note.text.removesuffix("."), "", note.code) for note in notes)
        return [], [*missing, *lacking]
    return parts, missing


def _merged(missing: Sequence[Missing]) -> list[Missing]:
    """Merge missing parts: one for each reason."""
    reasons: dict[str, list[Missing]] = {}
    for part in missing:
        reasons.setdefault(part.lacks, []).append(part)
    return [
        replace(parts[0], title="; ".join(dict.fromkeys(uncapitalised(part.title) for part in parts)))
        for parts in reasons.values()
    ]


def _with_notes(section: Section, findings: Sequence[Finding]) -> Section:
    """Prepend notes on missing ranks to a section that compares ranks."""
    notes = [Note(finding.message, code=finding.code.value) for finding in findings]
    return replace(section, parts=[*notes, *section.parts])
