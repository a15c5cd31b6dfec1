"""Repeats one mutant in this process, and shows the tracebacks."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tools.fuzz.formats import format_of
from tools.fuzz.model import Seed
from tools.fuzz.mutants import mutant_of
from tools.fuzz.trial import calls_of, lay_out, try_call

__all__ = ["replay"]


def replay(text: str, keep: Path | None) -> int:
    """Ask the mutant of a seed what a run would; 1 where a call failed.

    Args:
        text: the seed, `FORMAT:NUMBER`.
        keep: where its files are left; None: nowhere.
    """
    seed = Seed.of(text)
    with tempfile.TemporaryDirectory(prefix="tracebraid-fuzz-") as name:
        folder = Path(name).resolve()
        (folder / "samples").mkdir()
        mutant = mutant_of(seed, {seed.format: format_of(seed.format).samples(folder / "samples")})
        print(f"{seed}: sample {mutant.sample}, {', '.join(mutant.mutations)}")
        print("\n".join(f"  {path}: {len(data):,} bytes" for path, data in sorted(mutant.files.items())))
        if keep is not None:
            lay_out(mutant, keep)
        asked = [try_call(mutant, call, folder / "mutant") for call in calls_of(mutant)]
    for one in asked:
        print(f"{one.call}: {one.outcome.value} in {1000 * one.took_s:.0f} ms {one.message}".rstrip())
        if one.failure is not None:
            print(f"  {one.failure.kind.value}: {one.failure.message}\n{one.failure.traceback}")
    return int(any(one.failure is not None for one in asked))
