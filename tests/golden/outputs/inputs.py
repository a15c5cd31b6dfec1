"""The traces that command lines name; each is made when it is first named."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import tracebraid
from tests.captures import CAPTURES
from tests.conftest import find_real_traces
from tests.hostile.plain_inputs import write_job
from tests.planted import Cause, Host, PlannedJob
from tests.planted.patterns import PATTERNS
from tests.planted.scene import write_ranks
from tests.planted.scenes import clean
from tests.planted.serving import served, vllm_steps

__all__ = ["DAMAGED", "OWN", "REAL", "Inputs"]

OWN = "own-"
"""Before the name of an input: a copy for one command line alone, whose changes count as what it wrote."""

REAL = {
    "real_pair": "pairs/simple_add_a100",
    "real_triton": "kineto/triton_example.json.gz",
    "real_mtia": "kineto/mtia_inference.json.gz",
}
"""Traces of other people's jobs, by short names: where they lie in the folder of the real traces."""

_NAME = re.compile(r"[\w.-]+")


class Inputs:
    """A folder of inputs.

    Args:
        folder: an empty one.
        run: runs a command line in it.
    """

    def __init__(self, folder: Path, run: Callable[[str], object]) -> None:
        self.folder, self._run = folder, run
        self.names: set[str] = set()

    def provide(self, argument: str) -> None:
        """Make the input that an argument names, if it names one."""
        name = argument.partition("/")[0]
        if not _NAME.fullmatch(name):
            return
        source, target = name.removeprefix(OWN), self.folder / name
        if target.exists():
            return
        if name.startswith(OWN):
            self.provide(source)
            shutil.copytree(self.folder / source, target)
        elif self._make(name, target):
            self.names.add(name)

    def _make(self, name: str, target: Path) -> bool:
        """Make an input; False if the name stands for none."""
        traces = find_real_traces()
        if name == "demo":
            shutil.copytree(tracebraid.demo_path(), target)
        elif name.isidentifier() and (CAPTURES / name).is_dir():
            shutil.copytree(CAPTURES / name, target)
        elif name in _PLANTED:
            target.mkdir()
            _PLANTED[name](target)
        elif name in DAMAGED:
            target.mkdir()
            DAMAGED[name](_small(target))
        elif name.startswith("planted-"):
            target.mkdir()
            write_ranks(target, PATTERNS[name.removeprefix("planted-")].scenes)
        elif name in REAL and traces is not None:
            target.symlink_to(traces / REAL[name])
        elif name in _COMMANDS:
            line = _COMMANDS[name]
            self.provide(line.split()[1])
            self._run(line)
            if name.startswith("cut"):
                files = (path for path in target.rglob("*") if path.is_file() and "answers" not in path.parts)
                _cut(max(files, key=lambda path: (path.stat().st_size, path.name)))
        else:
            return False
        return True


def _small(folder: Path) -> Path:
    """The pairs of two ranks, all recorded at the same time."""
    folder.rmdir()
    write_job(folder)
    for path in folder.glob("torch_et_*.json"):
        path.write_text(re.sub(r'"time": "[^"]*"', '"time": "2026-05-28 20:26:40"', path.read_text()))
    return folder


def _job(folder: Path) -> None:
    """Four ranks on two hosts, whose clocks differ: rank 3 is late, rank 0 sends to rank 2."""
    job = PlannedJob(4, hosts=[Host("a"), Host("b", ahead_ns=5_000_000, drift_ppm=20.0)])
    job.group("pair", [0, 2], renamed={2: "7"})
    for number in range(1, 6):
        with job.step(number):
            job.compute(100_000)
            job.delay(3, Cause.OP if number % 2 else Cause.KERNEL, 400_000)
            job.collective("allreduce", transfer=50_000, skew={1: 2_000})
            job.compute(60_000, name="ampere_fp16_s16816gemm")
            job.collective("_allgather_base", transfer=80_000, nelems=1 << 20, overlaps=True)
            job.send(0, 2, "pair")
    job.write(folder)


def _training(folder: Path) -> None:
    """Two ranks of a training in which nothing is wrong."""
    write_ranks(folder, [clean(world_size=2, rank=rank) for rank in range(2)])


def _memory(folder: Path) -> None:
    """A rank whose activations take its memory."""
    write_ranks(folder, PATTERNS["stored-activations"].scenes)


def _server(folder: Path) -> None:
    """Steps of an inference server, whose times vary."""
    plan = vllm_steps([1, 2, 4, 8], [32, 64, 128], noise=lambda number: 1 + (number * 7 % 11 - 5) / 50)
    write_ranks(folder, [served(plan)])


_PLANTED: dict[str, Callable[[Path], object]] = {
    "job": _job,
    "training": _training,
    "memory": _memory,
    "server": _server,
    "small": _small,
    "empty": lambda folder: None,
}

_COMMANDS = {
    "job.tbstore": "pack job -o job.tbstore",
    "demo.tbstore": "pack demo -o demo.tbstore",
    "plus": "link demo -o plus",
    "et": "export job --to chakra --allow-replay-error -o et",
    "cut.tbstore": "pack small -o cut.tbstore",
    "cut_nodes": "export small --to chakra --allow-replay-error -o cut_nodes",
}
"""Inputs that a command line makes of others; of those named `cut` the largest file then loses its end, if
no other file can stand for it."""


def _cut(path: Path) -> None:
    """Lose the last part of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 7 // 10])


def _cut_gzip(folder: Path) -> None:
    """The Kineto trace of rank 1 is compressed, and its end is lost."""
    plain = folder / "kineto_trace_1.json"
    packed = folder / "kineto_trace_1.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    plain.unlink()
    _cut(packed)


def _lost(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).unlink()


DAMAGED: dict[str, Callable[[Path], object]] = {
    "cut": lambda folder: _cut(folder / "kineto_trace_0.json"),
    "cut_gzip": _cut_gzip,
    "cut_et": lambda folder: _cut(folder / "torch_et_1.json"),
    "empty_file": lambda folder: (folder / "kineto_trace_1.json").write_bytes(b""),
    "no_json": lambda folder: (folder / "kineto_trace_1.json").write_text("not a trace\n"),
    "no_kineto": lambda folder: _lost(folder, "kineto_trace_0.json", "kineto_trace_1.json"),
    "no_et": lambda folder: _lost(folder, "torch_et_0.json", "torch_et_1.json"),
    "one_rank_of_two": lambda folder: _lost(folder, "torch_et_1.json", "kineto_trace_1.json"),
    "twice": lambda folder: shutil.copy(folder / "kineto_trace_0.json", folder / "kineto_trace_1.json"),
    "swapped": lambda folder: (folder / "torch_et_0.json").replace(folder / "torch_et_1.json"),
}
"""Jobs of two ranks in which something is wrong."""
