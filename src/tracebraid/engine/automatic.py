"""`Automatic`: the engine that uses the process pool where that takes less time than this process alone."""

from __future__ import annotations

import heapq
import os
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from tracebraid import clock
from tracebraid.engine.workers import Advanced, Event, Failed, Finished, Lost, Raised, Workers
from tracebraid.errors import LostWorkerError
from tracebraid.model.engine import Engine, EstimatedWork, InProcess, Outcome, RankCost, RankWork
from tracebraid.model.rank_files import Progress, RankFiles, RanksDone

TRIES = 3
"""Attempts at a rank if its worker is lost: it is retried twice."""

_AHEAD_PER_WORKER = 4
"""Finished ranks that wait for a slower one before them, for each worker: enough that a rank of four times the usual
time stops no worker, and few enough that their answers stay small beside what a worker holds."""


class Limits(Struct, frozen=True):
    """Limits of work in flight.

    Args:
        budget_bytes: total memory of ranks in flight; a single rank runs even if it needs more.
        most: the number of ranks in flight, such as the cores.
        ahead: how many ranks beyond the next outcome are begun; None: some for each of `most`.
    """

    budget_bytes: int
    most: int
    ahead: int | None = None

    @property
    def window(self) -> int:
        """Return how many ranks from the next outcome on are begun."""
        return max(1, _AHEAD_PER_WORKER * self.most if self.ahead is None else self.ahead)


def scheduled(
    ranks: Sequence[RankFiles],
    peaks_bytes: Sequence[int],
    workers: Workers,
    limits: Limits,
    progress: Progress | None = None,
) -> Generator[Outcome[Any], None, None]:
    """The outcome of each rank, in the order in which they are given, while later ranks run ahead.

    An error that is no `InputError` is raised when its rank's outcome is due, as if the ranks ran in turn;
    ranks after it are not begun. The workers are closed however the run ends, also where the iterator is dropped.
    """
    run = _Run(ranks, peaks_bytes, limits, progress)
    try:
        while run.next_number < len(ranks):
            while (number := run.startable()) is not None:
                workers.submit(number, ranks[number])
            if run.has_next:
                yield run.pop_outcome()
            else:
                for event in workers.wait():
                    run.note(event)
    finally:
        workers.close()


class _Run(Struct):
    """State of a run: waiting ranks, ranks in flight, and finished ranks not yet consumed."""

    ranks: Sequence[RankFiles]
    peaks_bytes: Sequence[int]
    limits: Limits
    progress: Progress | None
    next_number: int = 0
    waiting: list[int] = field(default_factory=list)
    shares: dict[int, float] = field(default_factory=dict)
    """Progress of each rank in flight."""
    finished: dict[int, Outcome[Any] | BaseException] = field(default_factory=dict)
    losses: dict[int, int] = field(default_factory=dict)
    stop: int = 0
    """Rank from which no rank is started."""

    def __post_init__(self) -> None:
        self.waiting = list(range(len(self.ranks)))
        self.stop = len(self.ranks)

    @property
    def has_next(self) -> bool:
        return self.next_number in self.finished

    def startable(self) -> int | None:
        """Take the next rank that may begin now; None if none may.

        Always the first waiting rank, never a later smaller one: a large rank would starve.
        """
        if not self.waiting or len(self.shares) >= self.limits.most:
            return None
        number = self.waiting[0]
        if number >= min(self.stop, self.next_number + self.limits.window):
            return None
        held = sum(map(self._peak_bytes, self.shares))
        if self.shares and held + self._peak_bytes(number) > self.limits.budget_bytes:
            return None
        self.shares[number] = 0.0
        return heapq.heappop(self.waiting)

    def _peak_bytes(self, number: int) -> int:
        """Return the expected memory of a rank, doubled after each loss, as most losses are out of memory."""
        return self.peaks_bytes[number] << self.losses.get(number, 0)

    def note(self, event: Event) -> None:
        """Process an event of a rank in flight."""
        number = event.number
        if number not in self.shares:
            return
        if isinstance(event, Advanced):
            self.shares[number] = max(self.shares[number], min(1.0, event.share))
        else:
            del self.shares[number]
        if isinstance(event, Finished):
            self.finished[number] = Outcome(self.ranks[number], event.answer)
        elif isinstance(event, Failed):
            self.finished[number] = Outcome(self.ranks[number], error=event.error)
        elif isinstance(event, Raised):
            self.finished[number] = event.error
            self.stop = min(self.stop, number)
        elif isinstance(event, Lost):
            self._record_loss(event)
        self._report()

    def _record_loss(self, event: Lost) -> None:
        losses = self.losses[event.number] = self.losses.get(event.number, 0) + 1
        if losses < TRIES:
            heapq.heappush(self.waiting, event.number)
            return
        files = self.ranks[event.number]
        error = LostWorkerError.of(files.kineto or files.et or f"rank {files.rank}", event.why, losses)
        self.finished[event.number] = Outcome(files, error=error)

    def pop_outcome(self) -> Outcome[Any]:
        """The next outcome."""
        found = self.finished.pop(self.next_number)
        if isinstance(found, BaseException):
            raise found
        self.next_number += 1
        return found

    def _report(self) -> None:
        if self.progress is not None:
            done, ranks = self.next_number + len(self.finished), len(self.ranks)
            self.progress(RanksDone((done + sum(self.shares.values())) / ranks, done, ranks))


_UNLIMITED_BYTES = 1 << 60
"""Limit above which there is none: version 1 of control groups writes the largest page-aligned int64."""

_CONTROL_GROUPS = (
    ("", "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")),
    (
        "memory",
        "sys/fs/cgroup/memory",
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ),
)
"""Versions 2 and 1: controller, mount point, and files: limit, usage, and cache in `memory.stat`."""

_ROOT = Path("/")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_bytes(root: Path = _ROOT) -> int:
    """The memory that may still be taken before the machine or a control group around this process runs out of it.

    Page cache counts as free: the kernel reclaims it first. If unknown, there is no limit.
    """
    found = [_UNLIMITED_BYTES]
    meminfo = _numbers(root / "proc/meminfo")
    if "MemAvailable:" in meminfo:
        found.append(meminfo["MemAvailable:"] * 1024)
    for controller, folder, names in _CONTROL_GROUPS:
        found += [_free_of(group, *names) for group in _groups(root, controller, root / folder)]
    return max(0, min(found))


def _groups(root: Path, controller: str, mounted: Path) -> list[Path]:
    """The folders of the control group of this process, and of those around it.

    Within a container the mounted root is the container's own group, whatever path the host knows it by.
    """
    names = [line.split(":", 2) for line in _text(root / "proc/self/cgroup").splitlines()]
    paths = [name[2] for name in names if len(name) == 3 and controller in name[1].split(",")]
    own = Path(paths[0].lstrip("/")) if paths else Path()
    return [mounted / folder for folder in (own, *own.parents)]


def _free_of(group: Path, limit: str, usage: str, cache: str) -> int:
    """Return the memory that a control group still allows; unlimited if it has no limit."""
    allowed, used = _text(group / limit).strip(), _text(group / usage).strip()
    if not allowed.isdecimal() or not used.isdecimal() or int(allowed) >= _UNLIMITED_BYTES:
        return _UNLIMITED_BYTES
    return int(allowed) - int(used) + _numbers(group / "memory.stat").get(cache, 0)


def _numbers(path: Path) -> dict[str, int]:
    """A file of lines that are a name and a number."""
    words = [line.split() for line in _text(path).splitlines()]
    return {line[0]: int(line[1]) for line in words if len(line) > 1 and line[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


_WORKER_BYTES = 150 << 20
"""Memory of an idle worker: Python and the libraries; see docs/large_jobs.md."""

_UNKNOWN = RankCost(peak_bytes=1 << 30, seconds=4.0)
"""Assumed cost of a rank with unknown files: that of 100 MB of JSON."""

_LEFT_FREE = 0.1
"""Share of the available memory reserved for answers and other programs."""


class Share(Struct, frozen=True):
    """Number of workers, and the resources of each.

    Args:
        workers: number of concurrent workers.
        threads: threads of each.
        budget_bytes: total memory of all ranks in flight.
    """

    workers: int
    threads: int
    budget_bytes: int

    @property
    def limits(self) -> Limits:
        """The limits of a run."""
        return Limits(self.budget_bytes, self.workers)


def costs_of(work: RankWork[object], ranks: Sequence[RankFiles]) -> list[RankCost]:
    """Estimate the cost of each rank in a worker from its files."""
    known = [work.cost(files) if isinstance(work, EstimatedWork) else None for files in ranks]
    costs = [_UNKNOWN if cost is None else cost for cost in known]
    return [RankCost(_WORKER_BYTES + cost.peak_bytes, cost.seconds) for cost in costs]


def share_of(peaks_bytes: Sequence[int], most: int | None = None) -> Share:
    """Choose the number of workers: the cores, limited by the ranks and by the memory for the smallest."""
    budget_bytes = int(available_bytes() * (1 - _LEFT_FREE))
    fitting, held_bytes = 0, 0
    for peak in sorted(peaks_bytes):
        held_bytes += peak
        fitting += held_bytes <= budget_bytes
    workers = max(1, min(most or cores(), fitting))
    return Share(workers, max(1, cores() // workers), budget_bytes)


T = TypeVar("T")

_WORTH_S = 2.5
"""Minimum work for the pool: a worker needs a second of a core to load its libraries."""
_TRIED_S = 0.5
"""Estimated time of the ranks that are tried in this process first: a store may have their answers."""


class Automatic(Struct, frozen=True):
    """Engine that uses the process pool for several ranks with enough work, and this process otherwise.

    The first small ranks run here, and their time predicts that of the others. A question that cannot be
    sent to another process runs in this one.
    """

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """See `Engine`."""
        costs = costs_of(work, ranks)
        if not _pool_pays(sum(cost.seconds for cost in costs), costs):
            return InProcess().outcomes(work, ranks, progress)
        few = _tried(costs)
        if few:
            return _after_few(work, ranks, progress, few)
        return (_pool_for(work) or InProcess()).outcomes(work, ranks, progress)


def _pool_for(work: RankWork[T]) -> Engine | None:
    """The process pool, which many runs do not load; None where the work cannot be sent to another process."""
    from tracebraid.engine.pickling import can_be_sent
    from tracebraid.engine.pool import ProcessPool

    return ProcessPool() if can_be_sent(work) else None


def _pool_pays(takes_s: float, costs: Sequence[RankCost]) -> bool:
    if len(costs) < 2 or cores() < 2 or takes_s <= _WORTH_S:
        return False
    return share_of([cost.peak_bytes for cost in costs]).workers > 1


def _tried(costs: Sequence[RankCost]) -> int:
    """Return the number of ranks to try here; 0: they are too large for that."""
    sums = accumulate(cost.seconds for cost in costs)
    few = sum(1 for _ in takewhile(lambda seconds: seconds <= _TRIED_S, sums))
    return few if few > 1 else 0


def _after_few(
    work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None, few: int
) -> Iterator[Outcome[T]]:
    """Run some ranks here, and the others where it is faster, judging by the first."""
    here = InProcess().outcomes(work, ranks, progress)
    took_s = []
    for _ in range(few):
        begin_s = clock.now_s()
        outcome = next(here)
        took_s.append(clock.now_s() - begin_s)
        yield outcome
        del outcome
    rest = ranks[few:]
    # The first rank loads what all of them need.
    rank_s = sum(took_s[1:]) / (few - 1)
    costs = [replace(cost, seconds=rank_s) for cost in costs_of(work, rest)]
    pool = _pool_for(work) if _pool_pays(rank_s * len(rest), costs) else None
    if pool is not None:
        update = None if progress is None else partial(_of_rest, progress, few, len(ranks))
        yield from pool.outcomes(work, rest, update)
    else:
        yield from here


def _of_rest(progress: Progress, few: int, ranks: int, share: float) -> None:
    """Convert the progress of the later ranks into that of all."""
    done = share.done if isinstance(share, RanksDone) else 0
    progress(RanksDone((few + share * (ranks - few)) / ranks, few + done, ranks))
