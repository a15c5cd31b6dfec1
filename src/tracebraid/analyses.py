"""Analyses by name: `tracebraid.analyses.breakdown(job)`.

Each takes a linked trace or a job, and returns a DataFrame with documented columns: of a job the rows of all ranks,
computed in one pass. `catalog()` lists them. A name is imported when it is first used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, partial, wraps

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.analysis.catalog import all_analyses, analysis_named, analysis_names
from tracebraid.analysis.needs import lacking
from tracebraid.errors import ArgumentError
from tracebraid.model.analysis import Analysis, Answer, JobAnalysis, Need
from tracebraid.model.category import Role
from tracebraid.model.engine import Job, Questions
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP, some_steps

__all__ = ["catalog", *analysis_names()]

_MOST_THRESHOLD = 2**63 - 1
"""Times and counts are 64-bit integers."""
_MOST_NAMED = 12
"""Annotations that an error names at most."""
_PEAKS = {"peak_flops", "peak_bandwidth"}
"""Options that stand for what the table of devices does not know."""


def __getattr__(name: str) -> Callable[..., pl.DataFrame]:
    if name not in analysis_names():
        raise AttributeError(f"module 'tracebraid.analyses' has no attribute {name!r}")
    return _public(name)


def __dir__() -> list[str]:
    return sorted(__all__)


def catalog() -> tuple[Analysis, ...]:
    """Return all analyses: of each its name, its question, the table of its answer, its options, and what it needs.

    Examples:
        >>> import tracebraid
        >>> [found.question for found in tracebraid.analyses.catalog() if found.name == "launchers"]
        ["What launched the device's work?"]
    """
    return all_analyses()


@cache
def _public(name: str) -> Callable[..., pl.DataFrame]:
    """The function of an analysis, as one that takes a linked trace or a job."""
    analysis = analysis_named(name)
    of_job = isinstance(analysis, JobAnalysis)
    _, *options = inspect.signature(analysis.answer).parameters.values()
    if of_job:
        options = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    given = inspect.Signature(options)

    @wraps(analysis.answer)
    def answer(traces: LinkedTrace | Job, /, *args: object, **kwargs: object) -> pl.DataFrame:
        chosen = given.bind(*args, **kwargs).arguments
        if isinstance(analysis, JobAnalysis):
            # What links ranks is loaded for questions about a job.
            from tracebraid.api.job_answers import answer_of_job

            return answer_of_job(analysis, Job.of(traces), chosen)[0].frame
        if isinstance(traces, LinkedTrace):
            return analysis.answer_of(traces, **chosen)
        return traces.ask(partial(analysis.answer_of, **chosen))[0]

    traces = inspect.Parameter("traces", inspect.Parameter.POSITIONAL_ONLY, annotation="LinkedTrace | Job")
    answer.__signature__ = inspect.Signature([traces, *options], return_annotation="pl.DataFrame")  # type: ignore[attr-defined]
    answer.__module__ = __name__
    first = "ranks: the ranks of a job." if of_job else "linked: one rank."
    answer.__doc__ = (analysis.answer.__doc__ or "").replace(first, "traces: a linked trace, or a job.")
    return answer


def analyze(
    name: str, traces: LinkedTrace | Job, *, step: int | str | None = None, **options: object
) -> Answer:
    """Ask an analysis by its name, and learn what the traces lack for it.

    Args:
        name: the name of an analysis; `-` may stand for `_`.
        traces: a linked trace, or a job: the rows of all ranks, in one pass.
        step: only the rows of this step, by its number or whole name; None: all rows.
        options: those of the analysis.

    Raises:
        ArgumentError: there is no such analysis, option or step, or the option takes no such value; or no step is
            marked by the annotation with which the traces were opened.
        InputError: a file cannot be read.

    Examples:
        >>> import tracebraid
        >>> answer = tracebraid.analyze("kernels", tracebraid.open(tracebraid.demo_path()))
        >>> answer.frame.height, answer.is_unanswerable
        (0, True)
    """
    analysis = named(name)
    check_options(analysis, options, step)
    if step is not None and "per_step" in analysis.options:
        options["per_step"] = True
    job = Job.of(traces)
    # Steps of `torch.profiler` need not be there: traces without any are answered as a whole.
    needs_steps = step is not None or job.annotation != PROFILER_STEP
    if isinstance(analysis, JobAnalysis):
        from tracebraid.api.job_answers import answer_of_job

        beside: Questions = {_steps_of: _steps_of} if needs_steps else {}
        answer, found = answer_of_job(analysis, job, options, beside)
        steps = [of_rank[_steps_of] for of_rank in found if needs_steps]
    else:
        question = partial(_answer_of_rank, analysis, options, needs_steps)
        answers = list(job.each(question))
        steps = [of_rank.steps for of_rank in answers if of_rank.steps is not None]
        answer = Answer(
            analysis,
            pl.concat(of_rank.frame for of_rank in answers),
            {of_rank.rank: of_rank.lacks for of_rank in answers},
            {of_rank.rank: of_rank.start_ns for of_rank in answers},
        )
    if needs_steps:
        _check_steps(steps, step, job.annotation)
    if step is None:
        return answer
    return replace(answer, frame=answer.frame.filter(pl.col("step").is_in(_names_of(step, job.annotation))))


class _Steps(Struct, frozen=True):
    """Names of a rank's steps; if there is none, annotations that could mark steps."""

    names: tuple[str, ...]
    annotations: tuple[str, ...] = ()


class _OfRank(Struct, frozen=True, eq=False):
    """Answer of a rank, with its unmet needs, the start of its trace, and its steps if they are checked."""

    rank: int
    frame: pl.DataFrame
    lacks: tuple[Need, ...]
    start_ns: int
    steps: _Steps | None


def _answer_of_rank(
    analysis: Analysis, options: Mapping[str, object], needs_steps: bool, linked: LinkedTrace
) -> _OfRank:
    frame = analysis.answer_of(linked, **options)
    missing = lacking(analysis, linked)
    given = {Need.DEVICE_PEAKS} if options.keys() & _PEAKS else set()
    lacks = tuple(need for need in missing if need not in given)
    start_ns, _ = linked.timeline.span_ns or (0, 0)
    return _OfRank(linked.rank, frame, lacks, start_ns, _steps_of(linked) if needs_steps else None)


def _steps_of(linked: LinkedTrace) -> _Steps:
    names = _public("steps")(linked).get_column("step").to_list()
    if names:
        return _Steps(tuple(names))
    marks = linked.timeline.of_role(Role.ANNOTATION).get_column("name").cast(pl.String)
    return _Steps((), tuple(marks.str.replace(r"#\d+$", "").unique(maintain_order=True)))


def _check_steps(found: Sequence[_Steps], step: int | str | None, annotation: str) -> None:
    """Reject a step or an annotation that no rank has."""
    names = list(dict.fromkeys(name for steps in found for name in steps.names))
    if not names:
        others = list(dict.fromkeys(name for steps in found for name in steps.annotations))
        have = ", ".join(others[:_MOST_NAMED]) or "none"
        raise ArgumentError(f"no step is marked by {annotation}; the annotation could be: {have}")
    if step is not None and not set(_names_of(step, annotation)) & set(names):
        raise ArgumentError(f"there is no step {step}; there are: {some_steps(names)}")


def _names_of(step: int | str, annotation: str) -> list[str]:
    """Return the names that a step may have."""
    return [str(step), f"{annotation}#{step}"]


def check_options(analysis: Analysis, options: Mapping[str, object], step: int | str | None = None) -> None:
    """Reject options that an analysis does not have, values that are not of their types or out of range, and a step.

    Only the rows of an analysis with a column `step` can be those of one step.

    Whole numbers are thresholds: lengths, counts and times, none of them negative.
    """
    if step is not None and all(column.name != "step" for column in analysis.table.columns):
        raise ArgumentError(f"{analysis.name} has no rows for single steps: drop step (--step)")
    parameters = inspect.signature(analysis.answer).parameters
    for option, value in options.items():
        if option not in analysis.options:
            have = ", ".join(analysis.options) or "none"
            raise ArgumentError(f"{analysis.name} has no option {option!r}; it has: {have}")
        kinds = str(parameters[option].annotation).split(" | ")
        if not any(_fits(value, kind) for kind in kinds):
            raise ArgumentError(f"{analysis.name}: {option} is {value!r}, and takes {' or '.join(kinds)}")
        if kinds == ["int"] and isinstance(value, int) and not 0 <= value <= _MOST_THRESHOLD:
            raise ArgumentError(f"{analysis.name}: {option} is {value!r}; give 0 to {_MOST_THRESHOLD:,}")


def _fits(value: object, kind: str) -> bool:
    """Return whether a value is of a type as it is written in a signature; a whole number is a float, too."""
    if isinstance(value, bool):
        return kind == "bool"
    if kind == "float":
        return isinstance(value, int | float)
    if kind == "Iterable[str]":
        return isinstance(value, Iterable) and all(isinstance(item, str) for item in value)
    return isinstance(value, {"int": int, "str": str, "None": type(None)}.get(kind, ()))


def names() -> tuple[str, ...]:
    """The names of all analyses; none is imported."""
    return analysis_names()


def named(name: str) -> Analysis:
    """The analysis of a name; `-` may stand for `_`.

    Raises:
        ArgumentError: there is no such analysis.
    """
    wanted, known = name.replace("-", "_"), analysis_names()
    if wanted in known:
        return analysis_named(wanted)
    near = get_close_matches(wanted.lower(), known, 3)
    near += [other for other in known if wanted.lower() in other and other not in near] if wanted else []
    hint = f"did you mean {' or '.join(near)}?" if near else "tracebraid analyze --list names them"
    raise ArgumentError(f"there is no analysis {name!r}; {hint}")
