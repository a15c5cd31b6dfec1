"""An engine for tests, to which nothing in this process is known that a question does not bring along."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar
from unittest import mock

import cloudpickle

from tracebraid.model.engine import InProcess, Outcome, RankWork
from tracebraid.model.rank_files import Progress, RankFiles

T = TypeVar("T")


@dataclass(frozen=True)
class PickledFromTheLast:
    """As a pool of processes would, but here: the work and what comes of it are pickled, and the last rank is first."""

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        sent = cloudpickle.dumps(work)
        done = [self._sent_back(sent, files) for files in reversed(ranks)]
        for number, outcome in enumerate(reversed(done), 1):
            if progress is not None:
                progress(number / len(ranks))
            yield cloudpickle.loads(outcome)

    def _sent_back(self, sent: bytes, files: RankFiles) -> bytes:
        (outcome,) = InProcess().outcomes(cloudpickle.loads(sent), [files], None)
        pickled: bytes = cloudpickle.dumps(outcome)
        return pickled


@contextmanager
def opened_by(engine: object) -> Iterator[None]:
    """Every job that is opened meanwhile has this engine, those of commands too."""
    with (
        mock.patch("tracebraid.cli.job_options.engine_of", return_value=engine),
        mock.patch("tracebraid.api.traces.engine_of", return_value=engine),
    ):
        yield
