"""The critical path: its segments, what they add up to, slack, and how stable it is."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

__all__ = ["PATH_HOPS", "PATH_SEGMENTS", "PATH_STABILITY", "PATH_STEPS", "PATH_TOTALS", "SLACK", "TotalsBy"]

_INT, _FLOAT, _BOOL, _NAME, _TEXT, _JSON = (
    *(Kind.INT, Kind.FLOAT, Kind.BOOL),
    *(Kind.NAME, Kind.TEXT, Kind.JSON),
)

_STEP = Column("step", _TEXT, "the step; null: the whole trace, which has no steps")
_RANK = Column("rank", _INT, "the rank; null: a collective of several ranks")
_NAME_COLUMN = Column("name", _NAME, "name of the event, or of the thread; of a collective its type")
_OP = Column("op", _NAME, "innermost op that it is or lies in, or that launched it; null: none")


class TotalsBy(Enum):
    """What the segments of a critical path are added up by."""

    KIND = "kind"
    NAME = "name"
    OP = "op"
    MODULE = "module"
    FAMILY = "family"
    RANK = "rank"
    RESIDUAL = "residual"


PATH_STEPS = Table(
    "path_steps",
    "One row per step: how much of it the critical path explains; in the order of the steps.",
    (
        _STEP,
        Column("start_ns", _INT, "start of the step: the earliest of its ranks, on aligned clocks"),
        Column("span_ns", _INT, "from its start to the latest end on any rank's host or device"),
        Column(
            "path_ns", _INT, "work and usual latencies on the path; with residual_ns it is span_ns exactly"
        ),
        Column("residual_ns", _INT, "time on the path that nothing explains (`Residual`)"),
        Column("explained", _FLOAT, "path_ns / span_ns; of an empty step 1"),
        Column(
            "waiting_ns", _INT, "of path_ns: waits and usual latencies, in which nothing is computed or moved"
        ),
        Column("segments", _INT, "segments of the path"),
        Column("hops", _INT, "how often the path goes from a rank to another"),
        Column("ranks", Kind.INTS, "the ranks that the path runs over, ascending"),
    ),
)

PATH_SEGMENTS = Table(
    "path_segments",
    "One row per segment of a critical path; by step, from its start to its end, without gaps.",
    (
        _STEP,
        Column("order", _INT, "position on the path of the step, from 0"),
        _RANK,
        Column("thread", _NAME, "name of the thread; null: it is on a device"),
        Column("stream", _INT, "number of the stream; null: it is on no device"),
        Column("lane", _INT, "thread or stream: its row in `lanes` of the rank's timeline"),
        Column("kind", _NAME, "what happens (`SegmentKind`)"),
        Column("family", _NAME, "of device work: what kind of kernel it is (`KernelFamily`); else null"),
        _NAME_COLUMN,
        _OP,
        Column("module", _NAME, "nn.Module in whose call it lies or was launched; null: none"),
        Column("node_id", _INT, "Execution Trace node of the op; null: there is none"),
        Column("shapes", _JSON, "shapes of the inputs of the op; null: not recorded"),
        Column("event_id", _INT, "the event: its row in `events` of the rank's timeline; null: it has none"),
        Column("start_ns", _INT, "start, on aligned clocks"),
        Column("duration_ns", _INT, "duration; those of a step's segments add up to its span_ns"),
        Column("work_ns", _INT, "of the duration: work and usual latency"),
        Column("residual_ns", _INT, "of the duration: what nothing explains"),
        Column("residual", _NAME, "why it is later than what it waits for (`Residual`); null: it is not"),
        Column(
            "on_path",
            _FLOAT,
            "share of perturbed replays in which the activity is on the path; null: no replays",
        ),
        Column("activity", _INT, "row of the graph's `activities`"),
    ),
)

PATH_TOTALS = Table(
    "path_totals",
    "One row per step and kind, name, op, module, family, rank or residual on its path; the longest first.",
    (
        _STEP,
        Column("by", _NAME, "what the segments are added up by (`TotalsBy`)"),
        Column("value", _TEXT, "its value; null: the segments have none"),
        Column("segments", _INT, "segments of the path"),
        Column("duration_ns", _INT, "their duration"),
        Column("share", _FLOAT, "of the step's span; of an empty step 0"),
        Column("waits", _BOOL, "by kind: whether nothing is computed or moved meanwhile; else null"),
    ),
)

PATH_HOPS = Table(
    "path_hops",
    "One row per change of the rank on a critical path; in the order of the path.",
    (
        _STEP,
        Column("order", _INT, "the segment that the path goes to: its order in `path_segments`"),
        Column("from_rank", _INT, "the rank that it comes from"),
        Column("to_rank", _INT, "the rank that it goes to"),
        Column("ts_ns", _INT, "when, on aligned clocks"),
        Column("from_name", _NAME, "name of the segment that it comes from"),
        Column("to_name", _NAME, "name of the segment that it goes to"),
    ),
)

SLACK = Table(
    "slack",
    "One row per activity: how much longer it can be without any step or the job ending later.",
    (
        _RANK,
        Column("event_id", _INT, "the event: its row in `events` of the rank's timeline; null: it has none"),
        Column("kind", _NAME, "what it is (`ActivityKind`)"),
        _NAME_COLUMN,
        _OP,
        Column("lane", _INT, "thread or stream: its row in `lanes` of the rank's timeline"),
        Column("stream", _INT, "number of the stream; null: it is on no device"),
        Column("step", _NAME, "the step in which it was issued; null: in none"),
        Column("start_ns", _INT, "start, on aligned clocks"),
        Column("duration_ns", _INT, "duration"),
        Column("work_ns", _INT, "the time that is its own: of an op outside of what it calls"),
        Column(
            "slack_ns", _INT, "how much longer its own time can be, at any point of it; null: it has none"
        ),
        Column("activity", _INT, "row of the graph's `activities`"),
    ),
)

PATH_STABILITY = Table(
    "path_stability",
    "One row per step and activity that was on its path in any perturbed replay; the most frequent first.",
    (
        _STEP,
        _RANK,
        Column("kind", _NAME, "what it is (`ActivityKind`)"),
        _NAME_COLUMN,
        _OP,
        Column("start_ns", _INT, "start, on aligned clocks"),
        Column("is_on_path", _BOOL, "whether it is on the measured path"),
        Column("on_path", _FLOAT, "share of the replays in which it is on the path"),
        Column("replays", _INT, "number of replays"),
        Column("activity", _INT, "row of the graph's `activities`"),
    ),
)
