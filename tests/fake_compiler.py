"""Compilers that compile nothing, for tests of how the native recorder is built."""

from __future__ import annotations

from pathlib import Path

LINKS = "-shared"


class FakeCompiler:
    """A program that says which version it is, as a compiler does, and then does what a shell script says.

    Args:
        folder: where to put it.
        script: what it does when it is to compile or to link.
    """

    def __init__(self, folder: Path, script: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._calls = folder / "c++", folder / "calls"
        self.path.write_text(
            "#!/bin/sh\n"
            'case "$*" in -v|--version|-dumpfullversion*) echo "g++ (GCC) 13.0.0"; exit 0;; esac\n'
            f'echo "$*" >> {self._calls}\n'
            f"{script}\n"
        )
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """What it was asked to compile or to link, each as one line."""
        return self._calls.read_text().splitlines() if self._calls.exists() else []


def one_that_works(folder: Path, library: Path) -> FakeCompiler:
    """It makes a copy of a library, whatever it is asked for."""
    loop = 'while [ $# -gt 0 ]; do case "$1" in'
    copied = f'-o) cp {library} "$2";; -MF) echo x: > "$2";; esac; shift; done'
    return FakeCompiler(folder, f"{loop} {copied}")


def one_that_fails(folder: Path) -> FakeCompiler:
    """It says `error: boom`."""
    return FakeCompiler(folder, 'echo "recorder.cpp:1:1: error: boom"; exit 1')
