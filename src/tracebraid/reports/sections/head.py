"""What was run: devices, ranks, torch, capture, steps."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

from tracebraid.model.file_info import DeviceSource
from tracebraid.model.report.parts import Facts, Note, Part, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.model.step import some_steps
from tracebraid.model.units import NS_PER_S
from tracebraid.reports.answers.answer_cells import ranges
from tracebraid.reports.sections.answer_tables import answer_parts
from tracebraid.reports.units import duration, size

__all__ = ["head"]


def head(results: RunResults) -> Section:
    """The section."""
    facts = Facts([(label, text) for label, text in _facts(results) if text])
    parts: list[Part] = [facts, *answer_parts(results, ("step_times",))]
    if results.detailed and len(results.detailed) < len(results.ranks):
        parts.insert(
            1,
            Note(
                f"Of {len(results.ranks):,} ranks the steps are compared; kernels, ops, memory and all else that is "
                f"of a single rank are of {len(results.detailed)}: {ranges(results.detailed)}."
            ),
        )
    return Section("run", "The run", parts)


def _facts(results: RunResults) -> Iterable[tuple[str, str]]:
    infos = results.infos
    yield "traces", results.path
    yield "devices", _devices(results)
    yield "ranks", _ranks(results)
    yield "torch", ", ".join(dict.fromkeys(info.torch for info in infos if info.torch))
    yield "captured", _captured(results)
    spans = [info.span_ns for info in infos if info.start_ns is not None and info.span_ns is not None]
    yield "span of a trace", _between(spans)
    yield "steps", _steps(results)
    files = [info.size_bytes for info in infos]
    yield "files", f"{len(files):,} of {size(sum(files))}" if files else ""


def _devices(results: RunResults) -> str:
    """Names of devices with the number of ranks that have each."""
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
    of_world = f" of a world of {max(worlds):,}" if worlds else ""
    return f"{len(results.ranks):,}{of_world}: {ranges(sorted(results.ranks))}"


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
