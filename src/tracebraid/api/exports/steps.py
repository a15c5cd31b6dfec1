"""The step that is exported: which events are of it, and whether any rank has it."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.api.exports.options import ExportOptions
from tracebraid.errors import ArgumentError
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["SeenSteps", "events_of_step", "in_step", "step_bounds", "steps_of"]

_NAMES_LISTED = 12
"""Of more names the first and the last stand in an error."""


class SeenSteps:
    """Notes the steps of each rank, to refuse a step that none of them has."""

    def __init__(self, options: ExportOptions) -> None:
        self._options = options
        self._seen: dict[str, None] = {}

    def see(self, names: Iterable[str]) -> None:
        """Note the steps of a rank."""
        self._seen.update(dict.fromkeys(names))

    def check(self) -> None:
        """Refuse a step that no rank has.

        Raises:
            ArgumentError: names those that there are.
        """
        if self._options.step is None or self._seen.keys() & set(self._options.step_names):
            return
        names = list(self._seen)
        if not names:
            raise ArgumentError(f"no step is marked by {self._options.annotation}")
        listed = names if len(names) <= _NAMES_LISTED else [*names[: _NAMES_LISTED - 2], "...", names[-1]]
        raise ArgumentError(f"there is no step {self._options.step}; there are: {', '.join(listed)}")


def steps_of(linked: LinkedTrace, options: ExportOptions) -> tuple[str, ...]:
    """The names of a rank's steps; none where all are exported, and nobody asks."""
    if options.step is None:
        return ()
    return tuple(step_windows(linked, options.annotation).get_column("step").to_list())


def step_bounds(linked: LinkedTrace, options: ExportOptions) -> pl.DataFrame:
    """Start and end of the exported step on a rank's host: `start_ns`, `end_ns`; no row where the rank lacks it."""
    windows = step_windows(linked, options.annotation)
    return windows.filter(pl.col("step").is_in(options.step_names)).select("start_ns", "end_ns")


def in_step(bounds: pl.DataFrame) -> pl.Expr:
    """Whether `ts_ns` lies in the step."""
    lies = [(pl.col("ts_ns") >= start) & (pl.col("ts_ns") < end) for start, end in bounds.iter_rows()]
    return pl.any_horizontal(lies) if lies else pl.lit(value=False)


def events_of_step(linked: LinkedTrace, options: ExportOptions) -> pl.Series:
    """The `event_id` of each event of the exported step: it starts in it, or, on a device, was launched in it."""
    on_device = device_events_by_step(linked, options.annotation)
    launched = on_device.filter(pl.col("step").is_in(options.step_names)).get_column("event_id")
    event = pl.col("event_id")
    others = linked.timeline.events.filter(
        in_step(step_bounds(linked, options)),
        ~event.is_in(on_device.get_column("event_id").implode()),
    )
    events: pl.Series = pl.concat([others.get_column("event_id"), launched]).sort()
    return events
