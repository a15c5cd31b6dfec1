"""Capture the small traces that tracebraid carries with it.

Run from anywhere, with torch >= 2.13 installed::

    python tools/capture_demo.py          # two DDP ranks on the CPU, over gloo
    python tools/capture_demo.py --gpu    # one rank on a CUDA device
    python tools/capture_demo.py --out DIR

Each rank trains a tiny transformer under ``torch.profiler``, with an Execution
Trace observer, so that both files describe the same steps. What names this
machine is cut out of them, and they are written as ``torch_et_<rank>.json.gz``
and ``kineto_trace_<rank>.json.gz``, over what lay there. Then the files are
read back and checked: the exit status is 1 if they disagree with each other,
still name this machine, or are too large to carry.
"""

from __future__ import annotations

import argparse
import getpass
import gzip
import json
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import (
    ExecutionTraceObserver,
    ProfilerActivity,
    _ExperimentalConfig,
    profile,
    record_function,
    schedule,
)

DEMO_TRACES = Path(__file__).resolve().parents[1] / "src" / "tracebraid" / "demo_traces"

VOCABULARY, WIDTH, HEADS, BATCH, LENGTH = 128, 32, 4, 4, 16
# DDP lays out its buckets anew after the first backward: two steps are let pass.
WAIT_STEPS, WARMUP_STEPS, ACTIVE_STEPS = 2, 1, 3

MAX_TOTAL_BYTES = 700_000
MIN_MATCHED = 0.95
ROOT_PREFIX = "[pytorch|profiler|execution_trace|"


@dataclass(frozen=True)
class RankFiles:
    """Where the two traces of one rank lie."""

    et: Path
    kineto: Path

    @classmethod
    def at(cls, folder: Path, rank: int, suffix: str = ".json") -> RankFiles:
        """The two files of `rank` in `folder`, by the names that readers look for."""
        return cls(folder / f"torch_et_{rank}{suffix}", folder / f"kineto_trace_{rank}{suffix}")


@dataclass(frozen=True)
class Agreement:
    """How far the two traces of one rank agree, in nodes and events."""

    et_nodes: int
    et_root_nodes: int
    events: int
    matched: int
    renamed: int
    external_id_differs: int
    profiler_steps: int


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


def record(step: Callable[[], None], raw: RankFiles, *, gpu: bool = False) -> None:
    """Run `step` through the schedule under both tracers, each writing its file."""
    activities = [ProfilerActivity.CPU]
    if gpu:
        activities.append(ProfilerActivity.CUDA)
    observer = ExecutionTraceObserver()
    observer.register_callback(str(raw.et))
    with profile(
        activities=activities,
        record_shapes=True,
        schedule=schedule(wait=WAIT_STEPS, warmup=WARMUP_STEPS, active=ACTIVE_STEPS, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(raw.kineto)),
        execution_trace_observer=observer,
        experimental_config=_ExperimentalConfig(enable_cuda_sync_events=gpu),
    ) as profiler:
        for _ in range(WAIT_STEPS + WARMUP_STEPS + ACTIVE_STEPS):
            step()
            profiler.step()
    observer.unregister_callback()


def ddp_rank(rank: int, world_size: int, scratch: Path) -> None:
    """What each spawned process runs."""
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    rendezvous = (scratch / "rendezvous").as_uri()
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world_size)
    try:
        record(ddp_step(), RankFiles.at(scratch, rank))
    finally:
        dist.destroy_process_group()


def capture_ddp(scratch: Path) -> int:
    """Capture two CPU ranks into `scratch`; return how many ranks there are."""
    world_size = 2
    mp.spawn(ddp_rank, args=(world_size, scratch), nprocs=world_size)
    return world_size


def capture_gpu(scratch: Path) -> int:
    """Capture one CUDA rank into `scratch`; return how many ranks there are."""
    torch.manual_seed(0)
    record(gpu_step(), RankFiles.at(scratch, 0), gpu=True)
    return 1


def without_machine(kineto_text: str, file_name: str) -> str:
    """Kineto's text without host, paths or command lines, its layout untouched."""
    text = re.sub(r'("host_name": )"[^"]*"', r'\1"localhost"', kineto_text)
    text = re.sub(r'("traceName": )"[^"]*"', rf'\1"{file_name}"', text)
    # A process is named by what started it, which may be a path with arguments.
    return re.sub(
        r'("name": "process_name",.*?"args": \{\s*"name": )"[^"]*"',
        r'\1"python"',
        text,
        flags=re.DOTALL,
    )


def write_gzip(path: Path, text: str) -> None:
    """Write `text` with a gzip header that holds neither time nor file name."""
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=file, mtime=0) as stream,
    ):
        stream.write(text.encode())


def pack(raw: RankFiles, packed: RankFiles) -> None:
    """Scrub and compress one rank's traces."""
    write_gzip(packed.et, raw.et.read_text(encoding="utf-8"))
    kineto_name = packed.kineto.name.removesuffix(".gz")
    write_gzip(packed.kineto, without_machine(raw.kineto.read_text(encoding="utf-8"), kineto_name))


def machine_traces(text: str) -> Iterator[str]:
    """Yield what in `text` names this machine: host, user, absolute paths."""
    names = {socket.gethostname(), getpass.getuser()} - {"localhost"}
    named = "|".join(re.escape(name) for name in sorted(names))
    # A slash after a word is a unit ("GB/s"); before one, it starts a path.
    for match in re.finditer(rf"\b(?:{named})\b|(?<![\w)])/\w[^\"\s]*", text):
        yield match.group()


def rf_id(node: dict[str, Any]) -> int:
    """The id that ties an ET node to its Kineto event."""
    return next(int(a["value"]) for a in node["attrs"] if a["name"] == "rf_id")


def compare(et: dict[str, Any], kineto: dict[str, Any]) -> Agreement:
    """Join the two traces of a rank on the record function id."""
    events = [event for event in kineto["traceEvents"] if event.get("cat") in ("cpu_op", "user_annotation")]
    names = {event["args"]["Record function id"]: event["name"] for event in events}
    nodes = [n for n in et["nodes"] if not n["name"].startswith(ROOT_PREFIX)]
    shared = [node for node in nodes if rf_id(node) in names]
    matched = sum(node["name"] == names[rf_id(node)] for node in shared)
    return Agreement(
        et_nodes=len(et["nodes"]),
        et_root_nodes=len(et["nodes"]) - len(nodes),
        events=len(events),
        matched=matched,
        renamed=len(shared) - matched,
        external_id_differs=sum(
            event["args"]["External id"] != event["args"]["Record function id"] for event in events
        ),
        profiler_steps=sum(e["name"].startswith("ProfilerStep#") for e in events),
    )


def faults_of(agreement: Agreement) -> Iterator[str]:
    """Yield what is wrong with a rank whose traces agree no further than this."""
    if agreement.renamed:
        yield f"{agreement.renamed} ET nodes share their rf_id with another name"
    below_roots = agreement.et_nodes - agreement.et_root_nodes
    if agreement.matched < MIN_MATCHED * below_roots:
        yield f"only {agreement.matched} of {below_roots} ET nodes have their event"
    if agreement.profiler_steps != ACTIVE_STEPS:
        yield f"{agreement.profiler_steps} profiler steps, not {ACTIVE_STEPS}"


def verify(packed: RankFiles) -> Iterator[str]:
    """Read one rank's files back, print how they agree, and yield what is wrong."""
    texts = []
    for path in (packed.et, packed.kineto):
        texts.append(gzip.decompress(path.read_bytes()).decode())
        print(f"{path.name}: {path.stat().st_size:,} bytes, {len(texts[-1]):,} unpacked")
        for found in sorted(set(machine_traces(texts[-1]))):
            yield f"{path.name} names this machine: {found}"
    agreement = compare(*(json.loads(text) for text in texts))
    print(
        f"  ET nodes: {agreement.et_nodes} ({agreement.et_root_nodes} of them roots)\n"
        f"  Kineto cpu_op and user_annotation events: {agreement.events}\n"
        f"  same rf_id and name: {agreement.matched}\n"
        f"  same rf_id, other name: {agreement.renamed}\n"
        f"  events whose External id is not their rf_id: {agreement.external_id_differs}\n"
        f"  profiler steps: {agreement.profiler_steps}"
    )
    for fault in faults_of(agreement):
        yield f"{packed.et.name}: {fault}"


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
    capture = capture_gpu if arguments.gpu else capture_ddp
    faults: list[str] = []
    total_bytes = 0
    with tempfile.TemporaryDirectory() as scratch:
        for rank in range(capture(Path(scratch))):
            packed = RankFiles.at(folder, rank, ".json.gz")
            pack(RankFiles.at(Path(scratch), rank), packed)
            faults += verify(packed)
            total_bytes += packed.et.stat().st_size + packed.kineto.stat().st_size
    if total_bytes > MAX_TOTAL_BYTES:
        faults.append(f"{total_bytes:,} bytes in all, more than {MAX_TOTAL_BYTES:,}")
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
