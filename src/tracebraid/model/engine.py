"""`Engine`: how work over many ranks runs. In this process if nothing else is asked; others are in `engine`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import polars as pl
from msgspec import Struct

from tracebraid.errors import ArgumentError, InputError
from tracebraid.model import notebook
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.gaps import Judge
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import numbers_text
from tracebraid.model.rank_files import Progress, RankFiles, RanksDone, claimed_twice, of_reading
from tracebraid.model.stage import KeptValues, Stage
from tracebraid.model.step import PROFILER_STEP

T = TypeVar("T")

RankWork: TypeAlias = Callable[[RankFiles, Progress | None], T]
"""Function that reads a rank and answers; without side effects except new files, as it may run in another process."""


class RankCost(Struct, frozen=True):
    """Estimated cost of the work on a rank, by which an engine chooses how many ranks run at once, and where.

    Args:
        peak_bytes: the most memory, above that of Python and the libraries.
        seconds: the time on one core.
    """

    peak_bytes: int
    seconds: float


@runtime_checkable
class EstimatedWork(Protocol):
    """Work, or a loader of ranks, that can estimate its cost."""

    def cost(self, files: RankFiles) -> RankCost | None:
        """Estimate the cost of a rank from its files; None if unknown."""
        ...


class LoadingWork(Struct, frozen=True, eq=False):
    """Work whose cost is that of opening ranks.

    Args:
        load: opens a rank.
    """

    load: RankWork[Any]

    def cost(self, files: RankFiles) -> RankCost | None:
        """See `EstimatedWork`."""
        return self.load.cost(files) if isinstance(self.load, EstimatedWork) else None


class Outcome(Struct, Generic[T], frozen=True, eq=False):
    """Outcome of the work on a rank: an answer or an error.

    Args:
        files: the rank's files.
        answer: the result of the work; None if it failed.
        error: the error; None if it succeeded.
    """

    files: RankFiles
    answer: T | None = None
    error: InputError | None = None

    def value(self) -> T:
        """The answer."""
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]


class Engine(Protocol):
    """Engine of work over many ranks: in this process, in a pool of processes, on a cluster.

    Order and content of the outcomes are the same with every engine.
    """

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """Yield the outcome of each rank, in the given order."""
        ...


class InProcess(Struct, frozen=True):
    """Runs the work here, rank by rank; each is done when its outcome is asked for."""

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """See `Engine`."""
        report = progress or _silent
        for number, files in enumerate(ranks):
            of_rank = partial(_report, report, number, len(ranks))
            try:
                outcome = Outcome(files, work(files, of_rank))
            except InputError as error:
                outcome = Outcome(files, error=error)
            of_rank(1.0)
            yield outcome
            del outcome


def _report(progress: Progress, done: int, ranks: int, share: float) -> None:
    """Convert the progress of a rank into that of all."""
    progress(RanksDone((done + share) / ranks, done + (share == 1.0), ranks))


def _silent(_: float) -> None:
    """Ignore progress."""


Questions: TypeAlias = Mapping[Any, Callable[[LinkedTrace], Any]]
"""Questions to a rank, by a unique hashable key."""


def answers_of(linked: LinkedTrace, questions: Questions) -> dict[Hashable, Any]:
    """Compute the answers of a rank, without references to it."""
    return dict(zip(questions, answers_in_order(linked, tuple(questions.values())), strict=True))


def answers_in_order(
    linked: LinkedTrace, questions: tuple[Callable[[LinkedTrace], Any], ...]
) -> tuple[Any, ...]:
    """Do as `answers_of`, without keys: their content, such as a function of a notebook, differs in a process to
    which it was sent.
    """
    answers = [ask(linked) for ask in questions]
    return tuple(
        linked.compacted(answer) if isinstance(answer, pl.DataFrame) else answer for answer in answers
    )


Load: TypeAlias = Callable[[RankFiles, Progress | None], LinkedTrace]
"""Opens a rank: reads its Kineto trace, and reports its progress. It may be pickled by cloudpickle."""


class _Answered(Struct, Generic[T], frozen=True, eq=False):
    """Answer of a rank, the rank that its trace states, and findings; no value if another file is of that rank."""

    rank: int
    path: str
    values: tuple[T, ...]
    findings: tuple[Finding, ...] = ()


class _Ask(LoadingWork, Generic[T], frozen=True):
    """Opens a rank and answers a question about it; run by an engine.

    A trace that states the rank of another file is skipped: files that the question writes for it would replace those
    of that rank.

    Args:
        load: opens it.
        question: the question.
        kept: ranks that are open in this process; another process opens its own.
        annotation: marks steps.
        ranks: the ranks of each Kineto trace by its name or path.
        judge: finds the gaps of ranks.
    """

    question: Callable[[LinkedTrace], T]
    kept: Mapping[int, Stage[LinkedTrace]]
    annotation: str
    ranks: Mapping[str | None, frozenset[int]]
    judge: Judge | None

    def __call__(self, files: RankFiles, progress: Progress | None) -> _Answered[T]:
        return self.answered(self.opened(files, progress))

    def opened(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        """Return the rank, opening it if necessary."""
        kept = self.kept.get(files.rank)
        if kept is not None:
            return kept()
        linked: LinkedTrace = self.load(files, of_reading(progress))
        return linked.with_annotation(self.annotation).judged_by(self.judge)

    def answered(self, linked: LinkedTrace) -> _Answered[T]:
        """Answer for a rank."""
        path, stated = linked.timeline.path, linked.rank
        if stated not in self.ranks.get(path, {stated}) and any(
            stated in ranks for ranks in self.ranks.values()
        ):
            return _Answered(stated, path, ())
        value = self.question(linked)
        return _Answered(stated, path, (value,), linked.known_findings)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Ask, (self.load, self.question, {}, self.annotation, self.ranks, self.judge)


def _with_reads(ask: _Ask[T], reads: list[bool], files: RankFiles, progress: Progress | None) -> _Answered[T]:
    """Answer for a rank, recording whether the rank was read for it."""
    linked = ask.opened(files, progress)
    try:
        return ask.answered(linked)
    finally:
        reads.append(linked.is_read)


class Unreadable(Enum):
    """Policy of a job for ranks that cannot be read, and for ranks that several files state."""

    RAISE = "raise"
    """Raise the error of the first such rank."""
    SKIP = "skip"
    """Leave the rank out, and add a finding to the job; raise only if no rank is left."""


def rank_left_out(rank: int, error: InputError) -> Finding:
    """Make the finding for an unreadable rank."""
    details = {"case": FindingCase.RANK_LEFT_OUT, "rank": rank, "problem": error.problem}
    return Finding(FindingCode.RANK_UNREADABLE, error.path, error.where, details=details)


class RankPass:
    """One pass over ranks of a job, each read once: `ask` in one or several calls, then `finish`.

    The job's policy decides about ranks that cannot be read. If they are skipped, a file that states the rank of
    another file is left to the end of the pass, and has an answer if that other file is not of the rank.
    """

    def __init__(self, job: Job, ranks: Sequence[int]) -> None:
        self.job, self.ranks = job, tuple(ranks)
        self.errors: dict[int, InputError] = {}
        """Errors of the ranks that were left out."""
        self._done = 0
        self._seen: dict[int, str] = {}
        self._conflicting: list[tuple[int, _Answered[Any]]] = []
        wanted = frozenset(ranks) if job.unreadable is Unreadable.SKIP else ()
        self._files: dict[str | None, frozenset[int]] = {}
        for files in job.files:
            if files.rank in wanted:
                self._files[files.kineto] = self._files.get(files.kineto, frozenset()) | {files.rank}

    def ask(self, ranks: Sequence[int], question: Callable[[LinkedTrace], T]) -> Iterator[tuple[int, T]]:
        """Yield the answers of some ranks, each with the rank of its files."""
        report = None if self.job.progress is None else partial(self._report, self.job.progress, len(ranks))
        for outcome in self.job._outcomes(question, ranks, report, self._files):
            yield from self._accepted(outcome)
            del outcome
        self._done += len(ranks)

    def finish(self, question: Callable[[LinkedTrace], T]) -> Iterator[tuple[int, T]]:
        """Yield the answers of files that state the rank of another file, if that file is not of the rank."""
        for rank, stated in self._conflicting:
            if stated.rank in self._seen:
                self._leave_out(rank, claimed_twice(stated.path, stated.rank))
                continue
            for outcome in self.job._outcomes(question, [rank], None, {}):
                yield from self._accepted(outcome)
        if self.ranks and len(self.errors) == len(self.ranks):
            raise next(iter(self.errors.values()))

    def all(self, question: Callable[[LinkedTrace], T]) -> Iterator[tuple[int, T]]:
        """Yield the answers of all ranks of the pass, each with the rank of its files."""
        yield from self.ask(self.ranks, question)
        yield from self.finish(question)

    def _accepted(self, outcome: Outcome[_Answered[T]]) -> Iterator[tuple[int, T]]:
        rank, error, answer = outcome.files.rank, outcome.error, outcome.answer
        if answer is not None and not answer.values:
            self._conflicting.append((rank, answer))
            return
        if answer is not None and self._seen.setdefault(answer.rank, answer.path) != answer.path:
            error = claimed_twice(answer.path, answer.rank)
        if error is not None:
            self._leave_out(rank, error)
            return
        assert answer is not None, "an outcome is an answer or an error"
        self.job.add_findings(answer.findings)
        (value,) = answer.values
        del outcome, answer
        yield rank, value

    def _leave_out(self, rank: int, error: InputError) -> None:
        self.job.leave_out({rank: error})
        self.errors[rank] = error

    def _report(self, progress: Progress, ranks: int, share: float) -> None:
        """Convert the progress of one call into that of the pass."""
        total = max(1, len(self.ranks))
        done = share.done if isinstance(share, RanksDone) else int(share * ranks)
        progress(RanksDone((self._done + share * ranks) / total, self._done + done, total))


AnswerSql: TypeAlias = Callable[..., pl.DataFrame]
"""Answers a query in SQL about a job: called with the job, the query, and options by keyword."""


def _itself(linked: LinkedTrace) -> LinkedTrace:
    return linked


@dataclass(frozen=True)
class Job:
    """Ranks of a run. `job[rank]` reads that rank and keeps it; `ask` and `each` read all, and keep none.

    Questions about the whole job cache small tables of each rank, so that the next need not read it again.

    Args:
        path: the folder or file that was opened.
        files: the files of each rank, in the order of ranks.
        load: opens one rank: reads its Kineto trace, and reports its progress.
        of_files: findings about the files.
        engine: the engine of questions over many ranks.
        unreadable: policy for ranks that cannot be read.
        progress: called with the finished share of each pass over the ranks, 0 to 1; None: no progress.
        answer_sql: function that answers SQL queries, set by `tracebraid.open`; None: not available.
        has_answers: whether ranks may have stored answers.
        annotation: the name of the annotation that marks a step.
        judge: finds the gaps of ranks, set by `tracebraid.open`; None: they are not looked for.
    """

    path: str
    files: tuple[RankFiles, ...]
    load: Load
    of_files: tuple[Finding, ...] = ()
    engine: Engine = field(default_factory=InProcess, repr=False)
    unreadable: Unreadable = Unreadable.RAISE
    progress: Progress | None = field(default=None, repr=False)
    answer_sql: AnswerSql | None = field(default=None, repr=False)
    has_answers: bool = field(default=False, repr=False)
    annotation: str = field(default=PROFILER_STEP, repr=False)
    judge: Judge | None = field(default=None, repr=False)
    _kept: dict[int, Stage[LinkedTrace]] = field(default_factory=dict, repr=False)
    _taken: dict[tuple[int, Hashable], Any] = field(default_factory=dict, repr=False)
    _found: dict[Finding, None] = field(default_factory=dict, repr=False)
    _derived: KeptValues = field(default_factory=KeptValues, repr=False)

    @classmethod
    def of(cls, traces: LinkedTrace | Job) -> Job:
        """Return traces as a job: a linked trace is a job of one rank, which shares its cache.

        Raises:
            ArgumentError: `traces` is neither.
        """
        if isinstance(traces, Job):
            return traces
        if not isinstance(traces, LinkedTrace):
            raise ArgumentError(f"{traces!r} is no job and no linked trace; give tracebraid.open(path)")
        path, opened = traces.timeline.path, Stage(lambda: traces)
        return cls(
            path,
            (RankFiles(opened().rank, path, None),),
            lambda *_: traces,
            annotation=traces.annotation,
            _kept={traces.rank: opened},
            _derived=traces._derived,
        )

    def __repr__(self) -> str:
        """Return a short description."""
        return f"Job(path={self.path!r}, ranks={len(self.ranks)}, findings={len(self.findings)})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: its files; reads none of them."""
        rows = ((files.rank, files.kineto, files.et) for files in self.files)
        facts = {"path": self.path, "ranks": len(self.ranks), "findings": len(self.findings)}
        files = notebook.rows_html(
            "Files", ("rank", "Kineto trace", "Execution Trace"), rows, len(self.files)
        )
        return notebook.shown("Job", notebook.facts_html(facts), files)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the files, and from all answers so far, each once: in the traces, between the ranks, and on
        ranks that could not be read.
        """
        return tuple(dict.fromkeys((*self.of_files, *self._found)))

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Add findings; those that are known are kept once."""
        self._found.update(dict.fromkeys(findings))

    def leave_out(self, errors: Mapping[int, InputError]) -> None:
        """Apply the policy to ranks that cannot be read: add a finding for each, or raise the first error."""
        for rank, error in errors.items():
            if self.unreadable is Unreadable.RAISE:
                raise error
            self.add_findings([rank_left_out(rank, error)])

    @property
    def ranks(self) -> list[int]:
        """The ranks that have a Kineto trace, and so can be opened."""
        return [files.rank for files in self.files if files.kineto is not None]

    def __len__(self) -> int:
        return len(self.ranks)

    def __getitem__(self, rank: int) -> LinkedTrace:
        """The linked trace of a rank.

        Raises:
            ArgumentError: there is no Kineto trace of that rank.
            InputError: its files cannot be read, or its trace states a rank that was opened before.
        """
        if rank not in self._kept:
            opened = Stage(partial(self._load, self._files_of(rank)))
            self._kept.setdefault(rank, opened)
        linked = self._kept[rank]()
        path = linked.timeline.path
        others = [stage() for other, stage in [*self._kept.items()] if other != rank and stage.is_computed]
        if any(other.rank == linked.rank and other.timeline.path != path for other in others):
            raise claimed_twice(path, linked.rank)
        return linked

    def __iter__(self) -> Iterator[LinkedTrace]:
        """The linked traces of all ranks, in turn; those not opened before are not kept.

        A loop variable holds one rank until the next is read; `each` and `ask` release it before.

        Raises:
            InputError: a file cannot be read, or two traces state the same rank; see `Unreadable`.
        """
        here = dataclasses.replace(self, engine=InProcess(), has_answers=False)
        yield from here.each(_itself)

    def ask(self, *questions: Callable[[LinkedTrace], pl.DataFrame]) -> tuple[pl.DataFrame, ...]:
        """Answer several questions in one pass: each rank is read once, and released before the next one is.

        Args:
            questions: functions of a linked trace, such as `tracebraid.analyses.breakdown`.

        Returns:
            A table for each question, with the rows of all ranks.

        Raises:
            InputError: a file cannot be read, or two traces state the same rank.

        Example::

            breakdown, kernels = job.ask(tracebraid.analyses.breakdown, tracebraid.analyses.kernels)
        """
        answers = list(self.each(lambda linked: [question(linked) for question in questions]))
        return tuple(pl.concat(tables) for tables in zip(*answers, strict=True))

    def each(self, question: Callable[[LinkedTrace], T], ranks: list[int] | None = None) -> Iterator[T]:
        """Yield the answers of all ranks, or of some, in order; see `ask`.

        Args:
            question: function of a linked trace. The job's engine may run it in another process: it must have no side
                effects, and its result must not reference the linked trace.
            ranks: the ranks; None for all.

        Raises:
            ArgumentError: there is no Kineto trace of such a rank.
            InputError: a file cannot be read, or two traces state the same rank; see `Unreadable`.
        """
        over = RankPass(self, self.ranks if ranks is None else ranks)
        for _, answer in over.all(question):
            yield answer
            del answer

    def _outcomes(
        self,
        question: Callable[[LinkedTrace], T],
        ranks: Sequence[int],
        progress: Progress | None,
        paths: Mapping[str | None, frozenset[int]],
    ) -> Iterator[Outcome[_Answered[T]]]:
        """Run a question on some ranks; see `RankPass`."""
        kept = {rank: stage for rank, stage in self._kept.items() if stage.is_computed}
        known = {entry.rank: entry for entry in self.files if entry.kineto is not None}
        files = [known[rank] if rank in known else self._files_of(rank) for rank in ranks]
        ask = _Ask(self.load, question, kept, self.annotation, paths, self.judge)
        # What is open here would be read again elsewhere.
        if all(entry.rank in kept for entry in files):
            return InProcess().outcomes(ask, files, progress)
        if self.has_answers and len(files) > 1:
            return self._probed(ask, files, progress)
        return self.engine.outcomes(ask, files, progress)

    def _probed(
        self, ask: _Ask[T], files: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[_Answered[T]]]:
        """Yield the outcomes, trying the last rank first: if its answer is stored, processes do not pay."""
        reads: list[bool] = []
        (last,) = InProcess().outcomes(partial(_with_reads, ask, reads), files[-1:], None)
        engine = self.engine if any(reads) else InProcess()
        yield from engine.outcomes(ask, files[:-1], progress)
        yield last

    def take(self, questions: Questions, once: Questions | None = None) -> Iterator[dict[Hashable, Any]]:
        """Answer several questions for all ranks, as `each`, with caching: a rank is read only for new questions.

        A rank that could not be read for a question is left out of the answers to it, also of cached ones.

        Args:
            questions: by unique key; results are cached with the job, so they should be small.
            once: questions whose answers are not cached, and may be large.

        Raises:
            InputError: a file cannot be read, or two traces state the same rank; see `Unreadable`.
        """
        known = set(self._taken)
        new = {
            key: ask for key, ask in questions.items() if any((rank, key) not in known for rank in self.ranks)
        }
        every = {**new, **(once or {})}
        over, asked = RankPass(self, self.ranks), partial(answers_in_order, questions=tuple(every.values()))
        count = 0
        for rank, values in over.all(asked) if every else ((rank, ()) for rank in self.ranks):
            answers = dict(zip(every, values, strict=True))
            self._taken.update({(rank, key): answers[key] for key in new})
            kept = {key: self._taken[rank, key] for key in questions}
            if not any(isinstance(value, InputError) for value in kept.values()):
                count += 1
                yield {**kept, **{key: answers[key] for key in once or {}}}
        self._taken.update({(rank, key): error for rank, error in over.errors.items() for key in new})
        if not count:
            raise next(value for value in self._taken.values() if isinstance(value, InputError))

    def only(self, rank: int | None) -> Job:
        """Return the job of one rank, for answers about it alone; the job itself for None.

        Raises:
            ArgumentError: there is no Kineto trace of that rank.
        """
        if rank is None:
            return self
        return dataclasses.replace(self, files=(self._files_of(rank),), _derived=KeptValues())

    def with_progress(self, begin: float, end: float) -> Job:
        """Return the same job for one of several passes, which reports its progress from `begin` to `end`."""
        report = self.progress
        if report is None:
            return self
        return dataclasses.replace(self, progress=lambda share: report(begin + share * (end - begin)))

    def sql(self, query: str, **options: Any) -> pl.DataFrame:
        """Run an SQL query over the tables of all ranks, see `tracebraid.sql`.

        Args:
            query: one `select`.
            options: those of `tracebraid.sql`.

        Raises:
            QueryError: it is invalid, or not permitted.
            InputError: a file cannot be read.
            MissingLibraryError: duckdb is not installed.

        Example::

            job.sql("select rank, name, sum(dur_ns) as ns from kernels group by all order by ns desc")
        """
        if self.answer_sql is None:
            raise ArgumentError("this job was not opened by tracebraid.open: give it to tracebraid.sql")
        return self.answer_sql(self, query, **options)

    def derived(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value derived from the answers of all ranks, computed on first use and cached.

        Args:
            key: a unique key.
            compute: computes it.
        """
        return self._derived.get(key, compute)

    def with_annotation(self, name: str) -> Job:
        """Return the same job with steps marked by another annotation; no rank is read or kept for it yet.

        Args:
            name: the name of the annotation, see `LinkedTrace.with_annotation`.
        """
        return dataclasses.replace(self, annotation=name, _kept={}, _taken={}, _derived=KeptValues())

    def check_rank(self, rank: int) -> None:
        """Check that a rank can be opened; nothing is read.

        Raises:
            ArgumentError: there is no Kineto trace of that rank.
        """
        self._files_of(rank)

    def _load(self, files: RankFiles) -> LinkedTrace:
        return self.load(files, None).with_annotation(self.annotation).judged_by(self.judge)

    def _files_of(self, rank: int) -> RankFiles:
        files = next((entry for entry in self.files if entry.rank == rank and entry.kineto is not None), None)
        if files is None:
            have = numbers_text(self.ranks)
            if any(finding.code is FindingCode.RANKS_CHOSEN for finding in self.of_files):
                raise ArgumentError(f"{self.path} is opened without rank {rank}: only with ranks {have}")
            raise ArgumentError(f"{self.path} has no Kineto trace of rank {rank}; it has ranks {have}")
        return files
