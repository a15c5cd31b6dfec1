"""Stores: what `tracebraid pack` makes of a job."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import tracebraid
from tools.fuzz.calls.commands import run_command
from tools.fuzz.formats.job import FORMAT as JOB
from tools.fuzz.model import Call, Format, Sample
from tools.fuzz.mutations.raw_bytes import RAW_BYTES
from tools.fuzz.mutations.stores import STORE_MUTATIONS

_STORE, _TRACES = "job.tbstore", "traces"


def _samples(folder: Path) -> list[Sample]:
    """The smallest jobs of several ranks and of one, packed."""
    jobs = sorted(JOB.samples(folder), key=lambda sample: sum(map(len, sample.files.values())))
    return [_packed(folder / f"packed {job.name}", job) for job in jobs[:3]]


def _packed(folder: Path, job: Sample) -> Sample:
    traces, store = folder / _TRACES, folder / _STORE
    traces.mkdir(parents=True)
    for name, data in job.files.items():
        (traces / name).write_bytes(data)
    tracebraid.pack(traces, store)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in store.rglob("*") if path.is_file()}
    return Sample(job.name, files)


def _of_packed(ask: Callable[[Path, random.Random], object]) -> Callable[[Path, random.Random], object]:
    """The same where errors that the store keeps of its traces are answers: they name these."""

    def asked(folder: Path, rng: random.Random) -> object:
        try:
            return ask(folder / _STORE, rng)
        except tracebraid.InputError as error:
            if Path(error.path).is_relative_to(folder):
                raise
            if str(folder) in str(error) or not _is_kept(folder, error.path):
                raise
            return None

    return asked


def _is_kept(folder: Path, path: str) -> bool:
    """Return whether a file of the store names a path."""
    words = path.encode("unicode_escape").decode("ascii", "replace")[:60]
    return any(
        words.encode() in file.read_bytes() for file in (folder / _STORE).rglob("*.json") if file.is_file()
    )


def _read(store: Path, _: random.Random) -> None:
    """Each table of each rank."""
    job = tracebraid.open(store)
    for rank in job.ranks:
        linked = job[rank]
        for name in linked.timeline.tables:
            assert linked.timeline.tables[name].width
        assert linked.known_findings is not None
        for finding in linked.known_findings:
            assert finding.message
        if linked.has_et:
            assert linked.coverage is not None
            assert linked.dependencies.width


def _command(*words: str) -> Callable[[Path, random.Random], object]:
    def ask(store: Path, rng: random.Random) -> None:
        run_command(*words, store, *rng.choice(((), ("--json",))))

    return ask


def _analyze(store: Path, rng: random.Random) -> None:
    run_command(
        "analyze",
        rng.choice(sorted(one.name for one in tracebraid.analyses.catalog())),
        store,
        *rng.choice(((), ("--json",))),
    )


def _sql(store: Path, rng: random.Random) -> None:
    table = rng.choice(
        ("events", "host_ops", "device_work", "et.nodes", "host_links", "coverage", "findings", "ranks")
    )
    run_command("sql", store, f"SELECT * FROM {table} LIMIT 3", *rng.choice(((), ("--json",))))


_CHOSEN = {
    "info": _command("info"),
    "check": _command("check"),
    "summary": _command("summary"),
    "link": _command("link"),
    "ranks": _command("ranks"),
    "critical-path": _command("critical-path"),
    "what-if": _command("what-if"),
    "advise": _command("advise"),
    "analyze": _analyze,
    "sql": _sql,
}

FORMAT = Format(
    "store",
    _samples,
    (*STORE_MUTATIONS * 3, *RAW_BYTES),
    (Call("tables of a store", _of_packed(_read)),),
    tuple(Call(name, _of_packed(ask)) for name, ask in _CHOSEN.items()),
)
