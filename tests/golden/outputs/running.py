"""Run command lines in this process, in a folder of inputs."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tracebraid
from tests.golden.outputs.cases import TOPICS, Case
from tests.golden.outputs.inputs import DAMAGED, OWN, Inputs
from tests.golden.outputs.shortened import (
    digest_of,
    file_lines,
    first_lines,
    is_json,
    json_lines,
    rows_by_table,
)
from tracebraid.cli.main import run
from tracebraid.version import __version__

__all__ = ["Runner"]

_STORE = re.compile(r"\.tbstore/|\.tracebraid")
"""Files of a store or a cache, which are read by commands, and not compared themselves."""
_SIZE = re.compile(r"\b\d[\d,.]*\s?(?:B|KB|MB|GB)\b")
_WRITTEN = re.compile(rf"^(?:out|{OWN})[^:]*:.*$", re.MULTILINE)

_USAGE = re.compile(r"\AUsage: .*?(?=^Error: )", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class _Output:
    code: int
    stdout: str
    stderr: str
    files: dict[str, Path]


class Runner:
    """Runs command lines. Those that open the same traces share what the first one read.

    Args:
        folder: an empty one, for the traces.
        keep: where each output is written in full, too.
        one_form: run each line once: its first form, such as the narrowest terminal, stands for the others.
    """

    def __init__(self, folder: Path, keep: Path | None = None, one_form: bool = False) -> None:
        self.folder, self._keep, self._one_form = folder.resolve(), keep, one_form
        self._inputs = Inputs(self.folder, lambda line: _run_here(shlex.split(line), None, self.folder))
        self._opened: dict[str, tracebraid.Job] = {}

    def sections(self, topic: str) -> Iterator[tuple[str, list[str]]]:
        """Yield the command lines of a topic, each with the lines of its section of the golden file."""
        seen: set[str] = set()
        for case in TOPICS[topic](self._printed):
            name = case.name or case.line
            assert name not in seen, f"{topic} has {name} twice"
            seen.add(name)
            yield name, self._lines(topic, case)

    def _printed(self, line: str) -> str:
        with self.running(line, None) as output:
            return output.stdout

    def _lines(self, topic: str, case: Case) -> list[str]:
        found: dict[str, list[str]] = {}
        text: list[str] = []
        details: list[str] = []
        forms = case.forms.split()[: 1 if self._one_form else None]
        for form in forms:
            option = "" if form.isdecimal() or form == "pipe" else f" --{form}"
            with self.running(case.line + option, int(form) if form.isdecimal() else None) as output:
                digest = digest_of(output.stdout, output.stderr, output.code)
                found.setdefault(digest, []).append(form)
                if form == forms[0]:
                    text = [
                        *(f"| {line}".rstrip() for line in first_lines(output.stdout, case.kept)),
                        *(f"! {line}".rstrip() for line in _said(output.stderr, case.kept)),
                    ]
                    details = list(file_lines(self._compared(output), case.members))
                if case.members and is_json(output.stdout):
                    details += [f"{form} {line}" for line in json_lines(output.stdout)]
                elif case.members and case.line.endswith("--csv"):
                    details += rows_by_table(output.stdout)
                self._keep_in_full(topic, case, form, output)
        return [*(f"{','.join(forms)}: {digest}" for digest, forms in found.items()), *text, *details]

    def _compared(self, output: _Output) -> dict[str, Path | str]:
        """The files to compare; of simulators' nodes, whose header names the version, what `chakra json` prints."""
        return {
            name: self._nodes(name) if name.endswith(".et") else path
            for name, path in output.files.items()
            if not _STORE.search(name)
        }

    def _nodes(self, name: str) -> str:
        return self._masked(_run_here(["chakra", "json", name, "--lines"], None, self.folder)[1])

    def _keep_in_full(self, topic: str, case: Case, form: str, output: _Output) -> None:
        if self._keep is None:
            return
        name = re.sub(r"[^\w.@+-]+", "_", case.name or case.line)[:150]
        target = self._keep / topic / f"{name}@{form}.txt"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{output.stdout}--- exit code {output.code}\n{output.stderr}", "utf-8")
        for written, content in self._compared(output).items():
            copy = target.with_suffix("") / written
            copy.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                copy.write_text(content, "utf-8")
            else:
                shutil.copy(content, copy)

    @contextmanager
    def running(self, line: str, width: int | None) -> Iterator[_Output]:
        """Run a command line; the files that it wrote are there until the end of the block.

        Args:
            line: without `tracebraid`.
            width: the columns of the terminal that it prints on; None: it prints into a pipe.
        """
        argv = shlex.split(line)
        for argument in argv:
            self._inputs.provide(argument)
        before = set(_files(self.folder))
        try:
            with self._sharing():
                code, stdout, stderr = _run_here(argv, width, self.folder)
            files = {name: path for name, path in _files(self.folder).items() if name not in before}
            yield _Output(code, self._masked(stdout), self._masked(stderr), files)
        finally:
            for path in self.folder.iterdir():
                if path.name not in self._inputs.names:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _masked(self, text: str) -> str:
        """Without what another folder, version or library changes: sizes of compressed files too."""
        text = text.replace(str(self.folder), "FOLDER").replace(__version__, "VERSION")
        return _WRITTEN.sub(lambda line: _SIZE.sub("SIZE", line.group()), text)

    @contextmanager
    def _sharing(self) -> Iterator[None]:
        """Commands open traces that do not change once; wherever they have `tracebraid.open` from."""
        _shared.runner, public = self, tracebraid.open
        with ExitStack() as patches:
            for name, module in [*sys.modules.items()]:
                if name.partition(".")[0] == "tracebraid":
                    for member in [member for member, value in vars(module).items() if value is public]:
                        patches.enter_context(patch.object(module, member, _shared))
            try:
                yield
            finally:
                _shared.runner = None

    def open_once(self, path: str, *arguments: Any, **options: Any) -> tracebraid.Job:
        """As `tracebraid.open`; the job and its ranks stay open for later command lines."""
        if (
            options.get("cache")
            or path.startswith((OWN, "cut"))
            or path.endswith(".tbstore")
            or path in DAMAGED
        ):
            return _open(path, *arguments, **options)
        key = repr(
            (path, arguments, sorted((name, value) for name, value in options.items() if name != "engine"))
        )
        if key not in self._opened:
            job = _open(path, *arguments, **options)
            for rank in job.ranks:
                job[rank]
            self._opened[key] = job
        return self._opened[key]


_open = tracebraid.open


class _Shared:
    """Stands for `tracebraid.open` while a runner runs a command; what keeps it for longer opens as ever."""

    runner: Runner | None = None

    def __call__(self, path: Any, *arguments: Any, **options: Any) -> tracebraid.Job:
        if self.runner is None:
            return _open(path, *arguments, **options)
        return self.runner.open_once(str(path), *arguments, **options)


_shared = _Shared()


class _Stream(io.TextIOWrapper):
    """Standard output or error; perhaps a terminal."""

    def __init__(self, is_terminal: bool) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, "utf-8")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def text(self) -> str:
        self.flush()
        return self.bytes.getvalue().decode("utf-8", "backslashreplace")


def _run_here(argv: list[str], width: int | None, folder: Path) -> tuple[int, str, str]:
    """Run a command line in this process, as a new one would be that a shell starts."""
    stdout, stderr = _Stream(width is not None), _Stream(False)
    hook, before = sys.unraisablehook, Path.cwd()
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    environment |= {"LINES": "50", "TERM": "dumb"} | ({"COLUMNS": str(width)} if width else {})
    with (
        patch.dict(os.environ, environment, clear=True),
        patch.object(sys, "argv", ["tracebraid", *argv]),
        patch.object(
            sys.modules["__main__"], "__package__", None, create=True
        ),  # Typer shows it as the program
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())),
        patch.object(sys, "stdout", stdout),
        patch.object(sys, "stderr", stderr),
    ):
        os.chdir(folder)
        try:
            run()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            os.chdir(before)
            sys.unraisablehook = hook
    return code, stdout.text(), stderr.text()


def _said(stderr: str, kept: int) -> list[str]:
    """The first lines of standard error; of wrong usage what is wrong, without how the command is used."""
    return first_lines(_USAGE.sub("", stderr), min(kept, 4))


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
