"""The sentences for people: a table for each kind of code. No code compares, searches or cuts them."""

from __future__ import annotations

from collections.abc import Mapping

from tracebraid.model.chakra.codes import AloneReason
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.reason import ChoiceReason, OrphanReason

__all__ = [
    "ALONE_REASONS",
    "CASE_SENTENCES",
    "CHOICE_SENTENCES",
    "FINDING_SENTENCES",
    "ORPHAN_REASONS",
    "finding_sentence",
    "reason_sentence",
]

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

ALONE_REASONS: dict[AloneReason, str] = {
    AloneReason.SINGLE_RANK: "its group has one simulated rank",
    AloneReason.PEER_MISSING: "the other end of a send or receive is not simulated, or was not recorded",
    AloneReason.MEMBERS_MISSING: "not all simulated ranks of its group recorded it",
    AloneReason.DOUBTFUL: "its members are matched with too little confidence",
    AloneReason.TYPES_DIFFER: "ranks disagree on what it is",
    AloneReason.UNKNOWN_TYPE: "the traces do not say what it is",
    AloneReason.ORDER: "it contradicts the order of other communication",
}

_MATCHED = "matched by alignment, without ids: {agreement:.1%} of the smaller trace's ops, "
_SIMILAR = "their op trees differ in places"
_IN_PART = "; {why}; ET+ holds the device events of the iterations that were matched"

_ASKED = "of {ranks:,} ranks only {asked:,} are read, as was asked for ({shown})"
_NOT_KNOWN = (
    "; collectives are matched only among these; stragglers, imbalance, clocks and sums over the world may miss the "
    "slowest rank"
)

_CODE = FindingCode

FINDING_SENTENCES: dict[FindingCode, str] = {
    # Files
    _CODE.NOT_A_TRACE: "left out: {problem}",
    _CODE.FOLDER_UNREADABLE: "left out, with what may lie in it: {problem}",
    _CODE.RANK_UNREADABLE: "rank {rank} cannot be read: {problem}",
    _CODE.COMPRESSION_DAMAGED: "the {compression} stream was cut off",
    _CODE.ARCHIVE_DAMAGED: "the archive was cut off or is damaged here; the members before are read",
    _CODE.MEMBERS_LEFT_OUT: "members of the archive are left out",
    _CODE.CACHE_UNUSED: "the cache is not used: {problem}",
    _CODE.TRUNCATED: "the file does not end as a trace ends: it was cut off, or something follows it",
    _CODE.MANIFEST_UNREADABLE: "it is no manifest ({error})",
    _CODE.BESIDE_WINDOWS: "there are traces beside folders of windows",
    _CODE.WINDOW_UNREADABLE: "{problem}",
    _CODE.WINDOW_EMPTY: "the program ended before the first step of this window was recorded",
    _CODE.HEADER_UNREADABLE: "what stands beside the array is no valid JSON and was left out",
    _CODE.EVENT_UNREADABLE: "an object is no valid JSON and was left out ({error})",
    _CODE.NODE_UNREADABLE: "an object is no valid JSON and was left out ({error})",
    _CODE.EVENT_MENDED: "text with unescaped characters was mended",
    _CODE.NODE_MENDED: "text with unescaped characters was mended",
    _CODE.TEXT_BETWEEN: "text that belongs to no object was left out",
    _CODE.EVENT_DURATION: "an event without a usable dur (missing, negative or huge) counts as 0 ns long",
    _CODE.EVENT_WITHOUT_TIME: "an event without a usable ts was put among other_events",
    _CODE.ARGUMENT_UNFIT: "an argument of another type, or too large, counts as missing ({keys}); extra_args has it",
    _CODE.FLOW_UNREADABLE: "an end of a flow without a usable id or ts was put among other_events",
    _CODE.BASE_TIME: "baseTimeNanoseconds is {value!r}, which is no time; times are taken as they stand",
    _CODE.SCHEMA_UNKNOWN: (
        "schema {schema!r} is not known; its nodes parse like those of a known one and were read so"
    ),
    _CODE.CATEGORY_OLD: "categories of before 2022 are read as today's: {pairs}",
    _CODE.CATEGORY_UNKNOWN: "events of categories that are not known count in no answer: {categories}",
    _CODE.DEVICE_WORK_UNREAD: (
        "events of categories that are not known look like a device's, and count in no answer: {categories}"
    ),
    _CODE.HOST_OPS_MISSING: (
        "device events without any host op: nothing says what launched them, and `ops` has no answer"
    ),
    _CODE.DEVICE_WORK_MISSING: (
        "calls launch work on a device, and the trace has no work of a device: the answers are the host's alone"
    ),
    _CODE.STEPS_CHOSEN: "of {all:,} steps and {events:,} events, this holds only what belongs to steps {steps}",
    _CODE.CHAKRA_METADATA_MISSING: "it begins with a node and no metadata: simulators lose this first node",
    _CODE.CHAKRA_NODE_UNREADABLE: "a message is no node of Chakra's, and is left out",
    _CODE.CHAKRA_VERSION_UNKNOWN: "version {version!r} is not known; nodes are read like those of a known one",
    _CODE.CHAKRA_FIELDS_UNKNOWN: "fields that Chakra's schema does not have are left out: another version wrote them",
    _CODE.CHAKRA_VALUE_LEFT_OUT: "{column} of nodes is beyond 64 bits with a sign, and is left out",
    _CODE.STORE_DAMAGED: "{problem}",
    _CODE.STORE_UNLINKED: "rank {rank} is packed without links to its Execution Trace: {problem}",
    _CODE.STORE_INCOMPLETE: "of {ranks:,} ranks, these are not packed yet: {missing}",
    _CODE.NAME_ESCAPED: "names held quotes, backslashes, control characters or bytes that are no UTF-8; escaped",
    # Structure of the Execution Trace
    _CODE.DUPLICATE_ID: "nodes carry an id that another node has; the first of each id was kept",
    _CODE.ROWS_WITHOUT_NODE: "rows that belong to no node of the trace were left out",
    _CODE.PARENT_MISSING: (
        "nodes name a parent that is not in the trace (it was open when the trace stopped, or was lost)"
    ),
    _CODE.PARENT_NEVER_WRITTEN: (
        "operators that were open at the stop, or raised, were never written; what ran inside hangs higher"
    ),
    _CODE.PARENT_CYCLE: "nodes are their own ancestors; one node of each such cycle lost its parent",
    _CODE.PARENTS_DIFFER: (
        "of {linked:,} linked nodes, these have another parent than the op that called them; times follow the latter"
    ),
    _CODE.PARENTS_UNPROVEN: (
        "of {linked:,} linked nodes, these have another parent than the op around them in time, and nothing proves "
        "which of the two is right"
    ),
    _CODE.PARENTS_ASYNCHRONOUS: (
        "of {linked:,} linked nodes, these ran while a range was open on their thread that has no children here: it "
        "may be asynchronous"
    ),
    _CODE.FRAME_END_LATE: (
        "Kineto ends these Python frames too late, up to {longest_ms:.3f} ms after other events prove them over; they "
        "are cut there, and ops and annotations nest by their own times"
    ),
    _CODE.EXECUTION_TRACE_UNFINISHED: (
        "the recorder never finished this file; it was ended after its last whole node"
    ),
    _CODE.EXECUTION_TRACE_EMPTY: "no node was written before the recorder stopped",
    _CODE.OP_UNFINISHED: "operators were still open when the profiler stopped: {names}",
    # Ids and links
    _CODE.NO_RECORD_FUNCTION_IDS: "no host op carries a record-function id, and External id proves nothing",
    _CODE.TOO_OLD_FOR_IDS: "host ops have no argument `Record function id`, and External id proves nothing",
    _CODE.MATCHED: _MATCHED + "the same program",
    _CODE.AMBIGUOUS: "{share:.1%} of the smaller trace's ops could be several, and are linked to none",
    _CODE.DEPENDENCY_BACKWARD: "dependencies of kind {kind} that go backward in time, and are left out",
    _CODE.HARDLY_OVERLAP: "the two traces hardly overlap: {ops:,} ops are in both",
    _CODE.ET_WITHOUT_IDS: "all rf_ids are 0",
    _CODE.NO_OVERLAP: (
        "the two traces do not overlap: record-function ids {et_ids} here, {kineto_ids} in the Kineto trace"
    ),
    _CODE.NOT_LINKED: (
        "of {ids:,} ids that both traces have, these are not linked: their names differ, or several have one id"
    ),
    _CODE.LAUNCH_UNKNOWN: "of {events:,} device events, these have no operator: {reason}",
    _CODE.LAUNCH_OUTSIDE: "of {events:,} device events, these have no operator: {reason}",
    _CODE.NO_ET_PLUS: "rank {rank} has no Execution Trace, so no ET+ was written for it",
    # Ranks
    _CODE.NO_ET: "rank {rank} has no Execution Trace; its Kineto trace is linked on its own",
    _CODE.NO_KINETO: "rank {rank} has an Execution Trace, but no Kineto trace; left out",
    _CODE.RANK_MISSING: "of {world_size} ranks, {missing} are missing: {ranks}",
    _CODE.RANK_UNKNOWN: "neither the file nor its name tells its rank; taken as rank 0",
    _CODE.RANKS_CHOSEN: _ASKED + _NOT_KNOWN,
    _CODE.SEVERAL_PROCESSES: (
        "it holds {processes} processes (pid {pids}): all are kept, each with its own lanes and correlations; record "
        "each rank on its own to have them apart"
    ),
    _CODE.RANK_CLAIMED_TWICE: "rank {rank} has {files} {kind}; this one is used, left out: {others}",
    _CODE.ANOTHER_RUN: "the Execution Trace is of another run than {kineto}: {differences}",
    _CODE.ANOTHER_RANK: "the Execution Trace is of another rank than {kineto}: {differences}",
    _CODE.ANOTHER_WINDOW: "no id of the Execution Trace is in {kineto}: it is of another window",
    _CODE.DETECTOR_FAILED: "the detector {detector} is left out: {problem}",
    _CODE.RUNS_MIXED: "rank {rank} recorded the same steps as rank {first_rank} at another time",
    _CODE.ANOTHER_PROGRAM: "{problem}",
    _CODE.PAIRED_BY_NUMBER: "taken as rank {rank}, the number in its name and in that of {partner}, or its rank",
    _CODE.RANKS_DIFFER: (
        "the Execution Trace's name says rank {et_rank}, the Kineto trace is of rank {kineto_rank}"
    ),
    _CODE.WORLD_DIFFERS: "traces tell of worlds of {sizes} ranks",
    _CODE.STEPS_DIFFER: "the ranks' windows hold different steps ({steps})",
    _CODE.CLOCKS_DIFFER: (
        "clocks differ from that of rank {reference}; to be added, by the collectives that they share: {clocks}"
    ),
    _CODE.COLLECTIVES_DISORDERED: (
        "rank {rank} enters {here} where ranks {others} enter {there}, number {number} in group {group}: ranks that "
        "enter collectives in different orders wait for each other for ever"
    ),
    _CODE.COLLECTIVES_UNMATCHED: "nothing that rank {rank} communicates was matched with another rank",
    _CODE.NO_COLLECTIVES: "rank {rank} communicates nothing, and {others} of the other ranks do",
    # The dependency graph
    _CODE.GRAPH_ARRIVALS_CLAMPED: (
        "members of collectives ended before the last one arrived, by less than the clocks may err: they are not made "
        "to wait for it"
    ),
    _CODE.GRAPH_COLLECTIVES_CONTRADICTED: (
        "collectives are left out of the dependency graph: a member ended before another had arrived; their members "
        "keep their own durations"
    ),
    _CODE.GRAPH_COLLECTIVES_DOUBTFUL: (
        "collectives are left out of the dependency graph: it is too uncertain that their members belong together"
    ),
    _CODE.GRAPH_COLLECTIVES_INCOMPLETE: (
        "collectives lack ranks, which may have arrived later: they wait for the ranks that are known, and what "
        "counts as their transfer may hold waiting for the others"
    ),
    _CODE.GRAPH_EDGES_CONTRADICTED: (
        "dependencies are left out of the dependency graph: what waits was earlier than what it waits for"
    ),
    _CODE.CHAKRA_UNORDERED: (
        "communication nodes are not issued in the order of all ranks: they had ended before what is ahead of them "
        "began; a simulator that runs one communication of a rank at a time may hang"
    ),
    _CODE.GRAPH_WITHOUT_NODES: "activities have no node of the Execution Trace: {problem}",
    # The window
    _CODE.NO_STEPS: "there is no ProfilerStep annotation",
    _CODE.WARMUP_CAUGHT: "{step} took {times:.1f} times as long as the median of the steps after it",
    _CODE.WINDOW_INCOMPLETE: "the loop ended inside of the window ({ended_by}), which has steps {steps}",
    _CODE.WINDOW_CHOSEN: "it holds {windows} windows ({names}); this is {chosen}",
    _CODE.WINDOW_LOST: "the window of steps {steps} is lost: {failure}",
    _CODE.PART_LEFT: "a process was killed while it recorded, and left a file that has no final name",
    _CODE.NOTHING_RECORDED: "nothing was recorded in {steps} steps",
    _CODE.MANIFEST_UNTRUE: "{name} has {size_bytes} bytes, not {noted_bytes!r}",
    _CODE.NSYS_NOT_EXPORTED: "left out: a report of Nsight Systems is read after `nsys export --type sqlite`",
    # Metrics of users
    _CODE.METRIC_FAILED: "the metric {metric} failed on rank {ranks}: {problem}",
    _CODE.METRIC_NOT_LOADED: "the metric of the entry point {entry} cannot be loaded: {problem}",
    # Exports
    _CODE.NO_CRITICAL_PATH: "the critical path is left out: {problem}",
    _CODE.CHAKRA_WORLD_SHRUNK: (
        "of {world} ranks {ranks} are simulated, as {missing} have no trace: groups lose these, and what was sent to "
        "or received from them lasts as it was measured"
    ),
    _CODE.CHAKRA_RANKS_REPLICATED: (
        "ranks {replicas} have no trace: they do what ranks {sources} do, in groups of their own"
    ),
    _CODE.CHAKRA_GROUP_ASSUMED: (
        "the traces do not say which ranks a process group has: it is taken to have all {world} where all traces take "
        "part, else those that do"
    ),
    _CODE.CHAKRA_SINGLE_RANK: (
        "only rank {rank} is simulated, and communicates with nobody; --missing replicate simulates the others, too"
    ),
    _CODE.CHAKRA_NO_COMMUNICATION: (
        "the traces have no communication: the ranks are simulated beside each other; was the profiler active on the "
        "ranks that communicate?"
    ),
    _CODE.CHAKRA_COMMUNICATION_ALONE: (
        "communication is simulated on its rank alone, as long as it was measured: {reason}"
    ),
    _CODE.CHAKRA_SIZE_UNKNOWN: (
        "the traces do not say how many bytes are communicated: simulators get the least; capture with "
        "record_shapes=True"
    ),
    _CODE.CHAKRA_SIZES_DIFFER: (
        "ranks give or get different sizes in a collective: it is simulated with the size of the busiest rank on all"
    ),
}
"""The usual sentence of each code, with the names of the finding's details as fields."""

_CASE = FindingCase

CASE_SENTENCES: dict[FindingCase, str] = {
    _CASE.STREAM_BROKEN: "the {compression} stream is damaged here, or some way behind ({error})",
    _CASE.STREAM_EXPANDS: (
        "the {compression} stream unpacks to more than {ratio} times its size, and is read up to here"
    ),
    _CASE.STREAM_FOLLOWED: "something that is no {compression} follows the stream",
    _CASE.CACHE_DISK_FULL: "nothing is added to the cache, as its disk is nearly full",
    _CASE.CACHE_OF_OTHERS: "the cache is not used: its folder is another user's, or others may write into it",
    _CASE.CACHE_OF_OTHER_KIND: "the cache is not used: its folder is no cache that Tracebraid made",
    _CASE.ARCHIVE_INSIDE: "left out: an archive in an archive is not opened",
    _CASE.MEMBER_ENCRYPTED: "left out: encrypted members are not read",
    _CASE.MEMBER_OUTSIDE: "left out: the name leads out of the archive, or is too long or too deep",
    _CASE.MEMBER_OVERLAPS: "left out: the members share bytes of the archive",
    _CASE.MEMBER_PACKING: "left out: members may be stored as they are, or compressed by deflate or zstd",
    _CASE.MEMBER_SPARSE: "left out: a sparse file",
    _CASE.MEMBER_SPECIAL: "left out: a link, a device or a pipe",
    _CASE.MEMBER_TWICE: "there are several members of this name; the last one is read",
    _CASE.OBJECTS_BEFORE_ARRAY: "what may be events or nodes stands before the array and was left out",
    _CASE.NO_EVENT: "an object is no event and was left out ({error})",
    _CASE.NO_NODE: "an object is no node and was left out ({error})",
    _CASE.TABLE_DAMAGED: "the table is damaged ({error}); the rows before that place are read",
    _CASE.NODES_INCOMPLETE: "nodes without an id or a name were left out",
    _CASE.ROWS_WITHOUT_TIME: "rows without a usable time; left out",
    _CASE.ROWS_WITHOUT_END: "rows without an end, or with one before their start; taken as of no duration",
    _CASE.SESSION_START_UNKNOWN: (
        "it does not tell when the session started: times are relative to that, not on the unix clock"
    ),
    _CASE.BEHIND_ALL_TIMES: "{times} times with baseTimeNanoseconds are beyond 2116 and taken as they stand",
    _CASE.NO_OBJECT: "it is no manifest",
    _CASE.RANK_LEFT_OUT: "rank {rank} is left out: {problem}",
    _CASE.EXECUTION_TRACE_LEFT_OUT: "the Execution Trace of rank {rank} is left out: {problem}",
    _CASE.AS_RECORDED: "{text}",
    _CASE.PARENT_REPLACED: (
        "nodes hung under {absent:,} operators that were never written (open when recording stopped, or they raised); "
        "they are under their thread now, and the attribute {attribute} names the operator"
    ),
    _CASE.BY_TORCH: (
        "of {linked:,} linked nodes, these have another parent than the op that called them (PyTorch's observer loses "
        "track where ops end on another thread); times follow the latter"
    ),
    _CASE.BY_NATIVE_RECORDER: (
        "of {linked:,} linked nodes, these have another parent than the op that called them (the native recorder "
        "wrote them); times follow the latter"
    ),
    _CASE.MATCHED_IN_PART: _MATCHED + "the same program" + _IN_PART,
    _CASE.SIMILAR_PROGRAM: _MATCHED + _SIMILAR,
    _CASE.SIMILAR_PROGRAM_IN_PART: _MATCHED + _SIMILAR + _IN_PART,
    _CASE.NO_HOST_OP: "there is no host op in the Kineto trace",
    _CASE.NO_REASON: "of {events:,} device events, these have no operator",
    _CASE.FILE_LEFT_OUT: "left out: nothing tells its rank, and there are {files} {kind}",
    _CASE.LAST_WRITTEN: (
        "rank {rank} has {files} {kind}; this one was written last and is used, left out: {others}"
    ),
    _CASE.OTHER_NAMES: (
        "the Execution Trace is of another run than {kineto}: of {shared:,} ids that both have, {other_names:,} stand "
        "for ops of other names"
    ),
    _CASE.OTHER_WRITER: "it is of process {pid}; {manifest} is of process {writer_pid}",
    _CASE.OWNER_KNOWN: "{reason}; its process is that of rank {owner}",
    _CASE.SAME_RANK: "the Kineto traces of ranks {first_rank} and {rank} both say that they are of rank {stated}",
    _CASE.OTHER_GROUPS: "ranks {first_rank} and {rank} list other ranks for one process group",
    _CASE.FILE_NAME: "the file says rank {rank}, its name rank {named}; taken as rank {rank}",
    _CASE.OPTION: "this is rank {rank} by the trace, and rank {named} by --rank; taken as rank {rank}",
    _CASE.BEYOND_WORLD: "rank {rank} is beyond the world of {world_size} ranks",
    _CASE.STEPS_APART: (
        "clocks disagree, or ranks ran apart: {step} of rank {late} begins {gap_ms:,.3f} ms after that of rank {early} "
        "has ended"
    ),
    _CASE.NOTHING_SHARED: (
        "ranks {ranks} share collectives with each other and none with rank {first_rank}, which their groups name: "
        "they are of another run, or of another window"
    ),
    _CASE.HOST_OF_SEVERAL_CLOCKS: (
        "ranks that name one host, {host}, have {count} clocks: several hosts, or containers, have that name"
    ),
    _CASE.SAMPLED_BY_HOST_AND_GROUP: _ASKED + ", sampled by host and parallel group" + _NOT_KNOWN,
    _CASE.SAMPLED_BY_HOST: _ASKED + ", sampled by host, as parallel groups are not known" + _NOT_KNOWN,
    _CASE.SAMPLED_BY_GROUP: _ASKED
    + ", sampled by parallel group, as all are of one host, or hosts are not known"
    + _NOT_KNOWN,
    _CASE.SAMPLED_EVENLY: _ASKED
    + ", evenly spread, as neither hosts nor parallel groups tell them apart"
    + _NOT_KNOWN,
    _CASE.COMPILING: "torch.compile was compiling inside the window",
    _CASE.FILE_ABSENT: "{name} is not there",
    _CASE.FRAME_LENGTH: "no message is {length:,} bytes long: the file is damaged from here on; write it again",
    _CASE.MESSAGE_CUT: "the file ends within a message: it was cut off; write it again",
    _CASE.METRIC_NAME_TAKEN: "the metric of the entry point {entry} is left out: another is called {name}, too",
}
"""The other sentences of codes that have several."""

_CHOSEN = (
    "of {iterations} iterations in the {trace} (by {marks}), {names} was matched: {agreement:.1%} of the ops agree in "
    "order and name; "
)
_AS_GOOD = _CHOSEN + "{as_good} others agree as well, "

CHOICE_SENTENCES: dict[ChoiceReason, str] = {
    ChoiceReason.ASKED_FOR: _CHOSEN + "it was asked for",
    ChoiceReason.BEST: _CHOSEN + "no other does so well",
    ChoiceReason.SAME_SEQUENCE_NUMBERS: _AS_GOOD + "but this one has the same sequence numbers",
    ChoiceReason.SAME_NUMBER: _AS_GOOD + "but this one has the same number",
    ChoiceReason.MEDIAN_LENGTH: _AS_GOOD + "of which it has the median length",
}
"""Which iterations were matched and why, with the members of `model.matched.ChosenIterations` as fields."""


def finding_sentence(code: FindingCode, details: Mapping[str, object]) -> str:
    """What was found, in words.

    Args:
        code: of the finding.
        details: the values of its sentence's fields; under `case` the `FindingCase` of another than the usual sentence.
    """
    case = details.get("case")
    template = CASE_SENTENCES[case] if isinstance(case, FindingCase) else FINDING_SENTENCES[code]
    return template.format_map({name: _words(value) for name, value in details.items()})


def reason_sentence(reason: OrphanReason) -> str:
    """Why something was not linked, in words."""
    return ORPHAN_REASONS[reason]


def _words(value: object) -> object:
    if isinstance(value, AloneReason):
        return ALONE_REASONS[value]
    return ORPHAN_REASONS[value] if isinstance(value, OrphanReason) else value
