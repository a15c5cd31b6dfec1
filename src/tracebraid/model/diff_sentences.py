"""What cautions about a comparison say, for people."""

from __future__ import annotations

from tracebraid.model.questions.comparison import Caution, CautionCode

__all__ = ["CAUTION_SENTENCES", "caution_sentence"]

CAUTION_SENTENCES: dict[CautionCode, str] = {
    CautionCode.SAME_FILES: "both are the same file: nothing can differ",
    CautionCode.EMPTY: "{run} has no work in it: there is nothing to compare with",
    CautionCode.NO_STEPS: "{run} has no annotation {annotation}: its whole trace is a single sample, and no difference "
    "of times can be told from chance; call profiler.step() in the loop, or name another with --annotation",
    CautionCode.FEW_STEPS: "{a} and {b} steps are too few to tell a difference of times from chance; "
    "6 of each run are the least, 20 are good",
    CautionCode.RANKS_UNPAIRED: "ranks that only one run has are left out: {only_a} of a, {only_b} of b",
    CautionCode.WORLD_SIZES_DIFFER: "the runs have different numbers of ranks: {a} and {b}; what each rank computes "
    "and communicates differs by that alone",
    CautionCode.DEVICES_DIFFER: "the runs were made on different devices: {a} and {b}",
    CautionCode.VERSIONS_DIFFER: "the runs were made with different versions of {what}: {a} and {b}",
    CautionCode.PROGRAMS_DIFFER: "the runs are hardly of one program: ops with {share} of the time are in both",
    CautionCode.SHAPES_UNKNOWN: "only one run has shapes: ops are matched without them",
    CautionCode.MODULES_UNKNOWN: "only one run has modules (with_stack): ops are matched without them",
    CautionCode.PROFILER_DIFFERS: "the profiler recorded different things: {what}; in a step it wrote {a} host events "
    "in a and {b} in b, and each costs the host about 1 µs",
    CautionCode.PROFILER_COST: "the host holds up the device in {run} for {host_late} of the step, and the profiler's "
    "{events} host events of a step cost it about {share}: without the profiler both runs are faster, and differ less",
    CautionCode.PROFILER_OVERHEAD: "the profiler's own events take {share} of the step in {run}",
    CautionCode.SINGLE_STEPS: "the means differ by {mean}, typical steps by {shift}: a few steps far from the others "
    "move the means",
    CautionCode.DRIFT: "steps of {run} resemble the step before (autocorrelation {value}): they count for fewer than "
    "they are, and the interval is too narrow",
}


def caution_sentence(caution: Caution) -> str:
    """What a caution says."""
    return CAUTION_SENTENCES[caution.code].format_map(dict(caution.details))
