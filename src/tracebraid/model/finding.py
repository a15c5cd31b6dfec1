"""`Finding`: a located warning of a reader, a linker or a check."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from tracebraid.model.coverage import ChoiceReason, OrphanReason
from tracebraid.model.finding_code import MATCHED_BY_ALIGNMENT, RANKS_SELECTED, UNKNOWN_OF_OTHERS, FindingCode


class FindingCase(str, Enum):
    """Case of a finding whose code has several sentences."""

    STREAM_BROKEN = "stream-broken"
    STREAM_EXPANDS = "stream-expands"
    """A compressed stream that unpacks to far more than a trace does."""
    STREAM_FOLLOWED = "stream-followed"
    CACHE_DISK_FULL = "cache-disk-full"
    CACHE_OF_OTHERS = "cache-of-others"
    """A folder that another user owns or may write to."""
    CACHE_OF_OTHER_KIND = "cache-of-other-kind"
    ARCHIVE_INSIDE = "archive-inside"
    MEMBER_ENCRYPTED = "member-encrypted"
    MEMBER_OUTSIDE = "member-outside"
    """A member of an archive whose name leads out of it."""
    MEMBER_OVERLAPS = "member-overlaps"
    MEMBER_PACKING = "member-packing"
    MEMBER_SPARSE = "member-sparse"
    MEMBER_SPECIAL = "member-special"
    MEMBER_TWICE = "member-twice"
    OBJECTS_BEFORE_ARRAY = "objects-before-array"
    NO_EVENT = "no-event"
    NO_NODE = "no-node"
    TABLE_DAMAGED = "table-damaged"
    NODES_INCOMPLETE = "nodes-incomplete"
    ROWS_WITHOUT_TIME = "rows-without-time"
    ROWS_WITHOUT_END = "rows-without-end"
    SESSION_START_UNKNOWN = "session-start-unknown"
    BEHIND_ALL_TIMES = "behind-all-times"
    """Events so far behind the base time of their file that no clock counts that far."""
    NO_OBJECT = "no-object"
    """A manifest that is JSON, but no object."""
    RANK_LEFT_OUT = "rank-left-out"
    """An unreadable rank among readable ones."""
    EXECUTION_TRACE_LEFT_OUT = "execution-trace-left-out"
    """An unreadable Execution Trace, whose Kineto trace is read on its own."""
    AS_RECORDED = "as-recorded"
    """The text that a recorder wrote into its manifest."""
    PARENT_REPLACED = "parent-replaced"
    BY_TORCH = "by-torch"
    BY_NATIVE_RECORDER = "by-native-recorder"
    MATCHED_IN_PART = "matched-in-part"
    """Matched by alignment, some iterations; both contain the same program there."""
    SIMILAR_PROGRAM = "similar-program"
    SIMILAR_PROGRAM_IN_PART = "similar-program-in-part"
    NO_HOST_OP = "no-host-op"
    NO_REASON = "no-reason"
    NUMBERED_IN_ORDER = "numbered-in-order"
    """Ranks of a merged file whose labels state no rank."""
    MERGED_LEFT_OUT = "merged-left-out"
    """A merged file beside the files of its ranks."""
    FILE_LEFT_OUT = "file-left-out"
    LAST_WRITTEN = "last-written"
    OTHER_NAMES = "other-names"
    """Another run, by the names of equal ids."""
    OTHER_WRITER = "other-writer"
    """Another run, by the manifest."""
    OWNER_KNOWN = "owner-known"
    """Another rank, whose Kineto trace is present."""
    SAME_RANK = "same-rank"
    """Two files state the same rank."""
    OTHER_GROUPS = "other-groups"
    FILE_NAME = "file-name"
    OPTION = "option"
    BEYOND_WORLD = "beyond-world"
    STEPS_APART = "steps-apart"
    HOST_OF_SEVERAL_CLOCKS = "host-of-several-clocks"
    NOTHING_SHARED = "nothing-shared"
    """Ranks that share collectives with each other, and none with the others of their groups."""
    OTHER_STEPS = "other-steps"
    MET_WITHOUT = "met-without"
    """The others of its groups met without a rank."""
    SAMPLED_BY_HOST_AND_GROUP = "sampled-by-host-and-group"
    SAMPLED_BY_HOST = "sampled-by-host"
    SAMPLED_BY_GROUP = "sampled-by-group"
    SAMPLED_EVENLY = "sampled-evenly"
    """Neither hosts nor parallel groups are known."""
    COMPILING = "compiling"
    FILE_ABSENT = "file-absent"
    METRIC_NAME_TAKEN = "metric-name-taken"
    OUTLASTS_STREAM = "outlasts-stream"
    """Kernels that outlast later kernels of their stream."""
    HANG = "hang"
    """Communication that some ranks wait for, and others did not issue."""
    HANG_OF_ALL = "hang-of-all"
    """Communication that each of its ranks which are here issued."""
    FRAME_LENGTH = "frame-length"
    """An impossible message length in an `.et` file."""
    MESSAGE_CUT = "message-cut"
    ANNOTATION_OPEN = "annotation-open"
    """An annotation of the program among the operators that were open at the end of the window."""
    STOPPED_BEFORE_WINDOW = "stopped-before-window"
    """An exception or a signal ended the loop before its window."""
    STOPPED_IN_WINDOW = "stopped-in-window"

    def __str__(self) -> str:
        """The case itself, in f-strings too, on each version of Python."""
        return self.value


_REASON = OrphanReason

ORPHAN_REASONS: dict[OrphanReason, str] = {
    _REASON.NO_EXECUTION_TRACE: "the rank has no Execution Trace",
    _REASON.NO_ID: (
        "the op has no record-function id (no observer was active), and its External id proves nothing"
    ),
    _REASON.NO_NODE: "no node has its record-function id",
    _REASON.OUTSIDE_WINDOW: "it ran outside the window of the Execution Trace",
    _REASON.NO_EVENT: (
        "no host op has its rf_id (an unprofiled thread or process, or outside the profiler's window)"
    ),
    _REASON.IDS_UNPROVEN: "host ops carry no record-function id, and External id proves nothing",
    _REASON.OTHER_NAME: "the other trace has a different name for its id",
    _REASON.SEVERAL: "its id and name match several",
    _REASON.ANOTHER_RUN: "the two traces are of different processes, so equal ids prove nothing",
    _REASON.ROOT: "it represents the process or a thread, which has no event",
    _REASON.BEFORE_START: "it was written before the profiler started, and has no event",
    _REASON.SEVERAL_CANDIDATES: "it matches several: see candidates",
    _REASON.NO_COUNTERPART: "the other trace has no similar op between its neighbours",
    _REASON.OTHER_ITERATION: "it is outside the matched iterations",
    _REASON.NO_CORRELATION: "it carries no correlation id",
    _REASON.NO_CALL: (
        "no call in the trace has its correlation id (launched before the profiler started, or dropped)"
    ),
    _REASON.LAUNCHER_WITHOUT_NODE: "the op that launched it has no node",
    _REASON.OUTSIDE_OF_OPS: "it was launched outside any op",
}


class AloneReason(str, Enum):
    """Reason why communication is simulated on its own rank with its measured duration."""

    SINGLE_RANK = "single rank"
    """Its group has a single rank, or only one of its ranks is simulated."""
    PEER_MISSING = "peer missing"
    """The other end of a send or a receive is not simulated, or did not record it."""
    MEMBERS_MISSING = "members missing"
    """Not all simulated ranks of its group recorded it: windows differ, or members could not be matched."""
    GROUP_UNKNOWN = "group unknown"
    """The traces do not state its process group."""
    DOUBTFUL = "doubtful"
    """Its members were matched, but another match is equally likely."""
    TYPES_DIFFER = "types differ"
    """Ranks disagree on its type."""
    UNKNOWN_TYPE = "unknown type"
    """The traces do not state its type."""
    ORDER = "order"
    """It contradicts the order of other communication: ranks would deadlock."""


ALONE_REASONS: dict[AloneReason, str] = {
    AloneReason.SINGLE_RANK: "its group has a single simulated rank",
    AloneReason.PEER_MISSING: "the other end of a send or receive is not simulated, or was not recorded",
    AloneReason.MEMBERS_MISSING: "not all simulated ranks of its group recorded it",
    AloneReason.GROUP_UNKNOWN: "the traces do not say its process group",
    AloneReason.DOUBTFUL: "its members are matched with too little confidence",
    AloneReason.TYPES_DIFFER: "ranks disagree on what it is",
    AloneReason.UNKNOWN_TYPE: "the traces do not say what it is",
    AloneReason.ORDER: "it contradicts the order of other communication",
}


"""Default sentence of each code; fields are names of the finding's details."""

_SIMILAR = "their op trees differ in places"
_IN_PART = "; {why}; ET+ holds the device events of the matched iterations"

_CASE = FindingCase

CASE_SENTENCES: dict[FindingCase, str] = {
    _CASE.STREAM_BROKEN: "the {compression} stream is damaged here or further on ({error})",
    _CASE.STREAM_EXPANDS: (
        "the {compression} stream unpacks to more than {ratio} times its size, and is read up to here"
    ),
    _CASE.STREAM_FOLLOWED: "data in another format than {compression} follows the stream",
    _CASE.CACHE_DISK_FULL: "the cache is not extended, as its disk is nearly full",
    _CASE.CACHE_OF_OTHERS: "the cache is not used: its folder belongs to another user, or others may write to it",
    _CASE.CACHE_OF_OTHER_KIND: "the cache is not used: its folder was not made by Tracebraid",
    _CASE.ARCHIVE_INSIDE: "skipped: nested archives are not opened",
    _CASE.MEMBER_ENCRYPTED: "skipped: encrypted members are not read",
    _CASE.MEMBER_OUTSIDE: "skipped: the name leads out of the archive, or is too long or too deep",
    _CASE.MEMBER_OVERLAPS: "skipped: the members share bytes of the archive",
    _CASE.MEMBER_PACKING: "skipped: members must be uncompressed, or compressed with deflate or zstd",
    _CASE.MEMBER_SPARSE: "skipped: a sparse file",
    _CASE.MEMBER_SPECIAL: "skipped: a link, a device or a pipe",
    _CASE.MEMBER_TWICE: "several members have this name; the last one is read",
    _CASE.OBJECTS_BEFORE_ARRAY: "possible events or nodes before the array were skipped",
    _CASE.NO_EVENT: "an object is not an event and was skipped ({error})",
    _CASE.NO_NODE: "an object is not a node and was skipped ({error})",
    _CASE.TABLE_DAMAGED: "the table is damaged ({error}); the rows before the damage are read",
    _CASE.NODES_INCOMPLETE: "nodes without an id or a name were skipped",
    _CASE.ROWS_WITHOUT_TIME: "rows without a valid time were skipped",
    _CASE.ROWS_WITHOUT_END: "rows without a valid end get a duration of 0",
    _CASE.SESSION_START_UNKNOWN: (
        "the start of the session is unknown: times are relative to it, not on the unix clock"
    ),
    _CASE.BEHIND_ALL_TIMES: "{times} times would be beyond 2116 with baseTimeNanoseconds, and are used without it",
    _CASE.NO_OBJECT: "not a manifest",
    _CASE.RANK_LEFT_OUT: "rank {rank} is skipped: {problem}",
    _CASE.EXECUTION_TRACE_LEFT_OUT: "the Execution Trace of rank {rank} is skipped: {problem}",
    _CASE.AS_RECORDED: "{text}",
    _CASE.PARENT_REPLACED: (
        "nodes were children of {absent:,} operators that were never written (open when recording stopped, or "
        "they raised); "
        "they are now children of their thread, and the attribute {attribute} names the operator"
    ),
    _CASE.BY_TORCH: (
        "of {linked:,} linked nodes, these have a parent other than the op that called them (PyTorch's observer loses "
        "track when ops end on another thread); times follow the op"
    ),
    _CASE.BY_NATIVE_RECORDER: (
        "of {linked:,} linked nodes, these have a parent other than the op that called them (the native recorder "
        "wrote them); times follow the op"
    ),
    _CASE.MATCHED_IN_PART: MATCHED_BY_ALIGNMENT + "the same program" + _IN_PART,
    _CASE.SIMILAR_PROGRAM: MATCHED_BY_ALIGNMENT + _SIMILAR,
    _CASE.SIMILAR_PROGRAM_IN_PART: MATCHED_BY_ALIGNMENT + _SIMILAR + _IN_PART,
    _CASE.NO_HOST_OP: "the Kineto trace has no host op",
    _CASE.NO_REASON: "device events without operator, of {events:,}",
    _CASE.NUMBERED_IN_ORDER: (
        "it holds {ranks} ranks, each with its own ids: pids that begin with {labels} are read as rank {numbers}, "
        "numbered in the order of {axes}"
    ),
    _CASE.MERGED_LEFT_OUT: "skipped: it holds ranks {numbers}, which have files of their own here",
    _CASE.FILE_LEFT_OUT: "skipped: its rank is unknown, and there are {files} {kind}",
    _CASE.LAST_WRITTEN: ("rank {rank} has {files} {kind}; the latest is used, skipped: {others}"),
    _CASE.OTHER_NAMES: (
        "the Execution Trace is of another run than {kineto}: of {shared:,} common ids, {other_names:,} belong "
        "to ops with other names"
    ),
    _CASE.OTHER_WRITER: "it is of process {pid}; {manifest} is of process {writer_pid}",
    _CASE.OWNER_KNOWN: "{reason}; its process is that of rank {owner}",
    _CASE.SAME_RANK: "the Kineto traces of ranks {first_rank} and {rank} both state rank {stated}",
    _CASE.OTHER_GROUPS: "ranks {first_rank} and {rank} list different ranks for one process group",
    _CASE.FILE_NAME: "the file states rank {rank}, its name rank {named}; assumed to be rank {rank}",
    _CASE.OPTION: "the trace states rank {rank}, --rank states {named}; assumed to be rank {rank}",
    _CASE.BEYOND_WORLD: "rank {rank} is beyond the world of {world_size} ranks",
    _CASE.STEPS_APART: (
        "clocks disagree, or ranks ran at different times: {step} of rank {late} begins {gap_ms:,.3f} ms "
        "after that of rank {early} "
        "has ended"
    ),
    _CASE.NOTHING_SHARED: (
        "ranks {ranks} share collectives with each other but none with rank {first_rank}, a member of their groups: "
        "they are of another run or window"
    ),
    _CASE.OTHER_STEPS: (
        "{matched:,} of {issued:,} {what} of rank {rank} were matched with other ranks: it recorded {own} and further "
        "steps, the others {others} and further, none of them the same"
    ),
    _CASE.MET_WITHOUT: (
        "{matched:,} of {issued:,} {what} of rank {rank} were matched with other ranks: {met:,} of its groups met "
        "without it"
    ),
    _CASE.HOST_OF_SEVERAL_CLOCKS: (
        "ranks on host {host} have {count} clocks: several hosts or containers share that name"
    ),
    _CASE.SAMPLED_BY_HOST_AND_GROUP: RANKS_SELECTED
    + ", sampled by host and parallel group"
    + UNKNOWN_OF_OTHERS,
    _CASE.SAMPLED_BY_HOST: RANKS_SELECTED
    + ", sampled by host, as parallel groups are unknown"
    + UNKNOWN_OF_OTHERS,
    _CASE.SAMPLED_BY_GROUP: RANKS_SELECTED
    + ", sampled by parallel group, as all ranks share a host, or hosts are unknown"
    + UNKNOWN_OF_OTHERS,
    _CASE.SAMPLED_EVENLY: RANKS_SELECTED
    + ", evenly spread, as neither hosts nor parallel groups distinguish them"
    + UNKNOWN_OF_OTHERS,
    _CASE.COMPILING: "torch.compile compiled inside the window",
    _CASE.FILE_ABSENT: "{name} is missing",
    _CASE.OUTLASTS_STREAM: (
        "a kernel that outlasts later kernels of its stream, far longer than its like, gets a duration of 0 ns"
    ),
    _CASE.HANG: (
        "a hang: {waiting} waited {waited} for {communication}, which {missing} did not issue while recorded"
    ),
    _CASE.HANG_OF_ALL: (
        "a hang: {waiting} waited {waited} for {communication}, which all of its ranks that are here issued"
    ),
    _CASE.FRAME_LENGTH: "a message claims {length:,} bytes: the file is damaged from here on; write it again",
    _CASE.MESSAGE_CUT: "the file ends within a message: it is truncated; write it again",
    _CASE.ANNOTATION_OPEN: "operators and annotations still open when the profiler stopped: {names}",
    _CASE.STOPPED_BEFORE_WINDOW: "nothing was recorded in {steps} steps, then the loop was stopped ({ended_by})",
    _CASE.STOPPED_IN_WINDOW: "the loop was stopped inside the window ({ended_by}), which has steps {steps}",
    _CASE.METRIC_NAME_TAKEN: "the metric of the entry point {entry} is skipped: another metric is called {name}",
}
"""Sentences of codes that have several."""

_DONE_EARLIER = "See why it ended there; lower skip_first, wait or warmup to be done earlier"

CASE_ADVICE: dict[FindingCase, str] = {
    _CASE.ANNOTATION_OPEN: "End annotations of your own before the step ends",
    _CASE.STOPPED_BEFORE_WINDOW: _DONE_EARLIER,
    _CASE.STOPPED_IN_WINDOW: _DONE_EARLIER,
}
"""Advice on cases that is not that of their code."""

_CHOSEN = (
    "{names} of {iterations} iterations in the {trace} (by {marks}) was matched: {agreement:.1%} of the ops agree in "
    "order and name; "
)
_AS_GOOD = _CHOSEN + "{as_good} others agree as well, "

CHOICE_SENTENCES: dict[ChoiceReason, str] = {
    ChoiceReason.ASKED_FOR: _CHOSEN + "it was requested",
    ChoiceReason.BEST: _CHOSEN + "no other agrees as well",
    ChoiceReason.SAME_SEQUENCE_NUMBERS: _AS_GOOD + "but this one has the same sequence numbers",
    ChoiceReason.SAME_NUMBER: _AS_GOOD + "but this one has the same number",
    ChoiceReason.MEDIAN_LENGTH: _AS_GOOD + "of which it has the median length",
}
"""Sentences on the matched iterations; fields are members of `model.matched.ChosenIterations`."""


def finding_sentence(code: FindingCode, details: Mapping[str, object]) -> str:
    """Return the sentence of a finding."""
    case = details.get("case")
    template = CASE_SENTENCES[case] if isinstance(case, FindingCase) else code.sentence
    return template.format_map({name: _words(value) for name, value in details.items()})


def reason_sentence(reason: OrphanReason) -> str:
    """Return the sentence of a reason for a missing link."""
    return ORPHAN_REASONS[reason]


def _words(value: object) -> object:
    if isinstance(value, AloneReason):
        return ALONE_REASONS[value]
    return ORPHAN_REASONS[value] if isinstance(value, OrphanReason) else value


class Loss(Struct, frozen=True):
    """Loss of events or nodes of a file.

    Args:
        at_least: events or nodes that are known to be lost.
        at_most: how many can be lost; None if the text does not tell, as behind the end of a cut file.
        skipped_bytes: bytes of the unpacked file that were left out.
    """

    at_least: int = 0
    at_most: int | None = None
    skipped_bytes: int = 0

    def __add__(self, other: Loss) -> Loss:
        """Both losses."""
        at_most = None if self.at_most is None or other.at_most is None else self.at_most + other.at_most
        return Loss(self.at_least + other.at_least, at_most, self.skipped_bytes + other.skipped_bytes)

    def __str__(self) -> str:
        """A few words for people."""
        if self.at_least == self.at_most:
            count = f"{self.at_least:,}"
        elif self.at_most is not None:
            count = f"{self.at_least:,} to {self.at_most:,}"
        else:
            count = f"at least {self.at_least:,}" if self.at_least else "unknown"
        return f"lost: {count}" + (f", {self.skipped_bytes:,} bytes skipped" if self.skipped_bytes else "")


class Finding(Struct, frozen=True):
    """A problem in the input, and its handling.

    Args:
        code: what it is.
        path: the file; "" where it is not one file's matter.
        where: the first locations in it ("byte 120", "event 7", "node 12"); "" where there is none.
        count: how many times it was found.
        loss: the events or nodes that are lost with it; None if nothing is.
        details: values of the fields of its sentence in `model.sentences`.
    """

    code: FindingCode
    path: str = ""
    where: str = ""
    count: int = 1
    loss: Loss | None = None
    details: Mapping[str, object] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Of all but the details, which need not be hashable."""
        return hash((self.code, self.path, self.where, self.count, self.loss))

    @classmethod
    def of(
        cls, code: FindingCode, path: str = "", where: str = "", count: int = 1, **details: object
    ) -> Finding:
        """A finding without loss, with the details by their names."""
        return cls(code, path, where, count, details=details)

    @property
    def message(self) -> str:
        """Return the sentence for people; programs use the code."""
        return finding_sentence(self.code, self.details)

    @property
    def advice(self) -> str:
        """Return what to do about it."""
        case = self.details.get("case")
        return CASE_ADVICE.get(case, self.code.advice) if isinstance(case, FindingCase) else self.code.advice

    def __str__(self) -> str:
        """One line for people."""
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        location = f"{self.path}, {self.where}" if self.path and self.where else self.path or self.where
        lost = f"; {self.loss}" if self.loss is not None else ""
        return f"{location + ': ' if location else ''}{self.message}{times}{lost}"


class Issue(Struct, frozen=True):
    """Something wrong at one place.

    Args:
        code: what it is.
        byte: where it starts in the unpacked file.
        loss: what is lost with it; None if nothing is.
        details: see `model.finding.Finding`.
    """

    code: FindingCode
    byte: int
    loss: Loss | None = None
    details: Mapping[str, object] = field(default_factory=dict)

    def __hash__(self) -> int:
        """See `model.finding.Finding`."""
        return hash((self.code, self.byte, self.loss))

    @classmethod
    def of(cls, code: FindingCode, byte: int, loss: Loss | None = None, **details: object) -> Issue:
        """An issue, with the details by their names."""
        return cls(code, byte, loss, details)
