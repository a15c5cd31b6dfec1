"""`ProcessPool`: the engine that works on several ranks at once, each in a process of its own."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec import Struct, field

from tracebraid import clock
from tracebraid.child_process.worker import Parent, Worker, close_all, readable, signal_name
from tracebraid.engine.automatic import costs_of, scheduled, share_of
from tracebraid.engine.pickling import event_bytes, event_of, received_work, run_rank, work_bytes
from tracebraid.engine.workers import Advanced, Event, Lost
from tracebraid.errors import EngineError
from tracebraid.model.engine import InProcess, Outcome, RankWork
from tracebraid.model.rank_files import Progress, RankFiles

T = TypeVar("T")

_SERVE = "tracebraid.engine.pool:serve"
_READY = b""
"""The first reply of a worker: it has started."""
_PROGRESS_EVERY_S = 0.1
"""Minimum interval of progress messages: a bar shows ten states a second."""
_INSTEAD = "use the engine in-process"


class ProcessPool(Struct, frozen=True):
    """Engine that runs as many ranks at once as memory and cores allow. Its workers end with the run.

    Args:
        workers: how many there are at most; None: as many as there are cores.
    """

    workers: int | None = None

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """See `Engine`. A single rank runs in this process, which may use all cores."""
        if len(ranks) < 2:
            return InProcess().outcomes(work, ranks, progress)
        peaks_bytes = [cost.peak_bytes for cost in costs_of(work, ranks)]
        share = share_of(peaks_bytes, self.workers)
        data = work_bytes(work)
        return scheduled(ranks, peaks_bytes, WorkerProcesses(data, share.threads), share.limits, progress)


class WorkerProcesses(Struct):
    """Worker processes, each with one rank at a time, as `Workers`; one is started when no other is free.

    Args:
        work: the work on a rank, as `work_bytes` has it; the first message to each worker.
        threads: how many threads each may compute with.
    """

    work: bytes
    threads: int
    idle: list[Worker] = field(default_factory=list)
    busy: dict[int, Worker] = field(default_factory=dict)
    """Workers by rank number."""
    started: set[Worker] = field(default_factory=set)
    """Those that have said so."""
    events: list[Event] = field(default_factory=list)
    waiting: list[tuple[int, RankFiles]] = field(default_factory=list)
    """Ranks for which no process could be started."""

    def submit(self, number: int, files: RankFiles) -> None:
        """See `Workers`. If no more processes can be started, the rank waits for an existing one."""
        worker = self._idle_worker()
        first = () if worker is not None else (self.work,)
        try:
            worker = worker or _started(self.threads)
        except EngineError:
            if not self.busy:
                raise
            self.waiting.append((number, files))
            return
        self.busy[number] = worker
        try:
            for message in (*first, pickle.dumps((number, files))):
                worker.send(message)
        except OSError:
            self._record_end(number)

    def wait(self) -> Sequence[Event]:
        """See `Workers`."""
        while not self.events:
            ready = readable(list(self.busy.values()))
            for number in [number for number, worker in self.busy.items() if worker in ready]:
                self._receive(number)
        events, self.events = self.events, []
        return events

    def close(self) -> None:
        """See `Workers`."""
        idle, busy = self.idle, list(self.busy.values())
        self.idle, self.busy = [], {}
        close_all(idle, busy)

    def _idle_worker(self) -> Worker | None:
        """A worker without work; those that ended meanwhile are dropped."""
        while self.idle:
            worker = self.idle.pop()
            if worker.is_alive():
                return worker
            worker.close()
        return None

    def _receive(self, number: int) -> None:
        """Process a reply of the worker that works on a rank."""
        data = self.busy[number].receive()
        if data is None:
            self._record_end(number)
        elif data == _READY:
            self.started.add(self.busy[number])
        else:
            event = event_of(data)
            self.events.append(event)
            if not isinstance(event, Advanced):
                self.idle.append(self.busy.pop(number))
                self._submit_waiting()

    def _record_end(self, number: int) -> None:
        worker = self.busy.pop(number)
        code = worker.ended()
        if code >= 0 and worker not in self.started:
            problem = f"a worker process ended with exit code {code} before it had started"
            raise EngineError(f"{problem}; {_INSTEAD}, or see its output above")
        why = (
            f"killed by signal {-code} ({signal_name(-code)})" if code < 0 else f"gone, with exit code {code}"
        )
        self.events.append(Lost(number, f"its worker was {why}"))
        self._submit_waiting()

    def _submit_waiting(self) -> None:
        if self.waiting:
            self.submit(*self.waiting.pop(0))


def _started(threads: int) -> Worker:
    try:
        return Worker.start(_SERVE, threads=threads)
    except OSError as error:
        raise EngineError(f"no worker process can be started ({error.strerror}); {_INSTEAD}") from error


def serve(replies_fd: str, folder: str) -> None:
    """Work in a child on the ranks that come in, in turn."""
    parent = Parent(replies_fd, folder, cleans_up=True)
    parent.reply(_READY)
    work = received_work(parent.receive(), "in a worker process")
    while True:
        number, files = pickle.loads(parent.receive())
        parent.reply(event_bytes(run_rank(work, number, files, _RankProgress(parent, number))))


class _RankProgress(Struct):
    """Sends the progress of a rank now and then."""

    parent: Parent
    number: int
    sent_at_s: float = -_PROGRESS_EVERY_S

    def __call__(self, share: float) -> None:
        now_s = clock.now_s()
        if now_s - self.sent_at_s >= _PROGRESS_EVERY_S:
            self.sent_at_s = now_s
            self.parent.reply(event_bytes(Advanced(self.number, share)))
