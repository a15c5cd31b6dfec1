"""`Coverage`: how much of a rank was linked, by which method, and why the rest was not."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from tracebraid.model import notebook


class ChoiceReason(str, Enum):
    """Reason why some iterations of the longer trace were matched."""

    ASKED_FOR = "asked-for"
    BEST = "best"
    SAME_SEQUENCE_NUMBERS = "same-sequence-numbers"
    SAME_NUMBER = "same-number"
    """Among equally good iterations, it has the same number in its annotation."""
    MEDIAN_LENGTH = "median-length"

    def __str__(self) -> str:
        """The reason itself, in f-strings too, on each version of Python."""
        return self.value


class OrphanKind(str, Enum):
    """Kind of row without a partner."""

    HOST_OP = "host_op"
    ET_NODE = "et_node"
    GPU_EVENT = "gpu_event"

    def __str__(self) -> str:
        """The kind itself, in f-strings too, on each version of Python."""
        return self.value


class OrphanReason(str, Enum):
    """Reason why an op, a node or a device event has no partner; `model.sentences` has its sentence."""

    NO_EXECUTION_TRACE = "no-execution-trace"
    """Host op: the rank has no Execution Trace."""
    NO_ID = "no-id"
    """Host op: it carries no record-function id, and its External id proves nothing."""
    NO_NODE = "no-node"
    """Host op: no node has its record-function id."""
    OUTSIDE_WINDOW = "outside-window"
    """Host op: its record-function id is lower or higher than that of any node: it ran outside the recorded window."""
    NO_EVENT = "no-event"
    """Node: no host op has its rf_id."""
    IDS_UNPROVEN = "ids-unproven"
    """Node: host ops carry no record-function ids, and External id proves nothing."""
    OTHER_NAME = "other-name"
    """Host op or node: its id is in the other trace with another name."""
    SEVERAL = "several"
    """Host op or node: its id and name match several."""
    ANOTHER_RUN = "another-run"
    """Host op or node: the two traces are of different processes, so equal ids prove nothing."""
    ROOT = "root"
    """Node: it represents the process or a thread, which has no event."""
    BEFORE_START = "before-start"
    """Node: it was written before the profiler started, and has no event."""
    SEVERAL_CANDIDATES = "several-candidates"
    """Host op or node, in alignment: the column `candidates` lists its possible partners."""
    NO_COUNTERPART = "no-counterpart"
    """Host op or node, in alignment: the other trace has no similar op between its neighbours."""
    OTHER_ITERATION = "other-iteration"
    """Host op or node, in alignment: it is outside the matched iterations."""
    NO_CORRELATION = "no-correlation"
    """Device event: it carries no correlation id."""
    NO_CALL = "no-call"
    """Device event: no call with its correlation id is in the trace."""
    LAUNCHER_WITHOUT_NODE = "launcher-without-node"
    """Device event, in ET+: the op that launched it has no node, nor has any enclosing op."""
    OUTSIDE_OF_OPS = "outside-of-ops"
    """Device event: its call lies outside any op."""


class Count(Struct, frozen=True):
    """Number of linked items out of `total`, and number by method."""

    total: int
    linked: int
    by_method: dict[str, int]

    @property
    def share(self) -> float:
        """Linked share, 0 to 1; 1 where there was nothing to link."""
        return self.linked / self.total if self.total else 1.0


class Orphans(Struct, frozen=True):
    """Orphans with one reason.

    Args:
        kind: their kind.
        reason: the reason.
        count: their number.
    """

    kind: OrphanKind
    reason: OrphanReason
    count: int


class Coverage(Struct, frozen=True):
    """Ledger of one rank's links.

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
        """Return a short description."""
        linked = f"host_ops={self.host_ops.linked}/{self.host_ops.total}, et_nodes={self.et_nodes.linked}"
        events = f"/{self.et_nodes.total}, gpu_events={self.gpu_events.linked}/{self.gpu_events.total}"
        return f"Coverage({linked}{events}, share={self.share:.4f}, orphans={len(self.orphans)})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
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
