"""Capture the small traces that tracebraid carries with it.

Run from anywhere, with torch >= 2.13 and a C++ compiler installed::

    python tools/capture_demo.py          # two DDP ranks on the CPU, over gloo
    python tools/capture_demo.py --gpu    # one rank on a CUDA device
    python tools/capture_demo.py --out DIR

Each rank trains a tiny transformer under `tracebraid.capture`, with the native recorder. What names this machine is
cut out of the traces and manifests, and they are written over what lay there. Then they are read back and checked: the
exit status is 1 if a check of them finds anything, if they still name this machine, or are too large to carry. A step
that took much longer than others is printed alone: a busy machine holds up any.
"""

from __future__ import annotations

import argparse
import getpass
import gzip
import json
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import record_function

import tracebraid

DEMO_TRACES = tracebraid.demo_path().parent

VOCABULARY, WIDTH, HEADS, BATCH, LENGTH = 128, 32, 4, 4, 16
# DDP lays out its buckets anew after the first backward: two steps are let pass.
SKIPPED_STEPS, WARMUP_STEPS, ACTIVE_STEPS = 2, 1, 3

MAX_TOTAL_BYTES = 700_000

# gloo's thread wakes who waits for a collective before it ends the collective's op: on a busy machine the op of the
# last step may still be open when the profiler stops, and the capture is made again.
MAX_ATTEMPTS = 5


# The project's mypy settings skip torch: there, Module is Any.
class TinyTransformer(nn.Module):  # type: ignore[misc, unused-ignore]
    """Embedding, two encoder layers, and a head over the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.0, batch_first=True)
                for _ in range(2)
            )
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map token ids [batch, length] to logits [batch, length, vocabulary]."""
        logits: Tensor = self.head(self.encoder(self.embedding(tokens)))
        return logits


class GraphedMlp:
    """A frozen MLP whose forward pass is recorded once as a CUDA graph."""

    def __init__(self, device: torch.device) -> None:
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)).to(device)
        self.inputs = torch.randn(BATCH, WIDTH, device=device)
        self.graph = torch.cuda.CUDAGraph()
        # Libraries set themselves up on their first call, which a graph cannot hold.
        warmup = torch.cuda.Stream()
        warmup.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(warmup):
            self.mlp(self.inputs)
        torch.cuda.current_stream().wait_stream(warmup)
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.outputs = self.mlp(self.inputs)


def random_tokens() -> Tensor:
    """One batch of token ids, one longer than the inputs so as to hold the targets."""
    return torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor) -> None:
    """One annotated training step of next-token prediction."""
    with record_function("## forward ##"):
        logits = model(tokens[:, :-1])
        loss = cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    with record_function("## backward ##"):
        loss.backward()
    with record_function("## optimizer ##"):
        optimizer.step()
        optimizer.zero_grad()


def new_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """SGD with momentum: few ops per parameter, so the model is most of the trace."""
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def ddp_step() -> Callable[[], None]:
    """A DDP training step on the CPU; needs the process group."""
    # Buckets of 32 KiB, so that each backward starts several all_reduce.
    model = DistributedDataParallel(TinyTransformer(), bucket_cap_mb=1 / 32)
    optimizer = new_optimizer(model)

    def step() -> None:
        with record_function("## data ##"):
            tokens = random_tokens()
        train(model, optimizer, tokens)

    return step


def gpu_step() -> Callable[[], None]:
    """A CUDA training step with a copy stream, a graph replay and four kinds of sync."""
    device = torch.device("cuda", torch.cuda.current_device())
    model = TinyTransformer().to(device)
    optimizer = new_optimizer(model)
    graphed = GraphedMlp(device)
    copy_stream = torch.cuda.Stream()
    on_host = random_tokens().pin_memory()

    def step() -> None:
        compute_stream = torch.cuda.current_stream()
        with record_function("## data ##"):
            with torch.cuda.stream(copy_stream):
                tokens = on_host.to(device, non_blocking=True)
                copied = copy_stream.record_event()
            compute_stream.wait_event(copied)
            tokens.record_stream(compute_stream)
        train(model, optimizer, tokens)
        with record_function("## graph ##"):
            graphed.graph.replay()
        with record_function("## sync ##"):
            copied.synchronize()
            compute_stream.synchronize()
            torch.cuda.synchronize()

    return step


def record(step: Callable[[], None], folder: Path) -> None:
    """Capture `step` for as many steps as the schedule needs."""
    with tracebraid.capture(
        folder,
        skip_first=SKIPPED_STEPS,
        wait=0,
        warmup=WARMUP_STEPS,
        active=ACTIVE_STEPS,
        check=False,
        recorder="native",
    ) as capture:
        for _ in range(SKIPPED_STEPS + WARMUP_STEPS + ACTIVE_STEPS):
            step()
            capture.step()


def ddp_rank(rank: int, world_size: int, scratch: Path) -> None:
    """Run a rank in a spawned process."""
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    rendezvous = (scratch / "rendezvous").as_uri()
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world_size)
    try:
        record(ddp_step(), scratch)
    finally:
        dist.destroy_process_group()


def capture_ddp(scratch: Path) -> None:
    """Capture two CPU ranks into `scratch`."""
    mp.spawn(ddp_rank, args=(2, scratch), nprocs=2)


def capture_gpu(scratch: Path) -> None:
    """Capture one CUDA rank into `scratch`."""
    torch.manual_seed(0)
    record(gpu_step(), scratch)


def without_machine(kineto_text: str) -> str:
    """Kineto's text without the host's name and command lines, its layout untouched."""
    text = re.sub(r'("host_name": )"[^"]*"', r'\1"localhost"', kineto_text)
    # A process is named by what started it, which may be a path with arguments.
    return re.sub(
        r'("name": "process_name",.*?"args": \{\s*"name": )"[^"]*"',
        r'\1"python"',
        text,
        flags=re.DOTALL,
    )


def pack_trace(raw: Path, packed: Path) -> None:
    """Scrub a trace, and compress it behind a gzip header that holds neither time nor file name."""
    text = gzip.decompress(raw.read_bytes()).decode()
    with (
        packed.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=file, mtime=0) as stream,
    ):
        stream.write((without_machine(text) if raw.name.startswith("kineto") else text).encode())


def pack_manifest(raw: Path, packed: Path) -> None:
    """Scrub a manifest, and give it the sizes of the packed traces beside it."""
    manifest = json.loads(raw.read_text()) | {"host": "localhost", "command_line": ["python"]}
    for file in (file for window in manifest["windows"] for file in window["files"]):
        file["size_bytes"] = (packed.parent / file["path"]).stat().st_size
    packed.write_text(json.dumps(manifest, indent=2) + "\n")


def pack(scratch: Path, folder: Path) -> list[Path]:
    """Scrub and compress what was captured; return the files in `folder`."""
    for raw in scratch.glob("*.json.gz"):
        pack_trace(raw, folder / raw.name)
    for raw in scratch.glob("manifest_*.json"):
        pack_manifest(raw, folder / raw.name)
    return sorted(folder / raw.name for raw in scratch.glob("*.json*"))


def machine_traces(text: str) -> Iterator[str]:
    """Yield what in `text` names this machine: host, user, variables of the environment, absolute paths."""
    names = {socket.gethostname(), getpass.getuser()} - {"localhost"}
    names |= {name for name in os.environ if "_" in name.strip("_")}
    named = "|".join(re.escape(name) for name in sorted(names))
    # A slash after a word is a unit ("GB/s"); before one, it starts a path.
    for match in re.finditer(rf"(?<!\w)(?:{named})(?!\w)|(?<![\w)])/\w[^\"\s]*", text):
        yield match.group()


def faults_of(folder: Path, files: list[Path]) -> Iterator[str]:
    """Read the packed files back, print how they link, and yield what is wrong."""
    for path in files:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        print(f"{path.name}: {len(data):,} bytes, {len(text):,} unpacked")
        for found in sorted(set(machine_traces(text))):
            yield f"{path.name} names this machine: {found}"
    checked = tracebraid.check(folder)
    for rank in checked.ranks:
        print(f"rank {rank.rank}: {rank.coverage}")
    for diagnosis in checked.diagnoses:
        if diagnosis.finding.code is tracebraid.results.FindingCode.WARMUP_CAUGHT:
            print(f"look at it before it is carried: {diagnosis.finding}")
        else:
            yield str(diagnosis.finding)
    total_bytes = sum(path.stat().st_size for path in files)
    if total_bytes > MAX_TOTAL_BYTES:
        yield f"{total_bytes:,} bytes in all, more than {MAX_TOTAL_BYTES:,}"


def capture_whole(gpu: bool, scratch: Path) -> None:
    """Capture into `scratch`, again while an op was still open when the profiler stopped."""
    for _ in range(MAX_ATTEMPTS):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        (capture_gpu if gpu else capture_ddp)(scratch)
        codes = {diagnosis.finding.code for diagnosis in tracebraid.check(scratch).diagnoses}
        if tracebraid.results.FindingCode.OP_UNFINISHED not in codes:
            return


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--gpu", action="store_true", help="capture a CUDA device")
    parser.add_argument("--out", type=Path, help=f"output folder, by default below {DEMO_TRACES}")
    return parser.parse_args()


def main() -> int:
    """Capture, pack and verify; return the exit status."""
    arguments = parse_arguments()
    if arguments.gpu and not torch.cuda.is_available():
        print("error: --gpu needs a CUDA device, and torch sees none", file=sys.stderr)
        return 1
    name = "gpu_1rank" if arguments.gpu else "ddp_cpu_2rank"
    folder: Path = arguments.out or DEMO_TRACES / name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary, "capture")
        capture_whole(arguments.gpu, scratch)
        faults = list(faults_of(folder, pack(scratch, folder)))
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
