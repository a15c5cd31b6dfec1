"""`Job`: the linked traces of all ranks of a run, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import polars as pl

from tracebraid.errors import ArgumentError
from tracebraid.model import notebook
from tracebraid.model.engine import Engine, InProcess, LoadingWork, Outcome
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.kept import KeptValues
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.number_ranges import numbers_text
from tracebraid.model.rank_files import Progress, RankFiles, claimed_twice
from tracebraid.model.stage import Stage

__all__ = ["AnswerSql", "Job", "Load", "Questions", "answers_in_order", "answers_of"]

T = TypeVar("T")

Questions: TypeAlias = Mapping[Any, Callable[[LinkedTrace], Any]]
"""What is asked of a rank, by a hashable key that tells each question apart."""


def answers_of(linked: LinkedTrace, questions: Questions) -> dict[Hashable, Any]:
    """The answers of a rank, of which none holds anything of it."""
    return dict(zip(questions, answers_in_order(linked, tuple(questions.values())), strict=True))


def answers_in_order(
    linked: LinkedTrace, questions: tuple[Callable[[LinkedTrace], Any], ...]
) -> tuple[Any, ...]:
    """As `answers_of`, without keys: what they hold, such as a function of a notebook, is not the same in a process to
    which it was sent.
    """
    answers = [ask(linked) for ask in questions]
    return tuple(
        linked.compacted(answer) if isinstance(answer, pl.DataFrame) else answer for answer in answers
    )


Load: TypeAlias = Callable[[RankFiles, Progress | None], LinkedTrace]
"""Opens a rank: reads its Kineto trace, and reports its progress. It may be pickled by cloudpickle."""


@dataclass(frozen=True, eq=False)
class _Ask(LoadingWork, Generic[T]):
    """Opens a rank and asks it: the work that an engine runs.

    Args:
        load: opens it.
        question: what is asked.
        kept: ranks that are open in this process; another process opens its own.
    """

    question: Callable[[LinkedTrace], T]
    kept: Mapping[int, Stage[LinkedTrace]]

    def __call__(self, files: RankFiles, progress: Progress | None) -> T:
        return self.question(self.opened(files, progress))

    def opened(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        """The rank, as it is open here, or opened now."""
        kept = self.kept.get(files.rank)
        return kept() if kept is not None else self.load(files, progress)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Ask, (self.load, self.question, {})


def _noting_reads(ask: _Ask[T], reads: list[bool], files: RankFiles, progress: Progress | None) -> T:
    """The answer of a rank; notes whether the rank was read for it."""
    linked = ask.opened(files, progress)
    try:
        return ask.question(linked)
    finally:
        reads.append(linked.is_read)


def _with_rank(question: Callable[[LinkedTrace], T], linked: LinkedTrace) -> tuple[int, str, T]:
    """The answer of a rank, with the rank that its trace states, and the trace."""
    return linked.rank, linked.timeline.path, question(linked)


AnswerSql: TypeAlias = Callable[..., pl.DataFrame]
"""Answers a query in SQL about a job: called with the job, the query, and options by keyword."""


@dataclass(frozen=True)
class Job:
    """A run's ranks. `job[rank]` reads that rank and keeps it; `ask` and `each` read all, and keep none.

    Questions about the whole job keep small tables of each rank, so that the next one need not read it again.

    Args:
        path: the folder or file that was opened.
        files: the files of each rank, in the order of ranks.
        load: opens one rank: reads its Kineto trace, and reports its progress.
        findings: what was noticed about the files.
        engine: how questions to many ranks run.
        answer_sql: answers queries; None: only functions do. `tracebraid.open` gives one.
        has_answers: whether ranks may know answers without being read.
    """

    path: str
    files: tuple[RankFiles, ...]
    load: Load
    findings: tuple[Finding, ...] = ()
    engine: Engine = field(default_factory=InProcess, repr=False)
    answer_sql: AnswerSql | None = field(default=None, repr=False)
    has_answers: bool = field(default=False, repr=False)
    _kept: dict[int, Stage[LinkedTrace]] = field(default_factory=dict, repr=False)
    _taken: dict[tuple[int, Hashable], Any] = field(default_factory=dict, repr=False)

    _derived: KeptValues = field(default_factory=KeptValues, repr=False)

    def __repr__(self) -> str:
        """What it is, in brief."""
        return f"Job(path={self.path!r}, ranks={len(self.ranks)}, findings={len(self.findings)})"

    def _repr_html_(self) -> str:
        """What it is, for a notebook: its files; reads none of them."""
        rows = ((files.rank, files.kineto, files.et) for files in self.files)
        facts = {"path": self.path, "ranks": len(self.ranks), "findings": len(self.findings)}
        files = notebook.rows_html(
            "Files", ("rank", "Kineto trace", "Execution Trace"), rows, len(self.files)
        )
        return notebook.shown("Job", notebook.facts_html(facts), files)

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
            InputError: its files cannot be read, or its trace says that it is of a rank that was opened before.
        """
        if rank not in self._kept:
            opened = Stage(partial(self.load, self._files_of(rank), None))
            self._kept.setdefault(rank, opened)
        linked = self._kept[rank]()
        path = linked.timeline.path
        others = [stage() for other, stage in [*self._kept.items()] if other != rank and stage.is_computed]
        if any(other.rank == linked.rank and other.timeline.path != path for other in others):
            raise claimed_twice(path, linked.rank)
        return linked

    def __iter__(self) -> Iterator[LinkedTrace]:
        """The linked traces of all ranks, one after the other; those not opened before are not kept.

        A loop's variable holds one rank until the next one is read; `each` and `ask` release it before.

        Raises:
            InputError: a file cannot be read, or two traces say that they are of one rank.
        """
        seen: dict[int, str] = {}
        for rank in self.ranks:
            linked = self._linked(rank)
            path = linked.timeline.path
            if seen.setdefault(linked.rank, path) != path:
                raise claimed_twice(path, linked.rank)
            yield linked

    def ask(self, *questions: Callable[[LinkedTrace], pl.DataFrame]) -> tuple[pl.DataFrame, ...]:
        """Answer several questions in one pass: each rank is read once, and released before the next one is.

        Args:
            questions: such as `tracebraid.breakdown` or `lambda linked: tracebraid.ops(linked, per_step=True)`.

        Returns:
            A table for each question, with the rows of all ranks.

        Raises:
            InputError: a file cannot be read, or two traces say that they are of one rank.

        Example::

            breakdown, kernels = job.ask(tracebraid.breakdown, tracebraid.kernels)
        """
        answers = list(self.each(lambda linked: [question(linked) for question in questions]))
        return tuple(pl.concat(tables) for tables in zip(*answers, strict=True))

    def each(
        self,
        question: Callable[[LinkedTrace], T],
        ranks: list[int] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[T]:
        """The answers of all ranks, or of some, in their order; see `ask`.

        Args:
            question: is asked of each linked trace. The job's engine may run it in another process: it has no effect
                but what it returns, which does not hold the linked trace.
            ranks: the ranks; None for all.
            progress: is called with the share of all these ranks that is done, 0 to 1.

        Raises:
            ArgumentError: there is no Kineto trace of such a rank.
            InputError: a file cannot be read, or two traces say that they are of one rank.
        """
        seen: dict[int, str] = {}
        for outcome in self.outcomes(partial(_with_rank, question), ranks, progress):
            rank, path, answer = outcome.value()
            if seen.setdefault(rank, path) != path:
                raise claimed_twice(path, rank)
            yield answer

    def outcomes(
        self,
        question: Callable[[LinkedTrace], T],
        ranks: list[int] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Outcome[T]]:
        """As `each`, with the error of each rank whose files cannot be read, instead of an exception.

        Raises:
            ArgumentError: there is no Kineto trace of such a rank.
        """
        kept = {rank: stage for rank, stage in self._kept.items() if stage.is_computed}
        known = {entry.rank: entry for entry in self.files if entry.kineto is not None}
        wanted = self.ranks if ranks is None else ranks
        files = [known[rank] if rank in known else self._files_of(rank) for rank in wanted]
        ask = _Ask(self.load, question, kept)
        # What is open here would be read again elsewhere.
        if all(entry.rank in kept for entry in files):
            return InProcess().outcomes(ask, files, progress)
        if self.has_answers and len(files) > 1:
            return self._probed(ask, files, progress)
        return self.engine.outcomes(ask, files, progress)

    def _probed(
        self, ask: _Ask[T], files: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """The outcomes, the last rank asked first: where its answer was stored, no other process is worth its start."""
        reads: list[bool] = []
        (last,) = InProcess().outcomes(partial(_noting_reads, ask, reads), files[-1:], None)
        engine = self.engine if any(reads) else InProcess()
        yield from engine.outcomes(ask, files[:-1], progress)
        yield last

    def take(
        self,
        questions: Questions,
        progress: Progress | None = None,
        once: Questions | None = None,
    ) -> Iterator[dict[Hashable, Any]]:
        """The answers of all ranks to several questions, as `each`, but kept: a rank is read only for what is new.

        Args:
            questions: each by a key that tells it apart; what they return is kept with the job, so it should be small.
            progress: as in `each`.
            once: questions whose answers are not kept, so that they may be large.

        Raises:
            InputError: a file cannot be read, or two traces say that they are of one rank.
        """
        known = set(self._taken)
        new = {
            key: ask for key, ask in questions.items() if any((rank, key) not in known for rank in self.ranks)
        }
        if not new and not once:
            for rank in self.ranks:
                yield {key: self._taken[rank, key] for key in questions}
            return
        every = {**new, **(once or {})}
        asked = partial(answers_in_order, questions=tuple(every.values()))
        for rank, values in zip(self.ranks, self.each(asked, progress=progress), strict=True):
            answers = dict(zip(every, values, strict=True))
            self._taken.update({(rank, key): answers[key] for key in new})
            kept = {key: self._taken[rank, key] for key in questions}
            yield {**kept, **{key: answers[key] for key in once or {}}}

    def sql(self, query: str, **options: Any) -> pl.DataFrame:
        """The answer of a query in SQL over the tables of all ranks, see `tracebraid.sql`.

        Args:
            query: one `select`.
            options: those of `tracebraid.sql`.

        Raises:
            QueryError: it is wrong, or asks for what it may not have.
            InputError: a file cannot be read.
            MissingLibraryError: duckdb is not installed.

        Example::

            job.sql("select rank, name, sum(dur_ns) as ns from kernels group by all order by ns desc")
        """
        if self.answer_sql is None:
            raise ArgumentError("this job was not opened by tracebraid.open: give it to tracebraid.sql")
        return self.answer_sql(self, query, **options)

    def derived(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What is made of the answers of all ranks, computed when it is first asked for, and kept.

        Args:
            key: tells it apart from all else.
            compute: computes it.
        """
        return self._derived.get(key, compute)

    def check_rank(self, rank: int) -> None:
        """Check that a rank can be opened; nothing is read.

        Raises:
            ArgumentError: there is no Kineto trace of that rank.
        """
        self._files_of(rank)

    def _linked(self, rank: int) -> LinkedTrace:
        kept = self._kept.get(rank)
        return kept() if kept is not None and kept.is_computed else self.load(self._files_of(rank), None)

    def _files_of(self, rank: int) -> RankFiles:
        files = next((entry for entry in self.files if entry.rank == rank and entry.kineto is not None), None)
        if files is None:
            have = numbers_text(self.ranks)
            if any(finding.code is FindingCode.RANKS_CHOSEN for finding in self.findings):
                raise ArgumentError(f"{self.path} is opened without rank {rank}: only with ranks {have}")
            raise ArgumentError(f"{self.path} has no Kineto trace of rank {rank}; it has ranks {have}")
        return files
