"""The program of a scenario: `python -m tools.stress.program SCENARIO SEED FOLDER [full]`."""

from __future__ import annotations

import resource
import sys
import warnings
from pathlib import Path


def main(name: str, seed: str, folder: str, *words: str) -> None:
    """Run a scenario in this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import torch

    from tools.stress.run import Run
    from tools.stress.scenarios import SCENARIOS

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    run = Run(int(seed), Path(folder), "full" in words)
    SCENARIOS[name].work(run)
    run.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
