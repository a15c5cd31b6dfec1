"""Jobs that ASTRA-sim is to run to the end, and what it said of them when it last did.

`ASTRA_SIM=... python -m tests.integration.astra_sim` runs it on all of them and records the cycles of their ranks.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tracebraid
from tests.captures import CAPTURES
from tests.conftest import find_real_traces
from tests.integration.command import run
from tests.waiting import HANG_S
from tracebraid.chakra import Detail, MissingRanks, SimulatorOptions
from tracebraid.chakra.exporting.astra_sim import RUN_SCRIPT, SimulatorTraces, write_simulator_files

RECORD = Path(__file__).with_name("astra_sim_cycles.json")
FOLDER = "astra-sim"
_FINISHED = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles")


@dataclass(frozen=True)
class Exported:
    """A job that is exported.

    Args:
        path: where its traces are: of the captures of these tests, of the bundled ones (`demo`) or of other people's.
        missing: what becomes of ranks without a trace.
        world_size: ranks that are simulated; None: those of the job.
    """

    path: str
    missing: MissingRanks = MissingRanks.REFUSE
    world_size: int | None = None

    @property
    def traces(self) -> Path | None:
        """The folder; None where it is not here."""
        if self.path == "demo":
            return tracebraid.demo_path()
        if (CAPTURES / self.path).is_dir():
            return CAPTURES / self.path
        real = find_real_traces()
        return None if real is None else real / self.path


EXPORTED = {
    "demo": Exported("demo"),
    **{
        path.name: Exported(path.name)
        for path in sorted(CAPTURES.iterdir())
        if path.is_dir() and path.name[-1].isdigit()
    },
    "dlrm shrunk": Exported("pairs/dlrm_v100_8rank", MissingRanks.SHRINK),
    "dlrm replicated": Exported("pairs/dlrm_v100_8rank", MissingRanks.REPLICATE),
    "simple_add twice": Exported("pairs/simple_add_a100", MissingRanks.REPLICATE, 2),
    "linear twice": Exported("pairs/linear_2080ti", MissingRanks.REPLICATE, 2),
}
_SMALL = "--layers 4 --hidden 256 --heads 4 --sequence 128 --vocab 1000"
GENERATED = {
    "golden": "chain --ranks 4 --chain 'COMP 100us > ALL_REDUCE 1MiB > COMP 50us'",
    **{
        f"{name} of {ranks}": f"{name} --ranks {ranks}"
        for name in ("ring-all-reduce", "ring-all-gather", "tree-broadcast", "tree-reduce", "tree-all-reduce")
        for ranks in (2, 7, 64)
    },
    "data 2": f"transformer {_SMALL} --data 2",
    "tensor 2": f"transformer {_SMALL} --tensor 2",
    "pipeline 2": f"transformer {_SMALL} --pipeline 2 --micro-batches 3",
    "experts 4": f"transformer {_SMALL} --data 2 --expert 2 --experts 4",
    "fully sharded 4": f"transformer {_SMALL} --data 4 --fully-sharded",
    "all 16": f"transformer {_SMALL} "
    "--data 2 --tensor 2 --pipeline 2 --expert 2 --experts 8 --recompute --fully-sharded",
    "grid 64": f"transformer {_SMALL} --data 4 --tensor 4 --pipeline 4 --micro-batches 4",
    "data 64": f"transformer {_SMALL} --data 64",
}

JOBS = [*(f"{name}, {detail.value}" for name in EXPORTED for detail in Detail), *GENERATED]


def binary() -> str | None:
    """ASTRA-sim, where it is here."""
    return os.environ.get("ASTRA_SIM")


def export_job(job: Exported, detail: Detail, folder: Path) -> None:
    """Write the files of a job, and ASTRA-sim's."""
    assert job.traces is not None
    options = tracebraid.chakra.ChakraOptions(
        detail, missing=job.missing, world_size=job.world_size, simulator="astra-sim", allow_alone=True
    )
    tracebraid.export(tracebraid.open(job.traces), folder, "chakra", tracebraid.ExportOptions(chakra=options))


def generate_job(arguments: str, folder: Path) -> None:
    """Write the files of a synthetic job, and ASTRA-sim's."""
    done = run("chakra", "generate", *shlex.split(arguments), "-o", folder)
    assert done.returncode == 0, done.stderr
    ranks = len(list(folder.glob("*.et")))
    (folder / FOLDER).mkdir()
    groups = "../comm_groups.json" if (folder / "comm_groups.json").exists() else None
    write_simulator_files(folder / FOLDER, SimulatorTraces(ranks, "../job", groups), SimulatorOptions())


def cycles_of(folder: Path) -> list[int]:
    """The cycles of each rank, as ASTRA-sim says; it has to finish them all and to complain of nothing."""
    done = subprocess.run(
        [folder / FOLDER / RUN_SCRIPT],
        env=os.environ | {"ASTRA_SIM": binary() or ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stderr
    cycles = {int(rank): int(number) for rank, number in _FINISHED.findall(done.stdout)}
    assert sorted(cycles) == list(range(len(cycles)))
    return [cycles[rank] for rank in sorted(cycles)]


def our_ends_ns(folder: Path) -> list[int]:
    """When each rank ends in our own simulation of the same network."""
    found = tracebraid.chakra.run(folder, str(folder / FOLDER / "network.yml"))
    return found.ranks.sort("rank").get_column("end_ns").to_list()


def recorded() -> dict[str, list[int]]:
    """The cycles of each rank of each job, as ASTRA-sim said when it was last asked."""
    found: dict[str, list[int]] = json.loads(RECORD.read_text())
    return found


def written(name: str, folder: Path) -> Path | None:
    """The files of a job (`demo, merged`, or the name of a generated one); None where its traces are not here."""
    if name in GENERATED:
        generate_job(GENERATED[name], folder)
        return folder
    job, detail = name.rsplit(", ", 1)
    if EXPORTED[job].traces is None:
        return None
    export_job(EXPORTED[job], Detail(detail), folder)
    return folder


def main() -> None:
    """Record what ASTRA-sim says."""
    with tempfile.TemporaryDirectory() as name:
        found = {}
        for job in JOBS:
            out = written(job, Path(name) / job)
            assert out is not None, f"the traces of {job} are not here"
            found[job] = cycles_of(out)
            ours = our_ends_ns(out)
            worst = max(abs(end / cycles - 1) for end, cycles in zip(ours, found[job], strict=True))
            print(f"{job}: {max(found[job]):,} cycles; ours differ by {worst:.4%}", file=sys.stderr)
    RECORD.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
