"""The sentences for people: a table for each kind of code. No code compares, searches or cuts them."""

from __future__ import annotations

from tracebraid.model.reason import OrphanReason

__all__ = ["ORPHAN_REASONS", "reason_sentence"]

_REASON = OrphanReason

ORPHAN_REASONS: dict[OrphanReason, str] = {
    _REASON.NO_EXECUTION_TRACE: "there is no Execution Trace",
    _REASON.NO_ID: (
        "the op has no record-function id (no observer was active), and its External id proves nothing"
    ),
    _REASON.NO_NODE: "no node has its record-function id",
    _REASON.OUTSIDE_WINDOW: "it ran before or after all that the Execution Trace holds",
    _REASON.NO_EVENT: (
        "no host op has its rf_id (a thread or process that the profiler did not see, or outside its window)"
    ),
    _REASON.IDS_UNPROVEN: "host ops carry no record-function id, and External id proves nothing",
    _REASON.OTHER_NAME: "the other trace has another name under its id",
    _REASON.SEVERAL: "its id and name fit several",
    _REASON.ANOTHER_RUN: "the two traces are of different processes, and ids of another process prove nothing",
    _REASON.ROOT: "it stands for the process or a thread, which has no event",
    _REASON.BEFORE_START: "it is written before the profiler starts, and has no event",
    _REASON.SEVERAL_CANDIDATES: "it could be several: see candidates",
    _REASON.NO_COUNTERPART: "between its neighbours the other trace has nothing like it",
    _REASON.OTHER_ITERATION: "it is not in the iterations that were matched",
    _REASON.NO_CORRELATION: "it carries no correlation id",
    _REASON.NO_CALL: (
        "no call with its correlation is in the trace (launched before the profiler started, or dropped)"
    ),
    _REASON.LAUNCHER_WITHOUT_NODE: "the op that launched it has no node",
    _REASON.OUTSIDE_OF_OPS: "it was launched outside of any op",
}


def reason_sentence(reason: OrphanReason) -> str:
    """Why something was not linked, in words."""
    return ORPHAN_REASONS[reason]
