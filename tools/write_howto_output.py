"""Writes into docs/howto.md and pages like it what the commands of its console blocks print on the bundled traces.

Run `python tools/write_howto_output.py`; with `--check` it only says whether the pages are up to date.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from shutil import copytree
from unittest import mock

import tracebraid
from tracebraid.cli.main import run

PAGES = [
    Path(__file__).resolve().parents[1] / "docs" / name
    for name in ("howto.md", "critical_path.md", "what_if.md", "chakra/index.md")
]
BLOCK = re.compile(r"```console\n\$ tracebraid ([^\n]+)\n.*?```", re.S)
WIDTH = 100
"""Characters in a line of the page's code."""


@contextmanager
def chdir(folder: Path) -> Iterator[None]:
    """Work in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def block(arguments: str, folder: Path) -> str:
    """The console block of a command that runs beside a folder `traces`."""
    out = io.StringIO()
    with (
        chdir(folder),
        mock.patch.object(sys, "argv", ["tracebraid", *shlex.split(arguments)]),
        mock.patch.dict(os.environ, {"COLUMNS": str(WIDTH)}),
        redirect_stdout(out),
    ):
        try:
            run()
        except SystemExit as end:
            if end.code:
                raise
    printed = "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())
    lines = f"$ tracebraid {arguments}\n{printed}".rstrip()
    return f"```console\n{lines}\n```"


def page(text: str) -> str:
    """The page with what the commands print now."""
    with tempfile.TemporaryDirectory() as name:
        copytree(tracebraid.demo_path(), Path(name) / "traces")
        return BLOCK.sub(lambda match: block(match[1], Path(name)), text)


def main() -> int:
    """Write the pages, or check them."""
    for path in PAGES:
        old = path.read_text(encoding="utf-8")
        new = page(old)
        if new == old:
            continue
        if "--check" in sys.argv[1:]:
            return 1
        path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
