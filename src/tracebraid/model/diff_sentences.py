"""Sentences for cautions about a comparison."""

from __future__ import annotations

from tracebraid.model.questions import Caution, CautionCode

CAUTION_SENTENCES: dict[CautionCode, str] = {
    CautionCode.SAME_FILES: "both are the same file",
    CautionCode.EMPTY: "{run} contains no work to compare",
    CautionCode.NO_STEPS: "{run} has no annotation {annotation}: its whole trace is a single sample, so no difference "
    "of times can be told from chance; call profiler.step() in the loop, or name another with --annotation",
    CautionCode.DOUBTFUL_STEPS: "all steps of {run} are warm-up or doubtful, and count for want of others: the gate "
    "does not judge them; see tracebraid analyze validity, and record more steps",
    CautionCode.STEPS_LEFT_OUT: "steps of {run} that are not counted, {reason}: {steps}",
    CautionCode.OTHER_STEPS: "{run} and {other} have no step in common ({steps}; {other_steps}): a program may run "
    "faster or slower later; record the same steps",
    CautionCode.FEW_CAPTURES: "{a} and {b} captures are too few to tell a difference of the programs from that of "
    "their runs: record {least} or more of each",
    CautionCode.FEW_STEPS: "{a} and {b} steps are too few to tell a difference of times from chance; "
    "6 of each run are the least, 20 are good: record more, such as by tracebraid capture --active 20",
    CautionCode.RANKS_UNPAIRED: "ranks in only one run are skipped: {only_a} of a, {only_b} of b",
    CautionCode.WORLD_SIZES_DIFFER: "the runs have different numbers of ranks: {a} and {b}, which alone "
    "changes the work "
    "and communication of each rank",
    CautionCode.DEVICES_DIFFER: "the runs were made on different devices: {a} and {b}",
    CautionCode.VERSIONS_DIFFER: "the runs were made with different versions of {what}: {a} and {b}",
    CautionCode.PROGRAMS_DIFFER: "the runs are of different programs: only {share} of the time is in ops of both",
    CautionCode.SHAPES_UNKNOWN: "only one run has shapes: ops are matched without them",
    CautionCode.MODULES_UNKNOWN: "only one run has modules (with_stack): ops are matched without them",
    CautionCode.PROFILER_DIFFERS: "the profiler recorded different data: {what}; in a step it wrote {a} host events "
    "in a and {b} in b, and each costs the host about 1 µs",
    CautionCode.PROFILER_COST: "the host holds up the device in {run} for {host_late} of the step, and the profiler's "
    "{events} host events of a step cost about {share}: without the profiler both runs are faster, and differ less",
    CautionCode.PROFILER_OVERHEAD: "the profiler's own events take {share} of the step in {run}",
    CautionCode.SINGLE_STEPS: "the means differ by {mean}, typical steps by {shift}: a few outliers "
    "move the means",
    CautionCode.DRIFT: "successive steps are correlated (autocorrelation {a} in a, {b} in b): {steps} steps are worth "
    "about {worth} independent ones, which the significance accounts for; record more, after more warm-up",
}


def caution_sentence(caution: Caution) -> str:
    """Return the sentence of a caution."""
    return CAUTION_SENTENCES[caution.code].format_map(dict(caution.details))
