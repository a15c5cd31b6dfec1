"""The traces that are measured: real ones where they are at hand, else the bundled ones, repeated."""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import ROOT

_V100 = "kineto/v100_rank1of2_54MB.json.gz"
_NCCL = "kineto/a100_ddp_nccl_rank0of2.json.gz"
_DLRM = "pairs/dlrm_v100_8rank"
DEMO = ROOT / "src" / "tracebraid" / "demo_traces" / "ddp_cpu_2rank"


@dataclass(frozen=True)
class Pair:
    """Both traces of a rank, repeated so many times."""

    times: int
    et: Path
    kineto: Path


class Given(argparse.Namespace):
    """The command line of a benchmark: paths, the folder for what is made, and the options that it has."""

    paths: list[Path]
    traces: Path | None
    folder: Path
    rounds: int
    attempts: int
    ranks: list[int]
    times: list[int] | None
    only: list[str] | None
    steps: int | None
    seconds: float
    nodes: int
    files: int
    jobs: int
    hta_python: str | None
    peers_python: str | None
    beside: Path | None
    keep: Path | None
    engine: str
    trace: Path | None
    all: bool
    errors: bool
    commands: bool
    start: bool
    processor_time: bool
    speed: bool
    large: bool
    page: Path | None

    @property
    def inputs(self) -> Inputs:
        """The traces of the default."""
        return Inputs(self.folder, find_real_traces(self.traces))

    @property
    def timeline_name(self) -> str:
        """The name of `timeline`."""
        return self.paths[0].name if self.paths else self.inputs.timeline_name

    @property
    def timeline(self) -> Path:
        """The trace that is named, or that of 54 MB."""
        return self.paths[0] if self.paths else self.inputs.timeline()


@dataclass(frozen=True)
class Inputs:
    """Makes the traces in a folder as they are asked for."""

    folder: Path  # where to write them
    real: Path | None  # the folder of real traces; None for the bundled ones

    @property
    def timeline_name(self) -> str:
        """The name of the Kineto trace `timeline`."""
        return "54 MB, V100" if self.real else "50 MB, bundled trace repeated"

    @property
    def pair_name(self) -> str:
        """The name of the pair that `pair` repeats."""
        return "DLRM pair" if self.real else "bundled pair"

    @property
    def nccl(self) -> Path:
        """A Kineto trace of a rank with collectives."""
        return self.real / _NCCL if self.real else DEMO / "kineto_trace_0.json.gz"

    def timeline(self) -> Path:
        """A Kineto trace of about 50 MB, unpacked."""
        out = self.folder / "timeline.json"
        if not out.exists() and self.real:
            with gzip.open(self.real / _V100) as packed, out.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked, 1 << 22)
        if not out.exists():
            _repeat(DEMO / "kineto_trace_0.json.gz", out, "--size-gb", "0.05")
        return out

    def packed_timeline(self) -> Path:
        """The same as gzip."""
        if self.real:
            return self.real / _V100
        out = self.folder / "timeline.json.gz"
        if not out.exists():
            _repeat(DEMO / "kineto_trace_0.json.gz", out, "--size-gb", "0.05")
        return out

    def large_timeline(self) -> Path:
        """The trace of `timeline`, repeated to 1.25 GB."""
        out = self.folder / "large.json"
        if not out.exists():
            _repeat(self.timeline(), out, "--size-gb", "1.25")
        return out

    def execution_traces(self) -> dict[str, Path]:
        """Execution Traces of about 100 MB: a native recording, and one of schema 1.0.1."""
        native, flat = self.folder / "et_native.json", self.folder / "et_flat.json"
        if not native.exists():
            _repeat(DEMO / "torch_et_0.json.gz", native, "--size-gb", "0.1")
        if not self.real:
            return {"native": native}
        if not flat.exists():
            _repeat(self.real / _DLRM / "torch_et_0.json.gz", flat, "--size-gb", "0.1")
        return {"native": native, "1.0.1": flat}

    def pair(self, times: int) -> Pair:
        """A pair, repeated so many times."""
        source = self.real / _DLRM if self.real else DEMO
        folder = self.folder / f"pair{times}"
        names = ("torch_et_0.json", "kineto_trace_0.json")
        if not folder.exists():
            folder.mkdir()
            for name, other in (names, names[::-1]):
                beside = ("--beside", str(source / f"{other}.gz"))
                _repeat(source / f"{name}.gz", folder / name, "--times", str(times), *beside)
        return Pair(times, folder / names[0], folder / names[1])


def find_real_traces(named: Path | None) -> Path | None:
    """The folder of real traces: the one named, that of TRACEBRAID_TRACES, or one beside the project."""
    if named is not None:
        return named
    folder = Path(os.environ.get("TRACEBRAID_TRACES") or ROOT.parent / "shared" / "traces")
    return folder if (folder / _V100).exists() else None


def _repeat(source: Path, out: Path, *amount: str) -> None:
    """Run the generator as a process of its own: what this process holds counts as the least of its children."""
    print(f"  making {out.name}", file=sys.stderr)
    words = [sys.executable, "-m", "benchmarks.repeat_trace", str(source), str(out), *amount]
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
