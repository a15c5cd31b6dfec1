"""Chakra's `.et` files, their JSON, and the files of ASTRA-sim beside them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl

import tracebraid
from tests.chakra_jobs import random_job
from tests.chakra_ranks import rank_of
from tools.fuzz.calls.commands import new_file
from tools.fuzz.model import Call, FailureError, FailureKind, Format, Sample
from tools.fuzz.mutations.json_texts import JSON_VALUES
from tools.fuzz.mutations.protobuf_fields import messages_of, protobuf_fields
from tools.fuzz.mutations.raw_bytes import RAW_BYTES, among_files, whole_files

_SEEDS = (2, 5, 9)
_NETWORK = "topology: [ Ring ]\nnpus_count: [ %d ]\nbandwidth: [ 50.0 ]  # GB/s\nlatency: [ 500.0 ]  # ns\n"
_SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["direct"],
    "local-mem-bw": 1600,
}
_FIRST, _AS_JSON = "job.0.et", "first.json"


def _samples(folder: Path) -> list[Sample]:
    """Jobs of two to eight ranks, with the JSON of the first, a network and a system."""
    return [_sample(folder / f"job{seed}", seed) for seed in _SEEDS]


def _sample(folder: Path, seed: int) -> Sample:
    job = random_job(seed)
    folder.mkdir()
    for number, nodes in enumerate(job.ranks):
        tracebraid.chakra.write(folder / f"job.{number}.et", rank_of(number, nodes, ctrl=number % 2 == 1))
    tracebraid.chakra.to_json(folder / _FIRST, folder / _AS_JSON)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files["comm_groups.json"] = json.dumps(job.groups).encode()
    files["network.yml"] = (_NETWORK % len(job.ranks)).encode()
    files["system.json"] = json.dumps(_SYSTEM).encode()
    return Sample(f"job {seed}", files)


def _read(folder: Path, _: random.Random) -> None:
    """A file that is read is written and read again as the same."""
    rank = tracebraid.chakra.read(folder / _FIRST)
    again = new_file(folder, "again.0.et")
    tracebraid.chakra.write(again, rank)
    back = tracebraid.chakra.read(again)
    # Protobuf has no null in that field: a duration that no signed 64 bits hold comes back as 0.
    read = rank.nodes.with_columns(pl.col("duration_micros").fill_null(0))
    if not read.equals(back.nodes):
        raise FailureError(FailureKind.SILENT_LOSS, "what is written is not what was read")


def _feed(folder: Path, _: random.Random) -> None:
    for _node in tracebraid.chakra.Feeder(folder / _FIRST):
        pass


def _to_json(folder: Path, rng: random.Random) -> None:
    """A file that is converted whole comes back with the same messages."""
    out, again = new_file(folder, "out.json"), new_file(folder, "again.et")
    found = tracebraid.chakra.to_json(folder / _FIRST, out, lines=rng.random() < 0.5)
    tracebraid.chakra.from_json(out, again)
    if not found and messages_of(again.read_bytes()) != messages_of((folder / _FIRST).read_bytes()):
        raise FailureError(FailureKind.SILENT_LOSS, "the JSON does not give the same messages again")


def _from_json(folder: Path, _: random.Random) -> None:
    out = new_file(folder, "from_json.0.et")
    tracebraid.chakra.from_json(folder / _AS_JSON, out)
    tracebraid.chakra.read(out)


def _stats(folder: Path, _: random.Random) -> None:
    tracebraid.chakra.stats(folder)


def _check(folder: Path, rng: random.Random) -> None:
    tracebraid.chakra.check(folder, simulator=rng.choice((None, "astra-sim")))


def _run(folder: Path, rng: random.Random) -> None:
    networks = rng.choice(((), (str(folder / "network.yml"),), ("ring,50GB/s,500ns", "fully-connected")))
    lanes = rng.choice(("astra-sim", "streams"))
    hardware = tracebraid.chakra.ChakraHardware(lanes, folder / "system.json")
    tracebraid.chakra.run(folder, *networks, hardware=hardware)


def _show(folder: Path, rng: random.Random) -> None:
    ending = rng.choice((".svg", ".dot", ".graphml"))
    tracebraid.chakra.show(folder / _FIRST, new_file(folder, f"graph{ending}"))


FORMAT = Format(
    "chakra_et",
    _samples,
    (
        *protobuf_fields(".et") * 3,
        *(among_files((".json", ".yml"), change) for change in JSON_VALUES),
        *RAW_BYTES,
        whole_files,
    ),
    (Call("tracebraid.chakra.read", _read),),
    (
        Call("tracebraid.chakra.Feeder", _feed),
        Call("tracebraid.chakra.to_json", _to_json),
        Call("tracebraid.chakra.from_json", _from_json),
        Call("tracebraid.chakra.stats", _stats),
        Call("tracebraid.chakra.check", _check),
        Call("tracebraid.chakra.run", _run),
        Call("tracebraid.chakra.show", _show),
    ),
)
