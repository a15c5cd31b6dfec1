"""Flame graphs: stacks of ops, functions, kernels and modules, as wide as their time."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answers import FLAME_FRAMES, FLAME_NAMES, FlameKind, FlameTree
from tracebraid.model.flame_titles import FLAME_TREE_TITLES
from tracebraid.model.need_sentences import NEED_SENTENCES
from tracebraid.model.questions.analysis import Need
from tracebraid.model.report.flame_views import FLAME_FRAMES_VIEW, FLAME_NAMES_VIEW
from tracebraid.model.report.parts import Chart, ChartKind, DataTable, Missing, Part, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.units import duration

__all__ = ["flame"]

_TITLE = "Flame graphs"
_NEEDS = {
    FlameTree.HOST: Need.HOST_OPS,
    FlameTree.DEVICE: Need.DEVICE_WORK,
    FlameTree.MODULES_HOST: Need.MODULES,
}
"""What the traces lack where a tree is not there; modules are missing on the host and the device together."""
_NAME_CHARS = 400
"""Characters of a name on the page; more say nothing that can be seen."""
_COLUMNS = ("parent", "name", "kind", "count", "self_ns", "total_ns")
_FORMULA = (
    "Events whose names, and the names of all events around them, are the same make one frame, over threads, steps "
    "and ranks. A frame's self time is the sum of its events' own times: their durations less those of the events "
    "directly inside; on the device the sum of the durations of what was launched from that stack, without the "
    "launching call; by module as in `modules`. Its total adds the totals of the frames in it, and is its width. Work "
    "of several threads or streams at once counts for each."
)


def flame(results: RunResults) -> Section:
    """The section; a tree that the traces do not hold is named, with what to capture."""
    views = results.views or {}
    frames = views.get(FLAME_FRAMES_VIEW, FLAME_FRAMES.empty())
    names = views.get(FLAME_NAMES_VIEW, FLAME_NAMES.empty())
    found = [tree for tree in FlameTree if not frames.filter(tree=tree.value).is_empty()]
    parts: list[Part] = [_chart(results, frames, names, found)] if found else []
    parts += [
        Missing(f"Flame graph: {FLAME_TREE_TITLES[tree]}", *NEED_SENTENCES[need])
        for tree, need in _NEEDS.items()
        if tree not in found
    ]
    return Section("flame", _TITLE, parts, _lead(results, frames))


def _chart(results: RunResults, frames: pl.DataFrame, names: pl.DataFrame, found: list[FlameTree]) -> Chart:
    table = DataTable(
        "flame-names", "Names by self time", names, FLAME_NAMES, left_out=0, start_ns=results.start_ns
    )
    return Chart(
        "flame-graph",
        ChartKind.FLAME,
        "Time by stack",
        _summary(frames, names, found),
        {tree.value: _shown(frames.filter(tree=tree.value)) for tree in found},
        {"trees": [{"name": tree.value, "title": FLAME_TREE_TITLES[tree]} for tree in found]},
        _FORMULA,
        table,
    )


def _shown(frames: pl.DataFrame) -> pl.DataFrame:
    """The columns that are drawn, without what of a name is too long."""
    name = pl.col("name")
    cut = pl.when(name.str.len_chars() > _NAME_CHARS).then(name.str.head(_NAME_CHARS) + "…").otherwise(name)
    return frames.select(_COLUMNS).with_columns(cut.alias("name"))


def _summary(frames: pl.DataFrame, names: pl.DataFrame, found: list[FlameTree]) -> str:
    parts = []
    for tree in found:
        whole = int(frames.filter(tree=tree.value).get_column("self_ns").sum())
        first = names.filter(tree=tree.value).row(0, named=True)
        title = FLAME_TREE_TITLES[tree]
        parts.append(f"{title} {duration(whole)}, most of it in itself: {first['name'][:_NAME_CHARS]}")
    return "; ".join(parts) + "."


def _lead(results: RunResults, frames: pl.DataFrame) -> str:
    shown = len(results.detailed) or len(results.ranks)
    ranks = "" if len(results.ranks) == 1 else f" of {shown:,} of {len(results.ranks):,} ranks, merged"
    smaller = not frames.filter(kind=FlameKind.SMALLER.value).is_empty()
    limit = " Narrow frames are merged into ones that say how many they are." if smaller else ""
    return f"The wider a frame, the more time is in it{ranks}; frames in it stand below it.{limit}"
