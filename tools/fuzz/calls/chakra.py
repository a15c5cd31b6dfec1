"""Calls that make Chakra's .et files of a job, and ask them: check, run, stats, show, JSON, and the peers' commands."""

from __future__ import annotations

import random
from pathlib import Path

import tracebraid
from tools.fuzz.calls.commands import finite, not_below_0, odd_text, require, run_command, strict_json
from tools.fuzz.calls.graph import dot_graph, xml_graph
from tools.fuzz.model import Call
from tracebraid import ExportOptions
from tracebraid.chakra import ChakraOptions, Detail, MissingRanks
from tracebraid.errors import ArgumentError, InputError

_NETWORKS = (
    *(
        "measured",
        "ring,50GB/s,500ns",
        "switch:2,100,1us",
        "fully-connected",
        "ring:2,1GB/s,0ns+ring:1,1,1us",
    ),
    *("ring,0GB/s,0ns", "switch:3,400,1us+ring:4,25,2us", "ring,1e308GB/s,1ns", "nothing", ""),
)


def _exported(folder: Path, rng: random.Random) -> Path | None:
    """The job as .et files; None where it was refused."""
    out = folder / "out" / "et"
    out.parent.mkdir(exist_ok=True)
    options = ChakraOptions(
        detail=rng.choice((None, *Detail)),
        steps=rng.choice((None, None, None, "1", "2", "1..2", "2-3", odd_text(rng))),
        repeat=rng.choice((1, 1, 1, 2, 3)),
        missing=rng.choice((MissingRanks.SHRINK, MissingRanks.REPLICATE, *MissingRanks)),
        world_size=rng.choice((None, None, None, 1, 2, 3, 4, 8)),
        simulator=rng.choice((None, "astra-sim")),
    )
    annotation = rng.choice(("ProfilerStep",) * 5 + ("aten::mm", odd_text(rng)))
    try:
        job = tracebraid.open(folder, annotation=annotation, unreadable="skip")
        tracebraid.export(job, out, "chakra", ExportOptions(chakra=options))
    except ArgumentError:
        require(not list(out.parent.iterdir()), "a refused export left something")
        return None
    return out


def _checked(folder: Path, rng: random.Random) -> None:
    """Run exported traces to their end: no check finds an error, and it is played without a deadlock."""
    out = _exported(folder, rng)
    if out is None:
        return
    simulator = "astra-sim" if (out / "astra-sim").exists() else None
    found = tracebraid.chakra.check(out, simulator=simulator)
    require(found.runs, f"what was exported does not run: {[str(one) for one in found.findings[:3]]}")
    strict_json((out / "export.json").read_bytes())
    for path in (out / "astra-sim").glob("*.json"):
        strict_json(path.read_bytes())
    run = tracebraid.chakra.run(out)
    require(run.is_finished, "what was exported deadlocks")


def _played(folder: Path, rng: random.Random) -> None:
    """The files on other networks: refused, or numbers."""
    out = _exported(folder, rng)
    if out is None:
        return
    networks = rng.sample(_NETWORKS, rng.choice((1, 2)))
    try:
        run = tracebraid.chakra.run(out, *networks)
    except ArgumentError:
        return
    require(run.is_finished, f"what was exported deadlocks on {networks}")
    for name in ("runs", "ranks", "waits"):
        finite(f"chakra run {name}", getattr(run, name))
    not_below_0("chakra run", run.runs, "end_ns")


def _shown(folder: Path, rng: random.Random) -> None:
    """Pictures, JSON and statistics of a file; its JSON gives back its bytes."""
    out = _exported(folder, rng)
    if out is None:
        return
    file = rng.choice(sorted(out.glob("*.et")))
    run_command("chakra", "stats", out, *rng.choice(([], ["--json"])))
    run_command("chakra", "check", out, *rng.choice(([], ["--json"], ["--simulator", "astra-sim"])))
    network = rng.choice(_NETWORKS)
    run_command("chakra", "run", out, "--network", network, *rng.choice(([], ["--json"])))
    _pictures(file, out.parent, rng)
    _json(file, out.parent, rng)


def _pictures(file: Path, folder: Path, rng: random.Random) -> None:
    picture = folder / rng.choice(("a.svg", "a.dot", "a.graphml"))
    choice = rng.choice(
        ([], ["--top", "5"], ["--name", rng.choice(("aten", odd_text(rng)))], ["--node", "1", "--near", "2"])
    )
    if run_command("chakra", "show", file, "-o", picture, *choice).code:
        return
    _graph(picture)
    other = folder / rng.choice(("b.svg", "b.dot", "b.graphml"))
    arguments = ("--input_filename", file, "--output_filename", other)
    if not run_command("chakra-visualizer", *arguments).code:
        _graph(other)


def _graph(path: Path) -> None:
    if path.suffix == ".dot":
        dot_graph(path.read_text())
    else:
        xml_graph(path.read_bytes())


def _json(file: Path, folder: Path, rng: random.Random) -> None:
    text, again = folder / "a.json", folder / "again.et"
    lines = rng.choice((True, False))
    tracebraid.chakra.to_json(file, text, lines)
    for document in text.read_bytes().splitlines() if lines else [text.read_bytes()]:
        strict_json(document)
    tracebraid.chakra.from_json(text, again)
    require(again.read_bytes() == file.read_bytes(), "JSON of an .et file gives other bytes")
    peers, from_peers = folder / "peers.json", folder / "peers.et"
    run_command("chakra-jsonizer", "--input_filename", file, "--output_filename", peers)
    tracebraid.chakra.from_json(peers, from_peers)


def _converted(folder: Path, rng: random.Random) -> None:
    """ET+ of a rank as the linker writes it, and the .et file of that."""
    ets, kinetos = sorted(folder.glob("torch_et_*")), sorted(folder.glob("kineto_trace_*"))
    if not ets or not kinetos:
        return
    et, kineto = rng.choice(ets), rng.choice(kinetos)
    plus, out = folder / "out" / "plus.json", folder / "out" / "job.0.et"
    plus.parent.mkdir(exist_ok=True)
    if rng.random() < 0.5:
        tracebraid.write_et_plus(tracebraid.link(et, kineto), plus)
    else:
        link = ("--chakra-host-trace", et, "--chakra-device-trace", kineto, "--output-file", plus)
        run_command("chakra-trace-link", *link, *rng.choice(([], ["--json"], ["--rank", "0"])))
    if not plus.exists():
        return
    strict_json(plus.read_bytes())
    if rng.random() < 0.5:
        run_command("chakra", "convert", plus, "-o", out, *rng.choice(([], ["--json"])))
    else:
        run_command("chakra-converter", "PyTorch", "--input", plus, "--output", out, "--simulate")
    if out.exists():
        tracebraid.chakra.read(out)
        found = tracebraid.chakra.check(out)
        require(found.runs, f"what was converted does not run: {[str(one) for one in found.findings[:3]]}")


def _linked_as_peer(folder: Path, rng: random.Random) -> None:
    """trace_link writes its ET+ beside the Execution Trace."""
    ets, kinetos = sorted(folder.glob("torch_et_*")), sorted(folder.glob("kineto_trace_*"))
    if not ets or not kinetos:
        raise InputError(str(folder), "there is no pair", "Nothing is asked")
    et = folder / "out" / "et.json"
    et.parent.mkdir(exist_ok=True)
    et.write_bytes(ets[0].read_bytes())
    run_command("trace-link", "--et-file", et, "--kineto-file", rng.choice(kinetos))
    for path in et.parent.glob("*_plus.json"):
        strict_json(path.read_bytes())


CHAKRA_CALLS = (
    Call("export --to chakra", _checked),
    Call("chakra run", _played),
    Call("chakra show", _shown),
    Call("chakra convert", _converted),
    Call("trace-link", _linked_as_peer),
)
"""Chakra's files of the job in a folder."""
