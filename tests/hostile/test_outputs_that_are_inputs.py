"""An output that is one of the files which are read is refused by whatever name, by every command that writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.every_command import BASES, forms
from tests.integration.command import run
from tracebraid import OutputError, convert_chakra, link, write_et_plus
from tracebraid.api.chakra.json_text import chakra_jsonizer
from tracebraid.api.chakra.showing import visualize_chakra

READ = ("et", "kineto", "plus", "nodes")


def aliases(file: Path, folder: Path, suffix: str) -> Iterator[Path]:
    """Names of a file."""
    yield file
    yield file.parent / ".." / file.parent.name / file.name
    hard, soft = folder / f"hard{suffix}", folder / f"soft{suffix}"
    hard.hardlink_to(file)
    soft.symlink_to(file)
    yield from (hard, soft)


@pytest.mark.parametrize("command", [name for name in BASES if name not in ("trace-link", "demo", "cache")])
def test_a_command_does_not_replace_what_it_reads(
    command: str, inputs: dict[str, Path], tmp_path: Path
) -> None:
    for form in forms(command):
        names = [name for name in READ if f"{{{name}}}" in form.arguments]
        if form.suffix is None or (not names and form is not first_that_writes(command)):
            continue
        for name in names or ["kineto"]:
            content = inputs[name].read_bytes()
            folder = tmp_path / f"{name}{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            for out in aliases(inputs[name], folder, form.suffix):
                done = run(*form.line(inputs, out))
                assert done.returncode in (1, 2), (form, out)
                assert inputs[name].read_bytes() == content
                assert out.exists()


def first_that_writes(command: str) -> object:
    return next((form for form in forms(command) if form.suffix is not None), None)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("plus", lambda read, out: convert_chakra(read, out, overwrite=True)),
        ("nodes", chakra_jsonizer),
        ("nodes", visualize_chakra),
        ("kineto", lambda read, out: write_et_plus(link(read.with_name("torch_et_0.json"), read), out)),
        ("et", lambda read, out: write_et_plus(link(read, read.with_name("kineto_trace_0.json")), out)),
    ],
)
def test_a_function_that_replaces_files_refuses_its_input(
    name: str, write: Callable[[Path, Path], object], inputs: dict[str, Path], tmp_path: Path
) -> None:
    content = inputs[name].read_bytes()
    for out in aliases(inputs[name], tmp_path, ".dot"):
        if write is visualize_chakra and out.suffix != ".dot":
            continue
        with pytest.raises(OutputError):
            write(inputs[name], out)
        assert inputs[name].read_bytes() == content
