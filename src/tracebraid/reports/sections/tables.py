"""The tables of a report, by what they are about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracebraid.model.report.parts import Note, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.answers.answer_cells import ranges
from tracebraid.reports.sections.answer_tables import answer_parts

__all__ = ["TABLES"]


def _tables(id: str, title: str, lead: str, names: Sequence[str]) -> Callable[[RunResults], Section | None]:
    def section(results: RunResults) -> Section | None:
        parts = answer_parts(results, names)
        if not parts:
            return None
        return Section(id, title, [*_ranks_notes(results), *parts], lead)

    return section


def _ranks_notes(results: RunResults) -> list[Note]:
    """Of more ranks than are asked in detail which these are."""
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
        "What runs on the device.",
        ("kernels", "kernel_families", "kernels_by_op", "launchers", "graph_replays"),
    ),
    _tables("tables-ops", "Ops", "Which ops take the time, with which shapes.", ("ops", "op_costs", "mfu")),
    _tables(
        "tables-code",
        "Modules, annotations and Python",
        "The same time by the program's own names.",
        ("modules", "user_annotations", "python_frames"),
    ),
    _tables(
        "tables-idle",
        "Idle gaps and their causes",
        "Why the device waits, and for whom.",
        ("idle_causes", "idle_blame", "idle_gaps", "stream_idle"),
    ),
    _tables(
        "tables-launches",
        "Launches, copies and waits",
        "What host and device wait for each other for.",
        ("launches", "launch_bound", "queue_lengths", "full_queue", "copies", "copy_bandwidth", "syncs"),
    ),
    _tables(
        "tables-communication",
        "Collectives, groups and clocks",
        "What is transferred, what is hidden behind compute, and who waits.",
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
"""Each makes one section; None where nothing of it was asked."""
