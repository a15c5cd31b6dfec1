"""docs/sql.md with what its queries answer: about hosts on the bundled traces, about devices on a made job."""

from __future__ import annotations

import io
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from rich.console import Console

import tracebraid
from tests.planted import Scene, write_ranks
from tests.planted.scenes import KERNEL_NS, clean
from tracebraid.api.querying import QueryOptions, answer_query
from tracebraid.model.engine import Job
from tracebraid.reports.query_table import query_parts

PAGE = Path(__file__).resolve().parents[1] / "docs" / "sql.md"
_DEVICES = "## Recipes for devices"
_BLOCK = re.compile(r"```sql\n(.*?)\n```\n(?:\n```text\n.*?```\n)?", re.S)
_WIDTH = 110
"""Characters in a line of the page's outputs."""
_TOP = 40
_PAUSE_NS = 150_000
"""What the host of rank 0 does between two launches; rank 1 takes twice as long."""


def device_job(folder: Path) -> Job:
    """Two ranks of a training on a GPU: three steps in which nothing is wrong, and one in which the device waits."""
    folder.mkdir()
    return tracebraid.open(write_ranks(folder, [_scene(rank) for rank in range(2)]))


def _scene(rank: int) -> Scene:
    scene = clean(rank=rank, world_size=2)
    (stream,) = scene.streams
    host = scene.thread("evaluation", stream.free + _PAUSE_NS)
    with host.step(4):
        for _ in range(2):
            host.spend(_PAUSE_NS * (1 + rank))
            with host.op("aten::linear", dims=[[64, 1024], [1024, 1024]]):
                host.launch(stream, "gemm", KERNEL_NS)
        host.synchronize()
    return scene


def recipes() -> list[tuple[str, str, bool]]:
    """Heading, query, and whether it is about devices, of each recipe."""
    found = []
    hosts, devices = PAGE.read_text(encoding="utf-8").split(_DEVICES)
    for text, of_devices in ((hosts, False), (devices, True)):
        for title, body in re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", text, re.S | re.M):
            found += [(title, query, of_devices) for query in _BLOCK.findall(body)]
    return found


def rendered() -> str:
    """The page with the outputs of its queries as they are now."""
    hosts, devices = PAGE.read_text(encoding="utf-8").split(_DEVICES)
    with TemporaryDirectory() as folder:
        made = device_job(Path(folder) / "job")
        bundled = tracebraid.open(tracebraid.demo_path())
        return _with_outputs(hosts, bundled) + _DEVICES + _with_outputs(devices, made)


def _with_outputs(text: str, job: Job) -> str:
    for rank in job.ranks:
        # What is open is not read again by each query.
        assert job[rank].rank == rank
    return _BLOCK.sub(
        lambda match: f"```sql\n{match[1]}\n```\n\n```text\n{_printed(job, match[1])}```\n", text
    )


def _printed(job: Job, query: str) -> str:
    with answer_query(job, query, QueryOptions(limit=_TOP + 1)) as slices:
        frame = pl.concat(slices)
    printed = io.StringIO()
    console = Console(file=printed, width=_WIDTH, highlight=False, emoji=False)
    for part in query_parts(frame, _TOP, _WIDTH):
        console.print(part)
    lines = printed.getvalue().rstrip().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)
