"""How much each finding matters, and what to do about it: one table for all that readers, linker and checks find."""

from __future__ import annotations

from collections.abc import Iterable

from tracebraid.model.check import Diagnosis, Severity
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.validation.consequences import without_consequences

__all__ = ["ADVICE", "diagnose", "diagnosis_of"]

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
_CAPTURE_AGAIN = "Capture again, with tracebraid.capture or `tracebraid capture`, which write whole files"
_REPAIR = "`tracebraid check --repair` restores the parents from the nesting in the Kineto trace"
_RANK = "Name the files torch_et_<rank>.json.gz and kineto_trace_<rank>.json.gz"

_CODE = FindingCode

ADVICE: dict[FindingCode, tuple[Severity, str]] = {
    # Files
    _CODE.FOLDER_UNREADABLE: (
        _NOTE,
        "If there are traces in it, get the right to read it, or name another folder",
    ),
    _CODE.NOT_A_TRACE: (_WARNING, "Remove it from the folder, or capture it again if it should be a trace"),
    _CODE.RANK_UNREADABLE: (_ERROR, _CAPTURE_AGAIN),
    _CODE.COMPRESSION_DAMAGED: (
        _ERROR,
        f"The file was cut off or damaged in transit. Copy it again. {_CAPTURE_AGAIN}",
    ),
    _CODE.ARCHIVE_DAMAGED: (_ERROR, f"Copy the archive again. {_CAPTURE_AGAIN}"),
    _CODE.MEMBERS_LEFT_OUT: (_WARNING, "Unpack the archive, and name the folder"),
    _CODE.CACHE_UNUSED: (_NOTE, "Answers are the same without it; mend the folder, or leave --cache out"),
    _CODE.TRUNCATED: (_ERROR, f"What stood behind that byte is lost. {_CAPTURE_AGAIN}"),
    _CODE.MANIFEST_UNREADABLE: (_ERROR, "Copy it again, or remove it"),
    _CODE.BESIDE_WINDOWS: (_WARNING, "Keep one run in one folder"),
    _CODE.WINDOW_UNREADABLE: (_ERROR, _CAPTURE_AGAIN),
    _CODE.WINDOW_EMPTY: (_NOTE, "Nothing; the windows before it are whole"),
    _CODE.HEADER_UNREADABLE: (_WARNING, _CAPTURE_AGAIN),
    _CODE.EVENT_UNREADABLE: (_ERROR, f"Events are lost. {_CAPTURE_AGAIN}"),
    _CODE.NODE_UNREADABLE: (_ERROR, f"Nodes are lost. {_CAPTURE_AGAIN}"),
    _CODE.EVENT_MENDED: (_NOTE, "Nothing: the text was readable. tracebraid.capture writes it escaped"),
    _CODE.NODE_MENDED: (_NOTE, "Nothing: the text was readable. tracebraid.capture writes it escaped"),
    _CODE.TEXT_BETWEEN: (_WARNING, _CAPTURE_AGAIN),
    _CODE.EVENT_DURATION: (_WARNING, "Distrust the times of these events"),
    _CODE.EVENT_WITHOUT_TIME: (_WARNING, "These events are left out of all answers"),
    _CODE.ARGUMENT_UNFIT: (
        _WARNING,
        "Distrust what is answered from these arguments, such as bytes and links",
    ),
    _CODE.FLOW_UNREADABLE: (_NOTE, "Arrows are not needed for links"),
    _CODE.BASE_TIME: (
        _WARNING,
        "Ranks cannot be compared in time. Use a newer version of the tool that wrote it",
    ),
    _CODE.SCHEMA_UNKNOWN: (
        _WARNING,
        "Read the answers with care, and tell us of the version of torch that wrote it",
    ),
    _CODE.CATEGORY_OLD: (_NOTE, "Nothing: they mean the same"),
    _CODE.CATEGORY_UNKNOWN: (_WARNING, "Tell us which tool wrote these categories"),
    _CODE.DEVICE_WORK_UNREAD: (
        _ERROR,
        "Tell us which version of torch, and of the device's plugin, wrote the file",
    ),
    _CODE.HOST_OPS_MISSING: (_WARNING, "Profile the CPU too: activities=[ProfilerActivity.CPU, ...]"),
    _CODE.DEVICE_WORK_MISSING: (
        _WARNING,
        "Profile the device too: activities=[..., ProfilerActivity.CUDA]; a session of CUPTI counters has no kernels",
    ),
    _CODE.STEPS_CHOSEN: (_NOTE, "Pack all steps into another store for answers about the others"),
    _CODE.CHAKRA_METADATA_MISSING: (
        _ERROR,
        "Write the file again, with a message of metadata before its nodes",
    ),
    _CODE.CHAKRA_NODE_UNREADABLE: (_ERROR, "Nodes are lost. Write the file again"),
    _CODE.CHAKRA_VERSION_UNKNOWN: (_WARNING, "Read the answers with care, and tell us what wrote the file"),
    _CODE.CHAKRA_FIELDS_UNKNOWN: (
        _WARNING,
        "Read the answers with care, and tell us what wrote the file. tracebraid chakra json keeps these fields",
    ),
    _CODE.CHAKRA_VALUE_LEFT_OUT: (_WARNING, "Correct what wrote the file: no simulator runs so long"),
    _CODE.STORE_DAMAGED: (_ERROR, "Run the same tracebraid pack again with --from-scratch"),
    _CODE.STORE_UNLINKED: (
        _WARNING,
        "Times and launches are answered all the same; tracebraid check says more",
    ),
    _CODE.STORE_INCOMPLETE: (_WARNING, "Run the same tracebraid pack again: it packs what is missing"),
    _CODE.NAME_ESCAPED: (_NOTE, "Nothing: the file holds them escaped"),
    # Structure of the Execution Trace
    _CODE.DUPLICATE_ID: (
        _ERROR,
        "Forked processes wrote into one file: tracebraid's observer keeps them out",
    ),
    _CODE.ROWS_WITHOUT_NODE: (_ERROR, f"The file is damaged. {_CAPTURE_AGAIN}"),
    _CODE.PARENT_MISSING: (_WARNING, _REPAIR),
    _CODE.PARENT_NEVER_WRITTEN: (_WARNING, _REPAIR),
    _CODE.PARENT_CYCLE: (_WARNING, _REPAIR),
    _CODE.PARENTS_DIFFER: (_WARNING, _REPAIR),
    _CODE.PARENTS_UNPROVEN: (
        _NOTE,
        "Nothing: times follow the nesting, and a repair leaves these parents as they are",
    ),
    _CODE.PARENTS_ASYNCHRONOUS: (
        _NOTE,
        "Nothing: asynchronous ranges (gloo's collectives) are nobody's parent",
    ),
    _CODE.FRAME_END_LATE: (_NOTE, "Distrust the times of these Python functions; Kineto wrote their ends"),
    _CODE.EXECUTION_TRACE_UNFINISHED: (_ERROR, f"Nodes are lost: was the disk full? {_CAPTURE_AGAIN}"),
    _CODE.EXECUTION_TRACE_EMPTY: (_ERROR, f"Was the disk full? {_CAPTURE_AGAIN}"),
    _CODE.OP_UNFINISHED: (
        _NOTE,
        "Nothing for communication and other work in flight at the end of the window; end annotations of your own "
        "before the step ends",
    ),
    # Ids and links
    _CODE.NO_RECORD_FUNCTION_IDS: (
        _ERROR,
        "No Execution Trace observer ran while Kineto recorded. Start and stop both together: tracebraid.capture does",
    ),
    _CODE.TOO_OLD_FOR_IDS: (_ERROR, "torch before 2.4 writes none: capture with a newer one"),
    _CODE.MATCHED: (_NOTE, "Nothing: it says what was linked with what, since ids prove no links"),
    _CODE.AMBIGUOUS: (
        _WARNING,
        "Both hold equal iterations, not as many: mark them (record_function, or the profiler's step), or record both "
        "traces of one iteration",
    ),
    _CODE.DEPENDENCY_BACKWARD: (
        _WARNING,
        "The clocks of host and device are out of step: distrust what compares their times",
    ),
    _CODE.HARDLY_OVERLAP: (_WARNING, "Start and stop both recorders together: tracebraid.capture does"),
    _CODE.ET_WITHOUT_IDS: (_ERROR, _CAPTURE_AGAIN),
    _CODE.NO_OVERLAP: (
        _ERROR,
        "The two files are of different windows or runs. Pair those of one run and one window",
    ),
    _CODE.NOT_LINKED: (
        _ERROR,
        "Are the two files of one run? `tracebraid link` gives a reason for each orphan",
    ),
    _CODE.LAUNCH_UNKNOWN: (
        _WARNING,
        "Warm the profiler up for a step or two: it drops launches or kernels at a session's start",
    ),
    _CODE.LAUNCH_OUTSIDE: (_WARNING, "Launch inside of an operator or of a record_function range"),
    _CODE.NO_ET_PLUS: (_WARNING, "Record both traces of each rank: tracebraid.capture does"),
    # Ranks
    _CODE.NO_ET: (_ERROR, "Record both traces of each rank: tracebraid.capture does"),
    _CODE.NO_KINETO: (_ERROR, "Record both traces of each rank: tracebraid.capture does"),
    _CODE.RANK_MISSING: (
        _ERROR,
        "Did that process die, or write elsewhere? Look at its log; copy its files here",
    ),
    _CODE.RANK_UNKNOWN: (_NOTE, _RANK),
    _CODE.RANKS_CHOSEN: (_NOTE, "Leave out --ranks and --sample (ranks=, sample=) to ask all ranks"),
    _CODE.SEVERAL_PROCESSES: (_WARNING, "Run nsys inside of the launcher, once for each rank"),
    _CODE.RANK_CLAIMED_TWICE: (_WARNING, "Keep one run in one folder"),
    _CODE.ANOTHER_RUN: (
        _ERROR,
        "Pair the files of one run, or link them by alignment, as `link` does: times are then those of the other run",
    ),
    _CODE.ANOTHER_RANK: (
        _ERROR,
        "Give each rank its own Execution Trace: two of them may have changed places",
    ),
    _CODE.ANOTHER_WINDOW: (
        _WARNING,
        "Pair the files of one window: times are those of the other one, by alignment",
    ),
    _CODE.DETECTOR_FAILED: (
        _WARNING,
        "Mend or remove the package that brings it; all other detectors were asked",
    ),
    _CODE.RUNS_MIXED: (_ERROR, "Files of several runs lie in one folder. Capture into an empty one"),
    _CODE.ANOTHER_PROGRAM: (_ERROR, "Pair the two traces of one run"),
    _CODE.PAIRED_BY_NUMBER: (_NOTE, "Nothing: it says which files were taken for a pair. " + _RANK),
    _CODE.RANKS_DIFFER: (_WARNING, _RANK),
    _CODE.WORLD_DIFFERS: (_ERROR, "Files of several runs lie in one folder. Capture into an empty one"),
    _CODE.STEPS_DIFFER: (
        _WARNING,
        "Did a rank end earlier, or take fewer steps? Give all ranks the same schedule; where the code calls step(), "
        "once for each iteration on each rank",
    ),
    _CODE.CLOCKS_DIFFER: (
        _WARNING,
        "Synchronise the hosts' clocks. Answers across ranks are on clocks aligned by collectives, where ranks share "
        "some; times in the traces themselves do not compare",
    ),
    _CODE.COLLECTIVES_DISORDERED: (
        _ERROR,
        "Give all ranks of a group the same collectives in the same order: look for a condition on the rank",
    ),
    _CODE.COLLECTIVES_UNMATCHED: (
        _WARNING,
        "Is it of this run, and of this window? Capture all ranks in the same steps, with a torch that numbers "
        "collectives",
    ),
    _CODE.NO_COLLECTIVES: (
        _WARNING,
        "Was that rank recorded while it trained? Capture all ranks in the same steps",
    ),
    # The dependency graph
    _CODE.GRAPH_ARRIVALS_CLAMPED: (_NOTE, "Nothing: the clocks of hosts are not known better"),
    _CODE.GRAPH_COLLECTIVES_CONTRADICTED: (
        _WARNING,
        "Are all traces of the same run? Waiting for other ranks is not known in these collectives",
    ),
    _CODE.GRAPH_COLLECTIVES_DOUBTFUL: (
        _WARNING,
        "Capture with a torch that names groups and numbers collectives",
    ),
    _CODE.GRAPH_COLLECTIVES_INCOMPLETE: (_NOTE, "Capture all ranks in the same steps"),
    _CODE.GRAPH_EDGES_CONTRADICTED: (_NOTE, "Distrust the times of events that seem to go backwards"),
    _CODE.CHAKRA_UNORDERED: (
        _WARNING,
        "Are all traces of the same run? Look for the deadlock with `tracebraid chakra check`",
    ),
    _CODE.GRAPH_WITHOUT_NODES: (
        _WARNING,
        "Capture both traces again; times and dependencies need no Execution Trace",
    ),
    # The window
    _CODE.NO_STEPS: (
        _NOTE,
        "Capture with tracebraid, or call the profiler's step() for each iteration",
    ),
    _CODE.WARMUP_CAUGHT: (_WARNING, "Skip more steps before the window: raise skip_first or wait"),
    _CODE.WINDOW_INCOMPLETE: (
        _WARNING,
        "The loop ended inside the window: run more steps, or lower `active`",
    ),
    _CODE.WINDOW_CHOSEN: (_NOTE, "`--window N`, or `tracebraid.open(path, window=N)`, opens another one"),
    _CODE.WINDOW_LOST: (_ERROR, "See the reason, and capture again"),
    _CODE.PART_LEFT: (_WARNING, "Look at that process's log; remove the file, and capture again"),
    _CODE.NOTHING_RECORDED: (_ERROR, "Lower skip_first, wait or warmup, or run more steps"),
    _CODE.MANIFEST_UNTRUE: (_ERROR, "Files were changed or moved since the capture. Copy the whole folder"),
    _CODE.NSYS_NOT_EXPORTED: (_WARNING, "Run: nsys export --type sqlite FILE"),
    # Metrics of users
    _CODE.METRIC_FAILED: (_WARNING, "Mend the metric; the others are answered"),
    _CODE.METRIC_NOT_LOADED: (_WARNING, "Mend or remove the package that offers it; the others are answered"),
    # Exports
    _CODE.NO_CRITICAL_PATH: (_NOTE, "Nothing, if the timeline does without it"),
    _CODE.CHAKRA_WORLD_SHRUNK: (_NOTE, "Nothing, or give --missing replicate to simulate the whole world"),
    _CODE.CHAKRA_RANKS_REPLICATED: (
        _NOTE,
        "Nothing, or capture all ranks: those that are missing may do other work",
    ),
    _CODE.CHAKRA_GROUP_ASSUMED: (
        _WARNING,
        "Capture with a newer PyTorch, whose traces list the ranks of each group",
    ),
    _CODE.CHAKRA_SINGLE_RANK: (_WARNING, "Give --missing replicate, or the traces of several ranks"),
    _CODE.CHAKRA_NO_COMMUNICATION: (_WARNING, "Capture a step in which the ranks communicate, if they do"),
    _CODE.CHAKRA_COMMUNICATION_ALONE: (
        _WARNING,
        "Capture the same steps on all ranks; tracebraid analyze matched_groups says what was matched",
    ),
    _CODE.CHAKRA_SIZE_UNKNOWN: (_WARNING, "Capture with record_shapes=True"),
    _CODE.CHAKRA_SIZES_DIFFER: (_NOTE, "Nothing; simulators know one size for all ranks of a collective"),
}

_ORDER = {severity: position for position, severity in enumerate(Severity)}


def diagnose(findings: Iterable[Finding]) -> tuple[Diagnosis, ...]:
    """Each fault with its weight and advice; errors first, else in their order."""
    return tuple(
        sorted(
            map(diagnosis_of, without_consequences(findings)),
            key=lambda diagnosis: _ORDER[diagnosis.severity],
        )
    )


def diagnosis_of(finding: Finding) -> Diagnosis:
    """A finding with its weight and advice."""
    return Diagnosis(finding, *ADVICE[finding.code])
