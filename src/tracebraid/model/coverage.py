"""`Coverage`: how much of a rank was linked, by which method, and why the rest was not."""

from __future__ import annotations

from dataclasses import dataclass

from tracebraid.model import notebook
from tracebraid.model.reason import OrphanKind, OrphanReason

__all__ = ["Count", "Coverage", "Orphans"]


@dataclass(frozen=True)
class Count:
    """How many of `total` were linked, and how many of those by each method."""

    total: int
    linked: int
    by_method: dict[str, int]

    @property
    def share(self) -> float:
        """Linked share, 0 to 1; 1 where there was nothing to link."""
        return self.linked / self.total if self.total else 1.0


@dataclass(frozen=True)
class Orphans:
    """What was not linked for one reason.

    Args:
        kind: what they are.
        reason: why.
        count: how many.
    """

    kind: OrphanKind
    reason: OrphanReason
    count: int


@dataclass(frozen=True)
class Coverage:
    """The ledger of one rank's links.

    Args:
        host_ops: Kineto's operators and annotations that have their Execution Trace node.
        et_nodes: Execution Trace nodes, roots left out, that have their host event.
        gpu_events: work on the device that has the op that launched it.
        gpu_time_ns: (total, attributed) duration of that work.
        orphans: a row per kind and reason, the most frequent first.
        has_et: whether there was an Execution Trace to link to.
    """

    host_ops: Count
    et_nodes: Count
    gpu_events: Count
    gpu_time_ns: tuple[int, int]
    orphans: tuple[Orphans, ...]
    has_et: bool

    @property
    def share(self) -> float:
        """The smallest of four shares: ET nodes, host ops (both with an Execution Trace), GPU events, GPU time.

        All ET nodes count, but for those in iterations that alignment left out, and what is written before the
        profiler starts: a Kineto trace that was cut covers fewer of them. Of host ops those count that ran while the
        Execution Trace was recorded: a Kineto trace of many steps may lie beside an Execution Trace of one.
        """
        total_ns, attributed_ns = self.gpu_time_ns
        shares = [self.gpu_events.share, attributed_ns / total_ns if total_ns else 1.0]
        if self.has_et:
            shares.append(self._share_without(self.et_nodes, OrphanKind.ET_NODE, OrphanReason.BEFORE_START))
            shares.append(self._share_without(self.host_ops, OrphanKind.HOST_OP, OrphanReason.OUTSIDE_WINDOW))
        return min(shares)

    def __repr__(self) -> str:
        """What it is, in brief."""
        linked = f"host_ops={self.host_ops.linked}/{self.host_ops.total}, et_nodes={self.et_nodes.linked}"
        events = f"/{self.et_nodes.total}, gpu_events={self.gpu_events.linked}/{self.gpu_events.total}"
        return f"Coverage({linked}{events}, share={self.share:.4f}, orphans={len(self.orphans)})"

    def _repr_html_(self) -> str:
        """What it is, for a notebook."""
        counts = {"host ops": self.host_ops, "ET nodes": self.et_nodes, "GPU events": self.gpu_events}
        rows: list[tuple[object, ...]] = [
            (name, count.linked, count.total, count.share, list(count.by_method))
            for name, count in counts.items()
        ]
        linked = notebook.rows_html(
            "Linked", ("what", "linked", "total", "share", "methods"), rows, len(rows)
        )
        reasons = ((orphans.kind, orphans.reason, orphans.count) for orphans in self.orphans)
        left = notebook.rows_html("Not linked", ("what", "reason", "count"), reasons, len(self.orphans))
        facts = {"Execution Trace": self.has_et}
        return notebook.shown("Coverage", notebook.facts_html(facts), linked, left if self.orphans else "")

    def _share_without(self, count: Count, kind: OrphanKind, reason: OrphanReason) -> float:
        """The linked share of those that are no orphans for that reason."""
        left_out = sum(
            orphans.count for orphans in self.orphans if (orphans.kind, orphans.reason) == (kind, reason)
        )
        return Count(count.total - left_out, count.linked, {}).share
