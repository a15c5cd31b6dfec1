"""`tracebraid cache`."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import asdict

import tracebraid
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import TracePath
from tracebraid.cli.output import note, say_json
from tracebraid.cli.parameters import Option
from tracebraid.errors import InputError
from tracebraid.files import is_there
from tracebraid.model.quantities import size


@command(Group.EXPORT, 3)
def cache(
    path: TracePath,
    clear: Annotated[bool, Option("--clear", help="Delete the cached data of these traces.")] = False,
    json: Annotated[bool, Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Show or clear the cache that `--cache` made of these traces."""
    found = tracebraid.clear_cache(path) if clear else tracebraid.cache_info(path)
    if not found and "://" not in path and not is_there(path):
        raise InputError(path, "there is no such file or folder", "Check the path")
    if json:
        say_json({"caches": [asdict(info) for info in found], "cleared": clear})
        return
    if not found:
        note(f"{path}: there is no cache of these traces")
    for info in found:
        done = "deleted" if clear else f"of at most {size(info.limit_bytes)}"
        note(f"{info.folder}: {info.ranks:,} ranks, {size(info.size_bytes)} {done}")
