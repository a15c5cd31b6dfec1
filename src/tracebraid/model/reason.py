"""Why something was not linked, and why iterations were chosen: the codes; `model.sentences` has the words."""

from __future__ import annotations

from enum import Enum

__all__ = ["ChoiceReason", "OrphanKind", "OrphanReason"]


class ChoiceReason(str, Enum):
    """Why some iterations of the longer trace were matched, and no others."""

    ASKED_FOR = "asked-for"
    BEST = "best"
    SAME_SEQUENCE_NUMBERS = "same-sequence-numbers"
    SAME_NUMBER = "same-number"
    """Of the iterations that agree as well, it has the same number in its annotation."""
    MEDIAN_LENGTH = "median-length"

    def __str__(self) -> str:
        """The reason itself, in f-strings too, on each version of Python."""
        return self.value


class OrphanKind(str, Enum):
    """What has no partner."""

    HOST_OP = "host_op"
    ET_NODE = "et_node"
    GPU_EVENT = "gpu_event"

    def __str__(self) -> str:
        """The kind itself, in f-strings too, on each version of Python."""
        return self.value


class OrphanReason(str, Enum):
    """Why an op, a node or a device event has no partner; its sentence stands in `model.sentences`."""

    NO_EXECUTION_TRACE = "no-execution-trace"
    """Host op: the rank has no Execution Trace."""
    NO_ID = "no-id"
    """Host op: it carries no record-function id, and its External id proves nothing."""
    NO_NODE = "no-node"
    """Host op: no node has its record-function id."""
    OUTSIDE_WINDOW = "outside-window"
    """Host op: its record-function id is lower, or higher, than that of any node: it ran when none was recorded."""
    NO_EVENT = "no-event"
    """Node: no host op has its rf_id."""
    IDS_UNPROVEN = "ids-unproven"
    """Node: host ops carry no record-function ids, and External id proves nothing."""
    OTHER_NAME = "other-name"
    """Host op or node: its id is there in the other trace, under another name."""
    SEVERAL = "several"
    """Host op or node: its id and name fit several."""
    ANOTHER_RUN = "another-run"
    """Host op or node: the two traces are of different processes, so that equal ids prove nothing."""
    ROOT = "root"
    """Node: it stands for the process or a thread, which has no event."""
    BEFORE_START = "before-start"
    """Node: it is written before the profiler starts, and has no event."""
    SEVERAL_CANDIDATES = "several-candidates"
    """Host op or node, in alignment: the column `candidates` has those that it could be."""
    NO_COUNTERPART = "no-counterpart"
    """Host op or node, in alignment: between its neighbours the other trace has nothing like it."""
    OTHER_ITERATION = "other-iteration"
    """Host op or node, in alignment: it is not in the iterations that were matched."""
    NO_CORRELATION = "no-correlation"
    """Device event: it carries no correlation id."""
    NO_CALL = "no-call"
    """Device event: no call with its correlation id is in the trace."""
    LAUNCHER_WITHOUT_NODE = "launcher-without-node"
    """Device event, in ET+: the op that launched it has no node, nor has any enclosing op."""
    OUTSIDE_OF_OPS = "outside-of-ops"
    """Device event: its call lies outside of any op."""
