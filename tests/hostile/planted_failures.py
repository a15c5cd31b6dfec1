"""A format of the fuzzer whose calls fail, each in its way."""

from __future__ import annotations

import os
import random
import warnings
from pathlib import Path

import tracebraid
from tests.waiting import sleep_until_ended
from tools.fuzz.calls.commands import strict_json
from tools.fuzz.model import Call, FailureError, FailureKind, Files, Format, Sample
from tracebraid.errors import InputError

NAME = __name__
"""What the fuzzer knows the format by."""

_DEMO = tracebraid.demo_path() / "kineto_trace_0.json.gz"

BYTE = 0xFE
"""The byte that `chokes` does not stand, which no other file of the samples holds."""


def _samples(_: Path) -> list[Sample]:
    lines = [f"line {number}\n".encode() for number in range(50)]
    return [Sample("text", {"a.txt": b"".join(lines), "b/c.txt": b"nothing", "b/d.txt": b"more of it"})]


def _with_the_byte(files: Files, rng: random.Random) -> Files:
    data = files["a.txt"]
    at = rng.randrange(len(data))
    return {**files, "a.txt": data[:at] + bytes([BYTE]) + data[at:]}


def _answers(folder: Path, _: random.Random) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "b"]


def _refuses(folder: Path, _: random.Random) -> None:
    raise InputError(str(folder / "a.txt"), "it is no trace", "Name one")


def _blames_another(folder: Path, _: random.Random) -> None:
    raise InputError(str(folder.parent / "other"), "it is no trace", "Name one")


def _raises(_: Path, __: random.Random) -> None:
    os.environ["TRACEBRAID_ABSENT"]


def _raises_in_the_package(_: Path, __: random.Random) -> None:
    tracebraid.info(_DEMO, lambda fraction: print(None + fraction))  # type: ignore[operator]


def _hangs(_: Path, __: random.Random) -> None:
    tracebraid.info(_DEMO, lambda _: sleep_until_ended())


def _computes(_: Path, __: random.Random) -> None:
    while True:
        pass


def _eats(_: Path, __: random.Random) -> None:
    assert len(b"x" * (160 << 20))


def _aborts(_: Path, __: random.Random) -> None:
    os.abort()


def _exits(_: Path, __: random.Random) -> None:
    os._exit(3)


def _prints(_: Path, __: random.Random) -> None:
    os.write(2, b"thread panicked at polars")


def _warns(_: Path, __: random.Random) -> None:
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)


def _writes_no_json(_: Path, __: random.Random) -> None:
    strict_json('{"share": NaN}')


def _loses(folder: Path, _: random.Random) -> None:
    lines = len((folder / "a.txt").read_bytes().splitlines())
    if lines < 52:
        raise FailureError(FailureKind.SILENT_LOSS, f"{lines} of 51 events")


def _chokes(folder: Path, _: random.Random) -> None:
    if BYTE in (folder / "a.txt").read_bytes():
        raise ValueError("the byte")


FORMAT = Format(
    NAME,
    _samples,
    [_with_the_byte],
    [
        Call("answers", _answers),
        Call("chokes", _chokes),
        Call("refuses", _refuses),
        Call("blames another", _blames_another),
        Call("raises", _raises),
        Call("raises in the package", _raises_in_the_package),
        Call("hangs", _hangs),
        Call("computes", _computes),
        Call("eats", _eats),
        Call("aborts", _aborts),
        Call("exits", _exits),
        Call("prints", _prints),
        Call("warns", _warns),
        Call("writes no JSON", _writes_no_json),
        Call("loses", _loses),
    ],
)
