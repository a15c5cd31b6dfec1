"""Findings: one declaration each, with code, severity, sentence and advice."""

from __future__ import annotations

from enum import Enum


class Severity(Enum):
    """Severity of a finding."""

    ERROR = "error"
    """The traces, or a part of them, cannot be linked or cannot be trusted."""
    WARNING = "warning"
    """Answers may mislead."""
    NOTE = "note"
    """Good to know."""


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
_CAPTURE_AGAIN = "Capture again, with tracebraid.capture or `tracebraid capture`, which write whole files"
_LEFT_OUT_OF_MEANS = "Means leave these steps out (--with-doubtful counts them); distrust their own figures"
_REPAIR = "`tracebraid check --repair` restores the parents from the nesting in the Kineto trace"
_RANK = "Name the files torch_et_<rank>.json.gz and kineto_trace_<rank>.json.gz"
MATCHED_BY_ALIGNMENT = "matched by alignment, without ids: {agreement:.1%} of the smaller trace's ops, "
RANKS_SELECTED = "only {selected:,} of {ranks:,} ranks are read, as requested ({shown})"
UNKNOWN_OF_OTHERS = (
    "; collectives are matched among these only; stragglers, imbalance, clocks and sums over the world may miss the "
    "slowest rank"
)
"""Parts of sentences of cases, too."""


class FindingCode(str, Enum):
    """Code of a finding: a stable short name, which `--json` prints.

    Attributes:
        severity: its severity.
        sentence: what was found; names in braces are details of the finding.
        advice: what to do about it.
    """

    severity: Severity
    sentence: str
    advice: str

    # Files
    NOT_A_TRACE = (
        "not-a-trace",
        _WARNING,
        "skipped: {problem}",
        "Remove it from the folder, or capture it again if it should be a trace",
    )
    FOLDER_UNREADABLE = (
        "folder-unreadable",
        _NOTE,
        "skipped with its contents: {problem}",
        "If there are traces in it, get the right to read it, or name another folder",
    )
    RANK_UNREADABLE = (
        "rank-unreadable",
        _ERROR,
        "rank {rank} cannot be read: {problem}",
        _CAPTURE_AGAIN,
    )
    COMPRESSION_DAMAGED = (
        "compression-damaged",
        _ERROR,
        "the {compression} stream is truncated",
        f"The file was cut off or damaged in transit. Copy it again. {_CAPTURE_AGAIN}",
    )
    ARCHIVE_DAMAGED = (
        "archive-damaged",
        _ERROR,
        "the archive is truncated or damaged here; the members before are read",
        f"Copy the archive again. {_CAPTURE_AGAIN}",
    )
    MEMBERS_LEFT_OUT = (
        "members-left-out",
        _WARNING,
        "members of the archive are skipped",
        "Unpack the archive, and name the folder",
    )
    CACHE_UNUSED = (
        "cache-unused",
        _NOTE,
        "the cache is not used: {problem}",
        "Answers are the same without it; mend the folder, or leave --cache out",
    )
    TRUNCATED = (
        "truncated",
        _ERROR,
        "the file does not end like a trace: it is truncated, or other data follows",
        f"What stood behind that byte is lost. {_CAPTURE_AGAIN}",
    )
    MANIFEST_UNREADABLE = (
        "manifest-unreadable",
        _ERROR,
        "not a manifest ({error})",
        "Copy it again, or remove it",
    )
    BESIDE_WINDOWS = (
        "beside-windows",
        _WARNING,
        "traces lie beside the window folders",
        "Keep one run in one folder",
    )
    WINDOW_UNREADABLE = (
        "window-unreadable",
        _ERROR,
        "{problem}",
        _CAPTURE_AGAIN,
    )
    WINDOW_EMPTY = (
        "window-empty",
        _NOTE,
        "the program ended before the first step of this window was recorded",
        "Nothing; the windows before it are whole",
    )
    HEADER_UNREADABLE = (
        "header-unreadable",
        _WARNING,
        "the part outside the array is not valid JSON and was skipped",
        _CAPTURE_AGAIN,
    )
    EVENT_UNREADABLE = (
        "event-unreadable",
        _ERROR,
        "an object is not valid JSON and was skipped ({error})",
        f"Events are lost. {_CAPTURE_AGAIN}",
    )
    NODE_UNREADABLE = (
        "node-unreadable",
        _ERROR,
        "an object is not valid JSON and was skipped ({error})",
        f"Nodes are lost. {_CAPTURE_AGAIN}",
    )
    EVENT_MENDED = (
        "event-mended",
        _NOTE,
        "invalid JSON was repaired: characters without an escape, or inf and nan, which count as missing",
        "Nothing: all else was readable. tracebraid.capture writes valid JSON",
    )
    NODE_MENDED = (
        "node-mended",
        _NOTE,
        "invalid JSON was repaired: characters without an escape, or inf and nan, which count as missing",
        "Nothing: all else was readable. tracebraid.capture writes valid JSON",
    )
    TEXT_BETWEEN = (
        "text-between",
        _WARNING,
        "text outside any object was skipped",
        _CAPTURE_AGAIN,
    )
    EVENT_DURATION = (
        "event-duration",
        _WARNING,
        "an event without a valid dur (missing, negative or huge) gets a duration of 0 ns",
        "Distrust the times of these events",
    )
    EVENT_WITHOUT_TIME = (
        "event-without-time",
        _WARNING,
        "an event without a valid ts was moved to other_events",
        "These events are left out of all answers",
    )
    ARGUMENT_UNFIT = (
        "argument-unfit",
        _WARNING,
        "an argument of unexpected type, or too large, counts as missing ({keys}); extra_args has it",
        "Distrust what is answered from these arguments, such as bytes and links",
    )
    FLOW_UNREADABLE = (
        "flow-unreadable",
        _NOTE,
        "an end of a flow without a valid id or ts was moved to other_events",
        "Arrows are not needed for links",
    )
    BASE_TIME = (
        "base-time",
        _WARNING,
        "baseTimeNanoseconds is {value!r}, not a time; times are used without it",
        "Ranks cannot be compared in time. Use a newer version of the tool that wrote it",
    )
    SCHEMA_UNKNOWN = (
        "schema-unknown",
        _WARNING,
        "schema {schema!r} is unknown; its nodes were parsed like those of a known schema",
        "Read the answers with care, and tell us of the version of torch that wrote it",
    )
    EVENT_AT_ZERO = (
        "event-at-zero",
        _WARNING,
        "events at time 0, more than a day before all others, have lost their time",
        "These events are left out of all answers",
    )
    CATEGORY_OLD = (
        "category-old",
        _NOTE,
        "categories from before 2022 are read as current ones: {pairs}",
        "Nothing: they mean the same",
    )
    CATEGORY_UNKNOWN = (
        "category-unknown",
        _WARNING,
        "events of unknown categories count in no answer: {categories}",
        "Tell us which tool wrote these categories",
    )
    DEVICE_WORK_UNREAD = (
        "device-work-unread",
        _ERROR,
        "events of unknown categories look like device work, and count in no answer: {categories}",
        "Tell us which version of torch, and of the device's plugin, wrote the file",
    )
    HOST_OPS_MISSING = (
        "host-ops-missing",
        _WARNING,
        "the trace has device events but no host op: their launches are unknown, and `ops` has no answer",
        "Profile the CPU too: activities=[ProfilerActivity.CPU, ...]",
    )
    OPS_UNKNOWN = (
        "ops-unknown",
        _NOTE,
        "none of the ops is one of PyTorch's (`aten::`): what they compute, wait for and send is known by their "
        "arguments alone",
        "Nothing, where the trace is of another framework; else capture without renaming ops",
    )
    STEPS_CHOSEN = (
        "steps-chosen",
        _NOTE,
        "contains only steps {steps} of {all:,} steps and {events:,} events",
        "Pack all steps into another store for answers about the others",
    )
    CHAKRA_METADATA_MISSING = (
        "chakra-metadata-missing",
        _ERROR,
        "it begins with a node instead of metadata: simulators lose this first node",
        "Write the file again, with a message of metadata before its nodes",
    )
    """An `.et` file that begins with a node."""
    CHAKRA_NODE_UNREADABLE = (
        "chakra-node-unreadable",
        _ERROR,
        "a message is not a Chakra node, and is skipped",
        "Nodes are lost. Write the file again",
    )
    CHAKRA_VERSION_UNKNOWN = (
        "chakra-version-unknown",
        _WARNING,
        "version {version!r} is unknown; nodes are read like those of a known version",
        "Read the answers with care, and tell us what wrote the file",
    )
    CHAKRA_FIELDS_UNKNOWN = (
        "chakra-fields-unknown",
        _WARNING,
        "fields that Chakra's schema does not define are skipped: another version wrote them",
        "Read the answers with care, and tell us what wrote the file. tracebraid chakra json keeps these fields",
    )
    CHAKRA_VALUE_LEFT_OUT = (
        "chakra-value-left-out",
        _WARNING,
        "{column} of nodes exceeds a signed 64-bit integer, and is skipped",
        "Correct what wrote the file: no simulator runs so long",
    )
    """Found by `tracebraid pack --steps`."""
    STORE_DAMAGED = (
        "store-damaged",
        _ERROR,
        "{problem}",
        "Run the same tracebraid pack again with --from-scratch",
    )
    STORE_INCOMPLETE = (
        "store-incomplete",
        _WARNING,
        "ranks not packed yet, of {ranks:,}: {missing}",
        "Run the same tracebraid pack again: it packs what is missing",
    )
    STORE_UNLINKED = (
        "store-unlinked",
        _WARNING,
        "rank {rank} is packed without links to its Execution Trace: {problem}",
        "Times and launches are answered all the same; tracebraid check says more",
    )
    """Found by `tracebraid pack`."""
    NAME_ESCAPED = (
        "name-escaped",
        _NOTE,
        "names contained quotes, backslashes, control characters or invalid UTF-8; escaped",
        "Nothing: the file holds them escaped",
    )
    """Found by a capture in its own files; recorded in the manifest."""

    # Gaps, see `Gap`
    DEVICE_EVENTS_MISSING = (
        "device-events-missing",
        _WARNING,
        "lost events: many launches have no work, or far less than in steps with the same ops",
        "Profile the device too, where the process may use its profiler: activities=[..., ProfilerActivity.CUDA]; "
        "a session of CUPTI counters has no kernels",
    )
    NEVER_ENDED = (
        "never-ended",
        _ERROR,
        "communication was issued and never ended: a hang",
        "tracebraid analyze hangs on the traces of all ranks shows who did not issue it, and what each did last",
    )
    COMMUNICATION_UNSEEN = (
        "communication-unseen",
        _WARNING,
        "no communication was recognised in a rank of {world:,}, and {share:.0%} of the device's time is in kernels "
        "that nobody knows, such as {kernel}",
        "Read communication as unknown here, and not as 0; tell us which library these kernels are of",
    )
    LAUNCH_WITHOUT_WORK = (
        "launch-without-work",
        _WARNING,
        "launches whose work is not in the trace",
        _LEFT_OUT_OF_MEANS,
    )
    DURATION_OVERFLOWS = (
        "duration-overflows",
        _WARNING,
        "durations in the file that cannot be: negative, huge, missing, no number, beyond later work of the stream",
        _LEFT_OUT_OF_MEANS,
    )
    OUTLASTS_TRACE = (
        "outlasts-trace",
        _WARNING,
        "device work, or a step, far outside the recorded time span",
        _LEFT_OUT_OF_MEANS,
    )
    EVENT_DOMINATES = (
        "event-dominates",
        _WARNING,
        "a single outlier event is nearly all device time",
        _LEFT_OUT_OF_MEANS,
    )
    STREAM_OVERLAPS = (
        "stream-overlaps",
        _WARNING,
        "work that overlaps later work of its stream, which no device does",
        _LEFT_OUT_OF_MEANS,
    )

    # Structure of the Execution Trace
    DUPLICATE_ID = (
        "duplicate-id",
        _ERROR,
        "nodes have the id of another node; the first node of each id was kept",
        "Forked processes wrote into one file: tracebraid's observer keeps them out",
    )
    ROWS_WITHOUT_NODE = (
        "rows-without-node",
        _ERROR,
        "rows that belong to no node of the trace were skipped",
        f"The file is damaged. {_CAPTURE_AGAIN}",
    )
    PARENT_MISSING = (
        "parent-missing",
        _WARNING,
        "nodes refer to a parent that is missing in the trace (still open when recording stopped, or lost)",
        _REPAIR,
    )
    PARENT_NEVER_WRITTEN = (
        "parent-never-written",
        _WARNING,
        "operators still open at the stop, or that raised, were never written; their children are attached higher",
        _REPAIR,
    )
    PARENT_CYCLE = (
        "parent-cycle",
        _WARNING,
        "nodes are their own ancestors; one node of each cycle lost its parent",
        _REPAIR,
    )
    PARENTS_DIFFER = (
        "parents-differ",
        _WARNING,
        "of {linked:,} linked nodes, these have a parent other than the op that called them; times follow the op",
        _REPAIR,
    )
    PARENTS_UNPROVEN = (
        "parents-unproven",
        _NOTE,
        "of {linked:,} linked nodes, these have a parent other than the op that encloses them in time, and "
        "nothing proves "
        "which is right",
        "Nothing: times follow the nesting, and a repair leaves these parents as they are",
    )
    PARENTS_ASYNCHRONOUS = (
        "parents-asynchronous",
        _NOTE,
        "of {linked:,} linked nodes, these ran inside an open range of their thread that has no children here: it "
        "may be asynchronous",
        "Nothing: asynchronous ranges (gloo's collectives) are nobody's parent",
    )
    FRAME_END_LATE = (
        "frame-end-late",
        _NOTE,
        "Kineto ends these Python frames too late, up to {longest_ms:.3f} ms after events that prove their end; they "
        "are cut at that point; ops and annotations nest by their own times",
        "Distrust the times of these Python functions; Kineto wrote their ends",
    )
    EXECUTION_TRACE_UNFINISHED = (
        "execution-trace-unfinished",
        _ERROR,
        "the recorder did not finish this file; it ends after the last complete node",
        f"Nodes are lost: was the disk full? {_CAPTURE_AGAIN}",
    )
    EXECUTION_TRACE_EMPTY = (
        "execution-trace-empty",
        _ERROR,
        "no node was written before the recorder stopped",
        f"Was the disk full? {_CAPTURE_AGAIN}",
    )
    OP_UNFINISHED = (
        "op-unfinished",
        _NOTE,
        "operators still open when the profiler stopped: {names}",
        "Nothing: communication and other work in flight at the end of the window has no end in the trace",
    )
    # Ids and links
    NO_RECORD_FUNCTION_IDS = (
        "no-record-function-ids",
        _ERROR,
        "no host op carries a record-function id, and External id proves nothing",
        "No Execution Trace observer ran while Kineto recorded. Start and stop both together: tracebraid.capture does",
    )
    TOO_OLD_FOR_IDS = (
        "too-old-for-ids",
        _ERROR,
        "host ops have no argument `Record function id`, and External id proves nothing",
        "torch before 2.4 writes none: capture with a newer one",
    )
    MATCHED = (
        "matched",
        _NOTE,
        (MATCHED_BY_ALIGNMENT + "the same program"),
        "Nothing: it says what was linked with what, since ids prove no links",
    )
    AMBIGUOUS = (
        "ambiguous",
        _WARNING,
        "{share:.1%} of the smaller trace's ops match several, and are not linked",
        "Both hold equal iterations, not as many: mark them (record_function, or the profiler's step), or record both "
        "traces of one iteration",
    )
    DEPENDENCY_BACKWARD = (
        "dependency-backward",
        _WARNING,
        "dependencies of kind {kind} that point backward in time, and are dropped",
        "The clocks of host and device are out of step: distrust what compares their times",
    )
    HARDLY_OVERLAP = (
        "hardly-overlap",
        _WARNING,
        "the two traces hardly overlap: {ops:,} ops are in both",
        "Start and stop both recorders together: tracebraid.capture does",
    )
    ET_WITHOUT_IDS = (
        "et-without-ids",
        _ERROR,
        "all rf_ids are 0",
        _CAPTURE_AGAIN,
    )
    NO_OVERLAP = (
        "no-overlap",
        _ERROR,
        "the two traces do not overlap: record-function ids {et_ids} here, {kineto_ids} in the Kineto trace",
        "The two files are of different windows or runs. Pair those of one run and one window",
    )
    NOT_LINKED = (
        "not-linked",
        _ERROR,
        "of {ids:,} ids in both traces, these are not linked: their names differ, or several events share an id",
        "Are the two files of one run? `tracebraid link` gives a reason for each orphan",
    )
    LAUNCH_UNKNOWN = (
        "launch-unknown",
        _WARNING,
        "device events without operator, of {events:,}: {reason}",
        "Warm the profiler up for a step or two: it drops launches or kernels at a session's start",
    )
    LAUNCH_OUTSIDE = (
        "launch-outside",
        _WARNING,
        "device events without operator, of {events:,}: {reason}",
        "Launch inside of an operator or of a record_function range",
    )
    NO_ET_PLUS = (
        "no-et-plus",
        _WARNING,
        "rank {rank} has no Execution Trace, so no ET+ was written for it",
        "Record both traces of each rank: tracebraid.capture does",
    )
    """Found by `tracebraid link -o`, which writes files."""
    # Ranks
    NO_ET = (
        "no-et",
        _ERROR,
        "rank {rank} has no Execution Trace; its Kineto trace is linked on its own",
        "Record both traces of each rank: tracebraid.capture does",
    )
    NO_KINETO = (
        "no-kineto",
        _ERROR,
        "rank {rank} has an Execution Trace but no Kineto trace; skipped",
        "Record both traces of each rank: tracebraid.capture does",
    )
    RANK_MISSING = (
        "rank-missing",
        _ERROR,
        "{missing} of {world_size} ranks missing: {ranks}",
        "Did that process die, or write elsewhere? Look at its log; copy its files here",
    )
    RANK_UNKNOWN = (
        "rank-unknown",
        _NOTE,
        "neither the file nor its name states a rank; assumed to be rank 0",
        _RANK,
    )
    MERGED_RANKS = (
        "merged-ranks",
        _NOTE,
        "it holds {ranks} ranks, each with its own ids: pids that begin with {labels} are read as rank {numbers}",
        "A label such as [rank 3] states a rank; a file for each rank keeps what the headers say of it",
    )
    RANKS_ABSENT = (
        "ranks-absent",
        _NOTE,
        "{here:,} of {ranks:,} ranks of the job are here: what the others did, and what waited for them, is unknown",
        "Give the traces of all ranks",
    )
    RANKS_CHOSEN = (
        "ranks-chosen",
        _NOTE,
        (RANKS_SELECTED + UNKNOWN_OF_OTHERS),
        "Leave out --ranks and --sample (ranks=, sample=) to ask all ranks",
    )
    """The job is opened with some of its ranks, as requested."""
    SEVERAL_PROCESSES = (
        "several-processes",
        _WARNING,
        "it contains {processes} processes (pid {pids}): all are kept, each with its own lanes and "
        "correlations; record "
        "each rank separately to keep them apart",
        "Run nsys inside of the launcher, once for each rank",
    )
    RANK_CLAIMED_TWICE = (
        "rank-claimed-twice",
        _WARNING,
        "rank {rank} has {files} {kind}; this one is used, skipped: {others}",
        "Keep one run in one folder",
    )
    ANOTHER_RUN = (
        "another-run",
        _ERROR,
        "the Execution Trace is of another run than {kineto}: {differences}",
        "Pair the files of one run, or link them by alignment, as `link` does: times are then those of the other run",
    )
    ANOTHER_RANK = (
        "another-rank",
        _ERROR,
        "the Execution Trace is of another rank than {kineto}: {differences}",
        "Give each rank its own Execution Trace: two of them may have changed places",
    )
    ANOTHER_WINDOW = (
        "another-window",
        _WARNING,
        "no id of the Execution Trace is in {kineto}: it is of another window",
        "Pair the files of one window: times are those of the other one, by alignment",
    )
    RUNS_MIXED = (
        "runs-mixed",
        _ERROR,
        "rank {rank} recorded the same steps as rank {first_rank} at another time",
        "Files of several runs lie in one folder. Capture into an empty one",
    )
    DETECTOR_FAILED = (
        "detector-failed",
        _WARNING,
        "the detector {detector} is skipped: {problem}",
        "Mend or remove the package that brings it; all other detectors were asked",
    )
    """Found by `tracebraid advise`: a detector of another package."""
    ANOTHER_PROGRAM = (
        "another-program",
        _ERROR,
        "{problem}",
        "Pair the two traces of one run",
    )
    PAIRED_BY_NUMBER = (
        "paired-by-number",
        _NOTE,
        "assumed to be rank {rank}, by the number in its name and in that of {partner}, or the latter's rank",
        ("Nothing: it says which files were taken for a pair. " + _RANK),
    )
    RANKS_DIFFER = (
        "ranks-differ",
        _WARNING,
        "the Execution Trace's name says rank {et_rank}, the Kineto trace is of rank {kineto_rank}",
        _RANK,
    )
    WORLD_DIFFERS = (
        "world-differs",
        _ERROR,
        "traces state different world sizes: {sizes}",
        "Files of several runs lie in one folder. Capture into an empty one",
    )
    STEPS_DIFFER = (
        "steps-differ",
        _WARNING,
        "the ranks' windows contain different steps ({steps})",
        "Did a rank end earlier, or take fewer steps? Give all ranks the same schedule; where the code calls step(), "
        "once for each iteration on each rank",
    )
    CLOCKS_DIFFER = (
        "clocks-differ",
        _WARNING,
        "clocks differ from that of rank {reference}; offsets to add, by shared collectives: {clocks}",
        "Synchronise the hosts' clocks. Answers across ranks are on clocks aligned by collectives, where ranks share "
        "some; times in the traces themselves do not compare",
    )
    COLLECTIVES_DISORDERED = (
        "collectives-disordered",
        _ERROR,
        "rank {rank} enters {here} where ranks {others} enter {there}, number {number} in group {group}: ranks that "
        "enter collectives in different orders deadlock",
        "Give all ranks of a group the same collectives in the same order: look for a condition on the rank",
    )
    COLLECTIVES_UNMATCHED = (
        "collectives-unmatched",
        _WARNING,
        "{matched:,} of {issued:,} {what} of rank {rank} were matched with other ranks; waits and transfers of the "
        "rest are unknown",
        "Capture all ranks in the same steps, with a torch that numbers collectives, and shapes",
    )
    WINDOW_APART = (
        "window-apart",
        _WARNING,
        "rank {rank} is of another run or window",
        "Is it of this run, and of this window? Capture all ranks in the same steps",
    )
    NO_COLLECTIVES = (
        "no-collectives",
        _WARNING,
        "no communication was recognised on rank {rank}; {others} of the others have some",
        "Was that rank recorded while it trained? Capture all ranks in the same steps",
    )
    # The dependency graph
    GRAPH_ARRIVALS_CLAMPED = (
        "graph-arrivals-clamped",
        _NOTE,
        "members of collectives ended before the last one arrived, within the error of the clocks: they do not wait "
        "for it",
        "Nothing: the clocks of hosts are not known better",
    )
    GRAPH_COLLECTIVES_CONTRADICTED = (
        "graph-collectives-contradicted",
        _WARNING,
        "collectives are dropped from the dependency graph: a member ended before another had arrived; their members "
        "keep their own durations",
        "Are all traces of the same run? Waiting for other ranks is not known in these collectives",
    )
    GRAPH_COLLECTIVES_DOUBTFUL = (
        "graph-collectives-doubtful",
        _WARNING,
        "collectives are dropped from the dependency graph: their members are matched with too little confidence",
        "Capture with a torch that names groups and numbers collectives",
    )
    GRAPH_COLLECTIVES_INCOMPLETE = (
        "graph-collectives-incomplete",
        _NOTE,
        "ranks are missing from collectives, and may have arrived later: the known ranks wait for each other, and "
        "transfer times may include waits for missing ranks",
        "Capture all ranks in the same steps",
    )
    GRAPH_EDGES_CONTRADICTED = (
        "graph-edges-contradicted",
        _NOTE,
        "dependencies are dropped from the dependency graph: the waiting event was earlier than its cause",
        "Distrust the times of events that seem to go backwards",
    )
    GRAPH_WITHOUT_NODES = (
        "graph-without-nodes",
        _WARNING,
        "activities without a node of the Execution Trace: {problem}",
        "Capture both traces again; times and dependencies need no Execution Trace",
    )
    CHAKRA_UNORDERED = (
        "chakra-unordered",
        _WARNING,
        "communication nodes are not issued in one order on all ranks: they ended before an earlier one of that order "
        "began; a simulator that runs one communication of a rank at a time may hang",
        "Are all traces of the same run? Look for the deadlock with `tracebraid chakra check`",
    )
    # The window
    NO_STEPS = (
        "no-steps",
        _NOTE,
        "the trace has no ProfilerStep annotation",
        "Capture with tracebraid, or call the profiler's step() for each iteration",
    )
    STEPS_OF_TWO = (
        "steps-of-two",
        _NOTE,
        "{others} more steps are of another profiler of the program, and count as annotations; steps are {steps}",
        "Nothing; or let the program's own profiler end with its schedule",
    )
    WARMUP_CAUGHT = (
        "warmup-caught",
        _WARNING,
        "{step} took {times:.1f} times as long as the median of the steps after it",
        "Skip more steps before the window: raise skip_first or wait",
    )
    WINDOW_INCOMPLETE = (
        "window-incomplete",
        _WARNING,
        "the loop ended inside the window, which has steps {steps}",
        "Run more steps, or lower `active`",
    )
    WINDOW_CHOSEN = (
        "window-chosen",
        _NOTE,
        "the capture has {windows} windows ({names}); this is {chosen}",
        "`--window N`, or `tracebraid.open(path, window=N)`, opens another one",
    )
    PROCESS_CHOSEN = (
        "process-chosen",
        _NOTE,
        "{processes} processes of the same rank were captured; this is the first, the others are in {names}",
        "Open the folder of another one to read it",
    )
    WINDOW_LOST = (
        "window-lost",
        _ERROR,
        "the window of steps {steps} is lost: {failure}",
        "See the reason, and capture again",
    )
    PART_LEFT = (
        "part-left",
        _WARNING,
        "a process was killed while recording, and left a temporary file",
        "Look at that process's log; remove the file, and capture again",
    )
    NOTHING_RECORDED = (
        "nothing-recorded",
        _ERROR,
        "nothing was recorded in {steps} steps",
        "Lower skip_first, wait or warmup, or run more steps",
    )
    MANIFEST_UNTRUE = (
        "manifest-untrue",
        _ERROR,
        "{name} has {size_bytes} bytes, not {noted_bytes!r}",
        "Files were changed or moved since the capture. Copy the whole folder",
    )
    NSYS_NOT_EXPORTED = (
        "nsys-not-exported",
        _WARNING,
        "skipped: run `nsys export --type sqlite` on this report of Nsight Systems",
        "Run: nsys export --type sqlite FILE",
    )
    # Metrics of users
    METRIC_FAILED = (
        "metric-failed",
        _WARNING,
        "the metric {metric} failed on rank {ranks}: {problem}",
        "Mend the metric; the others are answered",
    )
    METRIC_NOT_LOADED = (
        "metric-not-loaded",
        _WARNING,
        "the metric of the entry point {entry} cannot be loaded: {problem}",
        "Mend or remove the package that offers it; the others are answered",
    )
    # Exports
    NO_CRITICAL_PATH = (
        "no-critical-path",
        _NOTE,
        "the critical path is missing: {problem}",
        "Nothing, if the timeline does without it",
    )
    CHAKRA_WORLD_SHRUNK = (
        "chakra-world-shrunk",
        _NOTE,
        "{ranks} of {world} ranks are simulated, as {missing} have no trace: groups lose these, and messages "
        "to or from "
        "them keep their measured durations",
        "Nothing, or give --missing replicate to simulate the whole world",
    )
    CHAKRA_RANKS_REPLICATED = (
        "chakra-ranks-replicated",
        _NOTE,
        "ranks {replicas} have no trace: they replicate ranks {sources}, in groups of their own",
        "Nothing, or capture all ranks: those that are missing may do other work",
    )
    CHAKRA_GROUP_ASSUMED = (
        "chakra-group-assumed",
        _WARNING,
        "the traces do not list the ranks of a process group: it is assumed to contain all {world} if all traces take "
        "part in it, else those that do",
        "Capture Execution Traces with Tracebraid's native recorder, which writes the ranks of each group",
    )
    CHAKRA_SINGLE_RANK = (
        "chakra-single-rank",
        _WARNING,
        "only rank {rank} is simulated, without communication; --missing replicate simulates the others too",
        "Give --missing replicate, or the traces of several ranks",
    )
    CHAKRA_NO_COMMUNICATION = (
        "chakra-no-communication",
        _WARNING,
        "the exported steps have no communication: the ranks are simulated independently; none was recognised in the "
        "traces, or changes removed it",
        "If the ranks communicate, capture a step in which they do, with the profiler active on all of them",
    )
    CHAKRA_COMMUNICATION_ALONE = (
        "chakra-communication-alone",
        _WARNING,
        "communication ({types}) is simulated on its own rank with its measured duration: {reason}",
        "Capture the same steps on all ranks, with Execution Traces by the native recorder, which writes the group of "
        "each collective; tracebraid analyze matched_groups says what was matched",
    )
    CHAKRA_ISSUED_EARLY = (
        "chakra-issued-early",
        _NOTE,
        "communication is issued up to {longest} early: another member ended before it arrived",
        "Nothing where broadcasts, gathers or sends overlap; else look at the clocks: tracebraid check",
    )
    CHAKRA_SIZE_UNKNOWN = (
        "chakra-size-unknown",
        _WARNING,
        "the traces do not state the size of communication: simulators get the smallest size; capture with "
        "record_shapes=True",
        "Capture with record_shapes=True",
    )
    CHAKRA_SIZES_DIFFER = (
        "chakra-sizes-differ",
        _NOTE,
        "ranks send or receive different sizes in a collective: it is simulated with the largest on all ranks",
        "Nothing; simulators know one size for all ranks of a collective",
    )

    def __new__(cls, code: str, severity: Severity, sentence: str, advice: str) -> FindingCode:
        """The member of a code, which is its value."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.severity, member.sentence, member.advice = severity, sentence, advice
        return member

    @classmethod
    def of(cls, code: str) -> FindingCode:
        """Return the member of a code.

        Raises:
            ValueError: there is no such code.
        """
        return cls(code)  # type: ignore[call-arg]

    def __str__(self) -> str:
        """The code itself, in f-strings too, on each version of Python."""
        return str(self.value)
