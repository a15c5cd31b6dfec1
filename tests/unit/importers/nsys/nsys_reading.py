"""Reads exports of Nsight Systems that tests have made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from tests.unit.importers.nsys.nsys_file import (
    Row,
    call,
    copy,
    kernel,
    nvtx,
    whole,
    write_export,
)
from tracebraid.importers.nsys.reader import read_nsys
from tracebraid.model.timeline import Timeline

ADD = "aten::add, seq = 4, op_id = 12, sizes = [[2, 2], [], [2]], input_op_ids = [(0,-1), (11,0), (0,-1)]"


STEP: tuple[Row, ...] = (
    nvtx("train", 1000, 9000),
    nvtx(ADD, 2000, 4000),
    call("cudaLaunchKernel_v7000", 3000, 3500, 41),
    kernel("void add<float>(float*)", 5000, 6000, 41),
    call("cudaMemcpyAsync_v3020", 5000, 5500, 42),
    copy(1, 7000, 7500, 42),
)


def read(folder: Path, *some: Row, **more: Any) -> Timeline:
    return read_nsys(write_export(folder / "nsys_0.sqlite", whole(*some), **more))


def names(timeline: Timeline, category: str) -> list[str]:
    events = timeline.events.with_columns(pl.col("name", "category").cast(pl.String))
    return events.filter(category=category).get_column("name").to_list()
