"""The ledger of a rank: what its trace shows not at all, or not as it was."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device import device_events
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.analysis.validity import VALIDITY, doubts_of
from tracebraid.model.device_peaks import COMMUNICATION
from tracebraid.model.gaps import UNSEEN, FoundGap, Gap
from tracebraid.model.linked_trace import LinkedTrace

_RANKS = 2
_EVENTS = 20
"""Unknown events, at least."""
_NAME_SHOWN = 80
"""Characters of a kernel's name in a finding."""
_UNKNOWN_SHARE = 0.01
"""Share of the device's time in kernels that nobody knows, from which they may communicate."""


def unseen_communication(linked: LinkedTrace) -> pl.DataFrame:
    """A row (`UNSEEN`) for a rank of several in which nothing is known to communicate, and much is not known."""
    world, work = linked.timeline.world_size or 1, device_events(linked)
    if world < _RANKS or work.is_empty() or (work.get_column("kind") == COMMUNICATION).any():
        return pl.DataFrame(schema=UNSEEN)
    # Few traces get here.
    from tracebraid.analysis.kernels.kernels import device_work
    from tracebraid.analysis.time.collective_events import host_ranges
    from tracebraid.model.kernel_family import KernelFamily

    # The exchange of experts is named after them.
    may_communicate = [KernelFamily.OTHER.value, KernelFamily.MOE.value]
    by_family = device_work(linked).select("name", "family", "dur_ns")
    unknown = by_family.filter(pl.col("family").is_in(may_communicate))
    share = int(unknown.get_column("dur_ns").sum()) / max(int(by_family.get_column("dur_ns").sum()), 1)
    if share < _UNKNOWN_SHARE or unknown.height < _EVENTS or not host_ranges(linked).is_empty():
        return pl.DataFrame(schema=UNSEEN)
    times = unknown.group_by("name").agg(pl.col("dur_ns").sum())
    longest = times.sort("dur_ns", "name", descending=[True, False]).item(0, "name")
    return pl.DataFrame(
        [(world, share, str(longest)[:_NAME_SHOWN], unknown.height)], schema=UNSEEN, orient="row"
    )


def gaps(linked: LinkedTrace) -> tuple[FoundGap, ...]:
    """The gaps of a rank over all its steps, the worst first: each doubt of `validity`, and what is about no step."""
    doubts = linked.answered("analysis.validity", doubts_of, VALIDITY)
    of_steps = step_windows(linked).get_column("step").n_unique() if doubts.height else 0
    path = linked.timeline.path
    found = [
        FoundGap(
            gap,
            linked.rank,
            path,
            tuple(rows.get_column("step")),
            of_steps,
            int(rows.get_column("count").sum()),
        )
        for gap in (Gap if doubts.height else ())
        if not (rows := doubts.filter(pl.col("doubt") == gap.value)).is_empty()
    ]
    for row in linked.answered("unseen_communication", unseen_communication).iter_rows(named=True):
        count = row.pop("count")
        found.append(FoundGap(Gap.COMMUNICATION_UNSEEN, linked.rank, path, (), 0, count, row))
    order = list(Gap)
    return tuple(sorted(found, key=lambda one: order.index(one.gap)))
