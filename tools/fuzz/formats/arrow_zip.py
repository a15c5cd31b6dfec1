"""Execution Traces in columns, as the native recorder writes them: `.arrow.zip`."""

from __future__ import annotations

import random
from pathlib import Path

import tracebraid
from tests.builders import kineto_text, op
from tests.et_archives import archive, members
from tools.fuzz.calls.commands import CHECK, INFO
from tools.fuzz.model import Call, Format, Sample
from tools.fuzz.mutations.raw_bytes import RAW_BYTES, RAW_CHANGES, changed_zip, in_files, whole_files
from tools.fuzz.mutations.table_files import changed_arrow

_ET, _KINETO = "torch_et_3.arrow.zip", "kineto_trace_3.json"


def _samples(folder: Path) -> list[Sample]:
    """A recording of four nodes beside the timeline of one."""
    whole = archive(folder, members(), _ET).read_bytes()
    kineto = kineto_text([op("aten::add", 1, 2, Record_function_id=1)]).encode()
    return [Sample("made", {_ET: whole, _KINETO: kineto})]


def member(data: bytes, rng: random.Random) -> bytes:
    """A member is another, or what the archive says of it."""
    return changed_zip(data, rng, _member)


def _member(name: str, content: bytes, rng: random.Random) -> bytes:
    if name.endswith(".arrow"):
        return changed_arrow(content, rng)
    odd = (
        b"[]",
        b"null",
        b'{"schema":7}',
        b'{"a":' * 3000,
        b'{"schema":"\xff"}',
        b'{"pid":1e999}',
        b'{"\\u0000":NaN}',
    )
    return rng.choice((*odd, rng.choice(RAW_CHANGES)(content, rng)))


def _read(folder: Path, _: random.Random) -> None:
    tracebraid.read_execution_trace(folder / _ET)


def _link(folder: Path, _: random.Random) -> None:
    job = tracebraid.open(folder)
    assert [job[rank].host_links.height for rank in job.ranks]


FORMAT = Format(
    "arrow_zip",
    _samples,
    (*(in_files(".arrow.zip", member),) * 12, *RAW_BYTES, whole_files),
    (Call("tracebraid.read_execution_trace", _read),),
    (INFO, CHECK, Call("linking", _link)),
)
