"""Files that `nsys export --type sqlite` writes."""

from __future__ import annotations

import random
from pathlib import Path

import tracebraid
from tests.unit.importers.nsys.nsys_file import (
    Text,
    call,
    copy,
    fill,
    graph,
    kernel,
    nvtx,
    sync,
    whole,
    write_export,
)  # fmt: skip
from tools.fuzz.calls.commands import CHECK, INFO, run_command
from tools.fuzz.model import Call, Format, Sample
from tools.fuzz.mutations.raw_bytes import RAW_BYTES, in_files
from tools.fuzz.mutations.table_files import changed_database

_NAME = "nsys_0.sqlite"
_OP = "aten::mm, seq = 3, op_id = 5, sizes = [[2, 3], [3, 4]], input_op_ids = [(1,0), (2,0)]"


def _samples(folder: Path) -> list[Sample]:
    """Two steps of a program with every kind of row, by one process and by two."""
    rows = [row for number in range(2) for row in _step(1_000 * number, 10 * number, 77)]
    other = _step(4_000, 50, 78)
    return [
        Sample("one process", {_NAME: write_export(folder / "one", whole(*rows)).read_bytes()}),
        Sample("two processes", {_NAME: write_export(folder / "two", whole(*rows, *other)).read_bytes()}),
    ]


def _step(at: int, first: int, pid: int) -> list[tuple[str, dict[str, object]]]:
    return [
        nvtx("ProfilerStep#1", at, at + 900, pid),
        nvtx(_OP, at + 10, at + 60, pid),
        nvtx(None, at + 70, None, pid, textId=Text("registered")),
        nvtx("mark", at + 75, None, pid, eventType=34),
        call("cudaLaunchKernel_v7000", at + 20, at + 30, first + 1, pid),
        kernel("void gemm<float>(int)", at + 100, at + 300, first + 1, pid),
        call("cudaMemcpyAsync_v3020", at + 40, at + 50, first + 2, pid),
        copy(1, at + 310, at + 350, first + 2),
        call("cudaMemsetAsync_v3020", at + 80, at + 85, first + 3, pid),
        fill(at + 360, at + 370, first + 3),
        call("cudaStreamSynchronize_v3020", at + 90, at + 400, first + 4, pid),
        sync(3, at + 95, at + 390, first + 4, streamId=7),
        call("cudaGraphLaunch_v10000", at + 410, at + 420, first + 5, pid),
        graph(3, at + 450, at + 600, first + 5),
    ]


def file_of_tables(data: bytes, rng: random.Random) -> bytes:
    """A database with one change."""
    return changed_database(data, rng)


def _read(folder: Path, _: random.Random) -> None:
    """Read a timeline, which has each event once."""
    timeline = tracebraid.read_timeline(folder / _NAME)
    assert timeline.events.height == timeline.events.get_column("event_id").n_unique()


def _analyze(folder: Path, rng: random.Random) -> None:
    question = rng.choice(
        ("breakdown", "kernels", "copies", "syncs", "launches", "idle_gaps", "steps", "op_costs")
    )
    run_command("analyze", question, folder, *rng.choice(((), ("--json",))))


def _summary(folder: Path, rng: random.Random) -> None:
    run_command(rng.choice(("summary", "link")), folder, *rng.choice(((), ("--json",))))


def _sql(folder: Path, _: random.Random) -> None:
    run_command(
        "sql",
        folder,
        "SELECT category, count(*), sum(dur_ns) FROM events GROUP BY ALL ORDER BY ALL",
        "--json",
    )


FORMAT = Format(
    "nsys_sqlite",
    _samples,
    (*(in_files(".sqlite", file_of_tables),) * 12, *RAW_BYTES),
    (Call("tracebraid.read_timeline", _read),),
    (INFO, CHECK, Call("analyze", _analyze), Call("summary", _summary), Call("sql", _sql)),
)
