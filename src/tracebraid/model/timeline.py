"""`Timeline`: one rank's Kineto trace, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from tracebraid.model import notebook
from tracebraid.model.category import Category, Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding


@dataclass(frozen=True)
class Timeline:
    """One rank's Kineto trace.

    The tables are those of `model.schema.KINETO_TABLES`, each under its name.

    Args:
        path: the file it was read from.
        rank: the process's global rank.
        world_size: number of ranks; None if the file does not say.
        base_time_ns: what the file's times are relative to; 0 if they are absolute.
        header: the members of the file beside its events.
        tables: each table by its name.
        process_groups: see `model.schema.PROCESS_GROUPS`.
        findings: what was not as it should be, and what was done about it.
        size_bytes: of the file; None if it was read from none.
    """

    path: str
    rank: int
    world_size: int | None
    base_time_ns: int
    header: dict[str, object]
    tables: Mapping[str, pl.DataFrame]
    process_groups: pl.DataFrame
    findings: tuple[Finding, ...] = field(default=())
    size_bytes: int | None = None

    def __repr__(self) -> str:
        """Return a short description: headers and tables may hold anything, and are long."""
        ranks = f"rank={self.rank}, world_size={self.world_size}"
        return f"Timeline(path={self.path!r}, {ranks}, events={self.events.height}, findings={len(self.findings)})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: how many rows its tables have."""
        facts = {
            "path": self.path,
            "rank": self.rank,
            "world size": self.world_size,
            "devices": self.device_names or None,
            "findings": len(self.findings),
        }
        heights = {name: frame.height for name, frame in self.tables.items() if frame.height}
        tables = notebook.rows_html("Tables", ("table", "rows"), heights.items(), len(heights))
        return notebook.shown("Timeline", notebook.facts_html(facts), tables)

    @property
    def events(self) -> pl.DataFrame:
        """All events that have a time, see `model.schema.EVENTS`."""
        return self.tables["events"]

    @property
    def lanes(self) -> pl.DataFrame:
        """Threads and streams, see `model.schema.LANES`."""
        return self.tables["lanes"]

    @property
    def host_ops(self) -> pl.DataFrame:
        """Operators and annotations of the host, see `model.schema.HOST_OPS`."""
        return self.tables["host_ops"]

    @property
    def host_calls(self) -> pl.DataFrame:
        """Runtime and driver calls, see `model.schema.HOST_CALLS`."""
        return self.tables["host_calls"]

    @property
    def device_work(self) -> pl.DataFrame:
        """Kernels, copies and fills, see `model.schema.DEVICE_WORK`."""
        return self.tables["device_work"]

    @property
    def collectives(self) -> pl.DataFrame:
        """Collective arguments, see `model.schema.COLLECTIVES`."""
        return self.tables["collectives"]

    @property
    def flows(self) -> pl.DataFrame:
        """Ends of arrows, see `model.schema.FLOWS`."""
        return self.tables["flows"]

    @cached_property
    def categories(self) -> frozenset[str]:
        """The categories that its events have."""
        return frozenset(self.events.get_column("category").unique().drop_nulls().cast(pl.String))

    def has_role(self, *roles: Role) -> bool:
        """Return whether the category of any event plays one of these roles."""
        return not self.categories.isdisjoint(categories_of(*roles))

    def of_role(self, *roles: Role) -> pl.DataFrame:
        """The events whose category plays one of these roles, in the order of the file."""
        if not self.has_role(*roles):
            return self.events.clear()
        return self.events.filter(pl.col("category").is_in(categories_of(*roles)))

    @cached_property
    def span_ns(self) -> tuple[int, int] | None:
        """(first start, last end) of all events but the profiler's own spans; None without events."""
        spans = self.events.filter(as_text("category").fill_null("") != Category.TRACE.value)
        if spans.is_empty():
            return None
        start = spans.get_column("ts_ns").min()
        stop = (spans.get_column("ts_ns") + spans.get_column("dur_ns")).max()
        assert isinstance(start, int) and isinstance(stop, int), "both columns are int64 without nulls"
        return start, stop

    @cached_property
    def has_device(self) -> bool:
        """Return whether any work ran on a device."""
        return self.has_role(Role.DEVICE_WORK)

    @cached_property
    def device_names(self) -> list[str]:
        """Names of the devices that the profiler saw, each once."""
        properties = self.header.get("deviceProperties")
        rows = properties if isinstance(properties, list) else []
        names = [str(row["name"]) for row in rows if isinstance(row, dict) and "name" in row]
        return list(dict.fromkeys(names))
