"""Simulate `.et` files on networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from tracebraid.chakra.job_files import ChakraJobFiles, find_chakra_files, read_comm_groups
from tracebraid.chakra.running.meetings import Groups
from tracebraid.chakra.running.network import (
    CollectiveSettings,
    Lanes,
    Network,
    network_of_file,
    network_of_text,
    settings_of_file,
)
from tracebraid.chakra.running.results import ChakraRun
from tracebraid.chakra.running.run_ranks import run_ranks
from tracebraid.chakra.schema import ChakraRank
from tracebraid.chakra.wire.reading import read
from tracebraid.errors import ArgumentError, InputError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.paths import shown, text_of
from tracebraid.model.choices import choice
from tracebraid.model.finding import Finding

_NETWORK_FILE = (".yml", ".yaml")


class ChakraHardware(Struct, frozen=True):
    """Concurrency within a rank, the algorithms of collectives, and how messages are sent.

    Args:
        lanes: which nodes of a rank run concurrently.
        settings: algorithms of collectives and the roofline of work, or the path of an ASTRA-sim system file.
        rendezvous_bytes: the size in bytes from which on a send waits for its receive; None: none does.

    Raises:
        ArgumentError: `rendezvous_bytes` is negative.
    """

    lanes: Lanes | str = Lanes.ASTRA_SIM
    settings: CollectiveSettings | str | Path = field(default_factory=CollectiveSettings)
    rendezvous_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.rendezvous_bytes is not None and self.rendezvous_bytes < 0:
            raise ArgumentError(f"sends of {self.rendezvous_bytes} bytes: give a size of 0 bytes or more")


def run(
    paths: str | Path | Sequence[str | Path],
    *networks: str | Network,
    hardware: ChakraHardware | None = None,
    comm_group: str | Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> ChakraRun:
    """Simulate `.et` files on networks: end and waits of each rank, and deadlocks.

    Args:
        paths: a folder of `PREFIX.RANK.et`, such a prefix, or the files: one for each of the ranks 0, 1, 2, ...
        networks: text such as `"ring,50GB/s,500ns"`, `"switch:8,400,1us+ring:4,25,2us"` or `"measured"`; a network
            file of ASTRA-sim (`.yml`); or a `Network`. None: `"measured"`.
        hardware: lanes of ranks, algorithms of collectives, and sends that wait for their receives; None: those of
            ASTRA-sim's ring example.
        comm_group: the comm-group file; None: the one beside the files, with `comm_group` in its name or
            `PREFIX.json`, if there is one.
        progress: called with the share of files read, 0 to 1.

    Raises:
        ArgumentError: a network is invalid, or does not fit the job.
        InputError: a file cannot be read, a rank is missing, a node depends on a missing node or on itself in a
            cycle, names an unknown group or rank, or has operations, no duration and no roofline. A deadlock between
            ranks is an answer: see `waits`.
        MissingLibraryError: protobuf is not installed.

    Example::

        found = tracebraid.chakra.run("job/", "ring,50GB/s,500ns", "ring,100GB/s,500ns")
        print(found.runs.select("network", "end_ns", "speedup"))
        print(found.waits)
    """
    known_networks = [_network(network) for network in networks] or [network_of_text("measured")]
    known = hardware or ChakraHardware()
    settings, lanes = _settings(known.settings), choice(Lanes, known.lanes, "kind of lanes")
    job = find_chakra_files(paths, comm_group)
    _refuse_gaps(job)
    findings: list[Finding] = []
    ranks = _read(job, findings, progress)
    groups = _groups(job.groups_path)
    found = run_ranks(ranks, groups, known_networks, settings, lanes, known.rendezvous_bytes)
    return replace(found, findings=tuple(findings))


def _network(network: str | Network) -> Network:
    """Parse a network."""
    if isinstance(network, Network):
        return network
    if network.lower().endswith(_NETWORK_FILE):
        return network_of_file(_text(network).decode(errors="replace"), shown(network))
    return network_of_text(network)


def _settings(settings: CollectiveSettings | str | Path) -> CollectiveSettings:
    if isinstance(settings, CollectiveSettings):
        return settings
    path = text_of(settings)
    return settings_of_file(_text(path), shown(path))


def _text(path: str) -> bytes:
    file = file_system_of(path).open(path)
    return file.read(0, file.size_bytes)


def _refuse_gaps(job: ChakraJobFiles) -> None:
    """Raise InputError unless ranks are 0, 1, 2, ... with a file each."""
    numbers = [file.rank for file in job.files]
    for position, number in enumerate(numbers):
        if number == position:
            continue
        if number in numbers[:position]:
            problem, advice = (
                f"rank {number} has several files",
                "Name a folder or prefix with the files of one job",
            )
        else:
            problem = f"there is no file of rank {position}, and one of rank {number}"
            advice = "Add the file, or number ranks from 0 on: `tracebraid export --to chakra` does"
        raise InputError(shown(job.path), problem, advice)


def _groups(path: str) -> Groups:
    """Read the process groups of a comm-group file."""
    if not path:
        return Groups("", {})
    found = read_comm_groups(path)
    for name, ranks in found.items():
        if not ranks or len(set(ranks)) < len(ranks) or min(ranks) < 0:
            raise InputError(
                shown(path),
                "it is empty, or has a repeated or negative rank",
                'Name each rank once, such as {"1": [0, 1]}',
                f"group {name}",
            )
    return Groups(shown(path), {name: tuple(ranks) for name, ranks in found.items()})


def _read(
    job: ChakraJobFiles, findings: list[Finding], progress: Callable[[float], None] | None
) -> Iterator[tuple[str, ChakraRank]]:
    """Read the files in turn, and collect their findings."""
    for number, file in enumerate(job.files):
        rank = read(file.path)
        findings += rank.findings
        yield shown(file.path), rank
        if progress is not None:
            progress((number + 1) / len(job.files))
