"""`python -m tools.fuzz [SEEDS] [FORMAT...]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tools.fuzz.formats import FORMATS, format_of
from tools.fuzz.mutants import mutant_of
from tools.fuzz.trial import calls_of, lay_out, try_call


def main(seeds: str = "100", *formats: str) -> int:
    """Try the seeds below a number; 1 where one failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        samples = {one: format_of(one).samples(Path(name)) for one in formats or FORMATS}
        for seed in range(int(seeds)):
            mutant = mutant_of(seed, samples)
            for call in calls_of(mutant):
                lay_out(mutant, Path(name) / "mutant")
                failure = try_call(mutant, call, Path(name) / "mutant")
                if failure is not None:
                    failed += 1
                    print(seed, mutant.format, mutant.mutations, failure)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
