"""What Chakra's `.et` files hold, in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tracebraid.chakra.job_files import find_chakra_files
from tracebraid.chakra.statistics import job_stats, rank_stats
from tracebraid.chakra.wire.reading import read_rank
from tracebraid.filesystem.paths import text_of
from tracebraid.model.chakra.stats import ChakraStats

__all__ = ["chakra_stats"]


def chakra_stats(
    paths: str | Path | Sequence[str | Path], *, progress: Callable[[float], None] | None = None
) -> ChakraStats:
    """Count what `.et` files hold: nodes, durations, bytes, dependencies, by rank and together.

    Args:
        paths: a folder of `PREFIX.RANK.et`, such a prefix, or the files.
        progress: called with the share that is done, 0 to 1.

    Raises:
        InputError: there is no such file, or it cannot be read.
        MissingLibraryError: protobuf or numba is not installed.

    Example:
        ``chakra_stats("job").communication``
    """
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    files = find_chakra_files([text_of(path) for path in named], comm_group="").files
    ranks = []
    for number, file in enumerate(files):
        ranks.append(rank_stats(replace(read_rank(file.path), rank=file.rank)))
        if progress is not None:
            progress((number + 1) / len(files))
    return job_stats(ranks)
