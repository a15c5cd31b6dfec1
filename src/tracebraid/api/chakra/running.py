"""Chakra's `.et` files run on networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tracebraid.chakra.job_files import ChakraJobFiles, find_chakra_files, read_comm_groups
from tracebraid.chakra.wire.reading import read_rank
from tracebraid.errors import ArgumentError, InputError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.paths import shown, text_of
from tracebraid.model.chakra.chakra_rank import ChakraRank
from tracebraid.model.chakra.chakra_run import ChakraRun
from tracebraid.model.chakra.network import CollectiveSettings, Lanes, Network
from tracebraid.model.chakra.network_text import network_of_file, network_of_text, settings_of_file
from tracebraid.model.finding import Finding
from tracebraid.simulation.chakra.meetings import Groups
from tracebraid.simulation.chakra.run_ranks import run_ranks

__all__ = ["ChakraHardware", "run_chakra"]

_NETWORK_FILE = (".yml", ".yaml")


@dataclass(frozen=True)
class ChakraHardware:
    """What of a rank can run at once, and how collectives are done.

    Args:
        lanes: what of a rank can run at once.
        settings: how collectives are done; a path: a system file of ASTRA-sim.
    """

    lanes: Lanes | str = Lanes.ASTRA_SIM
    settings: CollectiveSettings | str | Path = field(default_factory=CollectiveSettings)


def run_chakra(
    paths: str | Path | Sequence[str | Path],
    *networks: str | Network,
    hardware: ChakraHardware | None = None,
    comm_group: str | Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> ChakraRun:
    """Run `.et` files on networks: when each rank ends, what it waits for, and which ranks deadlock.

    Args:
        paths: a folder of `PREFIX.RANK.et`, such a prefix, or the files: one for each of the ranks 0, 1, 2, ...
        networks: as text, `"ring,50GB/s,500ns"`, `"switch:8,400,1us+ring:4,25,2us"` or `"measured"`; a network file of
            ASTRA-sim (`.yml`); or a `Network`. None: `"measured"`.
        hardware: lanes of ranks and algorithms of collectives; None: those of ASTRA-sim's ring example.
        comm_group: the comm-group file; None: the one in the folder of the files, if there is one.
        progress: called with the share of files that is read, 0 to 1.

    Raises:
        ArgumentError: a network makes no sense, or does not fit the job.
        InputError: a file cannot be read, a rank is missing, a node waits for one that is not there or for itself in a
            circle, or names an unknown group or rank. Ranks that wait for each other are an answer: see `waits`.
        MissingLibraryError: protobuf or numba is not installed.

    Example::

        found = tracebraid.run_chakra("job/", "ring,50GB/s,500ns", "ring,100GB/s,500ns")
        print(found.runs.select("network", "end_ns", "speedup"))
        print(found.waits)
    """
    asked = [_network(network) for network in networks] or [network_of_text("measured")]
    known = hardware or ChakraHardware()
    settings, lanes = _settings(known.settings), _lanes(known.lanes)
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    job = find_chakra_files(
        [text_of(path) for path in named], None if comm_group is None else text_of(comm_group)
    )
    _refuse_gaps(job)
    findings: list[Finding] = []
    ranks = _read(job, findings, progress)
    found = run_ranks(ranks, _groups(job.groups_path), asked, settings, lanes)
    return replace(found, findings=tuple(findings))


def _network(network: str | Network) -> Network:
    """A network.

    Raises:
        ArgumentError: it makes no sense.
        InputError: it is a file that cannot be read.
    """
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


def _lanes(lanes: Lanes | str) -> Lanes:
    names = [known.value for known in Lanes]
    if isinstance(lanes, str) and lanes not in names:
        raise ArgumentError(f"no lanes {lanes!r} are known; known: {', '.join(names)}")
    return Lanes(lanes)


def _text(path: str) -> bytes:
    file = file_system_of(path).open(path)
    return file.read(0, file.size_bytes)


def _refuse_gaps(job: ChakraJobFiles) -> None:
    """Raise InputError where ranks are not 0, 1, 2, ... with a file each."""
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
    """The process groups of a comm-group file.

    Raises:
        InputError: it is not there, is no such file, or a group is empty or has a rank twice.
    """
    if not path:
        return Groups("", {})
    found = read_comm_groups(path)
    for name, ranks in found.items():
        if not ranks or len(set(ranks)) < len(ranks) or min(ranks) < 0:
            raise InputError(
                shown(path),
                "it is empty, or has a rank twice or a negative one",
                'Name each rank once, such as {"1": [0, 1]}',
                f"group {name}",
            )
    return Groups(shown(path), {name: tuple(ranks) for name, ranks in found.items()})


def _read(
    job: ChakraJobFiles, findings: list[Finding], progress: Callable[[float], None] | None
) -> Iterator[tuple[str, ChakraRank]]:
    """The files, read one after another; what is noticed in them is added to the findings."""
    for number, file in enumerate(job.files):
        rank = read_rank(file.path)
        findings += rank.findings
        yield shown(file.path), rank
        if progress is not None:
            progress((number + 1) / len(job.files))
