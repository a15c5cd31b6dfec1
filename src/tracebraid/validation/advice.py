"""How much each finding matters, and what to do about it: one table for all that readers, linker and checks find."""

from __future__ import annotations

from collections.abc import Iterable

from tracebraid.model.check import Diagnosis, Severity
from tracebraid.model.finding import Finding
from tracebraid.validation.consequences import without_consequences

__all__ = ["ADVICE", "diagnose", "diagnosis_of"]

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
_CAPTURE_AGAIN = "Capture again, with tracebraid.capture or `tracebraid capture`, which write whole files"
_REPAIR = "`tracebraid check --repair` restores the parents from the nesting in the Kineto trace"
_RANK = "Name the files torch_et_<rank>.json.gz and kineto_trace_<rank>.json.gz"

ADVICE: dict[str, tuple[Severity, str]] = {
    # Files
    "not-a-trace": (_WARNING, "Remove it from the folder, or capture it again if it should be a trace"),
    "rank-unreadable": (_ERROR, _CAPTURE_AGAIN),
    "gzip-damaged": (_ERROR, f"The file was cut off or damaged in transit. Copy it again. {_CAPTURE_AGAIN}"),
    "truncated": (_ERROR, f"What stood behind that byte is lost. {_CAPTURE_AGAIN}"),
    "manifest-unreadable": (_ERROR, "Copy it again, or remove it"),
    "beside-windows": (_WARNING, "Keep one run in one folder"),
    "window-unreadable": (_ERROR, _CAPTURE_AGAIN),
    "header-unreadable": (_WARNING, _CAPTURE_AGAIN),
    "event-unreadable": (_ERROR, f"Events are lost. {_CAPTURE_AGAIN}"),
    "node-unreadable": (_ERROR, f"Nodes are lost. {_CAPTURE_AGAIN}"),
    "event-mended": (_NOTE, "Nothing: the text was readable. tracebraid.capture writes it escaped"),
    "node-mended": (_NOTE, "Nothing: the text was readable. tracebraid.capture writes it escaped"),
    "text-between": (_WARNING, _CAPTURE_AGAIN),
    "event-duration": (_WARNING, "Distrust the times of these events"),
    "event-without-time": (_WARNING, "These events are left out of all answers"),
    "flow-unreadable": (_NOTE, "Arrows are not needed for links"),
    "base-time": (
        _WARNING,
        "Ranks cannot be compared in time. Use a newer version of the tool that wrote it",
    ),
    "schema-unknown": (
        _WARNING,
        "Read the answers with care, and tell us of the version of torch that wrote it",
    ),
    "category-old": (_NOTE, "Nothing: they mean the same"),
    "category-unknown": (_WARNING, "Tell us which tool wrote these categories"),
    "device-work-unread": (
        _ERROR,
        "Tell us which version of torch, and of the device's plugin, wrote the file",
    ),
    "host-ops-missing": (_WARNING, "Profile the CPU too: activities=[ProfilerActivity.CPU, ...]"),
    # Structure of the Execution Trace
    "duplicate-id": (_ERROR, "Forked processes wrote into one file: tracebraid's observer keeps them out"),
    "rows-without-node": (_ERROR, f"The file is damaged. {_CAPTURE_AGAIN}"),
    "parent-missing": (_WARNING, _REPAIR),
    "parent-never-written": (_WARNING, _REPAIR),
    "parent-cycle": (_WARNING, _REPAIR),
    "parents-differ": (_WARNING, _REPAIR),
    "parents-unproven": (
        _NOTE,
        "Nothing: times follow the nesting, and a repair leaves these parents as they are",
    ),
    "parents-asynchronous": (_NOTE, "Nothing: asynchronous ranges (gloo's collectives) are nobody's parent"),
    "frame-end-late": (_NOTE, "Distrust the times of these Python functions; Kineto wrote their ends"),
    "execution-trace-unfinished": (_ERROR, f"Nodes are lost: was the disk full? {_CAPTURE_AGAIN}"),
    "execution-trace-empty": (_ERROR, f"Was the disk full? {_CAPTURE_AGAIN}"),
    "op-unfinished": (
        _NOTE,
        "Nothing for communication and other work in flight at the end of the window; end annotations of your own "
        "before the step ends",
    ),
    # Ids and links
    "no-record-function-ids": (
        _ERROR,
        "No Execution Trace observer ran while Kineto recorded. Start and stop both together: tracebraid.capture does",
    ),
    "too-old-for-ids": (_ERROR, "torch before 2.4 writes none: capture with a newer one"),
    "matched": (_NOTE, "Nothing: it says what was linked with what, since ids prove no links"),
    "ambiguous": (
        _WARNING,
        "Both hold equal iterations, not as many: mark them (record_function, or the profiler's step), or record both "
        "traces of one iteration",
    ),
    "dependency-backward": (
        _WARNING,
        "The clocks of host and device are out of step: distrust what compares their times",
    ),
    "hardly-overlap": (_WARNING, "Start and stop both recorders together: tracebraid.capture does"),
    "et-without-ids": (_ERROR, _CAPTURE_AGAIN),
    "no-overlap": (
        _ERROR,
        "The two files are of different windows or runs. Pair those of one run and one window",
    ),
    "not-linked": (_ERROR, "Are the two files of one run? `tracebraid link` gives a reason for each orphan"),
    "launch-unknown": (
        _WARNING,
        "Warm the profiler up for a step or two: it drops launches or kernels at a session's start",
    ),
    "launch-outside": (_WARNING, "Launch inside of an operator or of a record_function range"),
    # Ranks
    "no-et": (_ERROR, "Record both traces of each rank: tracebraid.capture does"),
    "no-kineto": (_ERROR, "Record both traces of each rank: tracebraid.capture does"),
    "rank-missing": (
        _ERROR,
        "Did that process die, or write elsewhere? Look at its log; copy its files here",
    ),
    "rank-unknown": (_NOTE, _RANK),
    "several-processes": (_WARNING, "Run nsys inside of the launcher, once for each rank"),
    "rank-claimed-twice": (_WARNING, "Keep one run in one folder"),
    "another-run": (
        _ERROR,
        "Pair the files of one run, or link them by alignment, as `link` does: times are then those of the other run",
    ),
    "another-rank": (_ERROR, "Give each rank its own Execution Trace: two of them may have changed places"),
    "another-window": (
        _WARNING,
        "Pair the files of one window: times are those of the other one, by alignment",
    ),
    "runs-mixed": (_ERROR, "Files of several runs lie in one folder. Capture into an empty one"),
    "another-program": (_ERROR, "Pair the two traces of one run"),
    "paired-by-number": (_NOTE, "Nothing: it says which files were taken for a pair. " + _RANK),
    "ranks-differ": (_WARNING, _RANK),
    "world-differs": (_ERROR, "Files of several runs lie in one folder. Capture into an empty one"),
    "steps-differ": (
        _WARNING,
        "Did a rank end earlier, or take fewer steps? Give all ranks the same schedule; where the code calls step(), "
        "once for each iteration on each rank",
    ),
    "clocks-differ": (
        _WARNING,
        "Synchronise the hosts' clocks; compare ranks by steps, not by absolute time",
    ),
    # The window
    "no-steps": (
        _NOTE,
        "Capture with tracebraid, or call the profiler's step() for each iteration",
    ),
    "warmup-caught": (_WARNING, "Skip more steps before the window: raise skip_first or wait"),
    "window-incomplete": (_WARNING, "The loop ended inside the window: run more steps, or lower `active`"),
    "window-chosen": (_NOTE, "`--window N`, or `tracebraid.open(path, window=N)`, opens another one"),
    "window-lost": (_ERROR, "See the reason, and capture again"),
    "part-left": (_WARNING, "Look at that process's log; remove the file, and capture again"),
    "nothing-recorded": (_ERROR, "Lower skip_first, wait or warmup, or run more steps"),
    "manifest-untrue": (_ERROR, "Files were changed or moved since the capture. Copy the whole folder"),
    "nsys-not-exported": (_WARNING, "Run: nsys export --type sqlite FILE"),
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
    return Diagnosis(finding, *ADVICE.get(finding.code, (_WARNING, "Inspect what the finding names")))
