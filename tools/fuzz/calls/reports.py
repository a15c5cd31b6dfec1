"""Calls that make reports: pages, JSON and text, of a job and of two."""

from __future__ import annotations

import random
from html.parser import HTMLParser
from pathlib import Path

from tools.fuzz.calls.commands import run_command
from tools.fuzz.calls.output import strict_json, unsteering
from tools.fuzz.calls.tables import require
from tools.fuzz.calls.values import odd_text
from tools.fuzz.model import Call

__all__ = ["REPORT_CALLS"]


class _Page(HTMLParser):
    """What of a page would run or be fetched."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[str] = []
        self.fetched: list[str] = []
        self.handlers: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script":
            self._inside = given.get("type") or "script"
            self.scripts.append("")
        self.handlers += [name for name in given if name.startswith("on")]
        for name in ("src", "href"):
            target = given.get(name) or ""
            if tag != "a" and "://" in target:
                self.fetched.append(target)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data
            if "json" in self._inside:
                strict_json(self.scripts[-1])


def _check_page(path: Path) -> None:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    require(not page.handlers, f"a page has handlers of events: {page.handlers[:3]}")
    require(not page.fetched, f"a page fetches {page.fetched[:3]}")


def _page(folder: Path, rng: random.Random) -> None:
    (folder / "out").mkdir(exist_ok=True)
    page = folder / "out" / "page.html"
    run_command("report", folder, "-o", page, *_options(rng))
    if page.exists():
        _check_page(page)


def _text(folder: Path, rng: random.Random) -> None:
    ended = run_command("report", folder, "--text", "--top", rng.choice("13"), *_options(rng))
    unsteering(ended.output)


def _json(folder: Path, rng: random.Random) -> None:
    run_command("report", folder, "--json", *_options(rng))


def _options(rng: random.Random) -> list[str]:
    options = ["--critical-path"] if rng.random() < 0.4 else []
    if rng.random() < 0.2:
        options += ["--steps", rng.choice(("1", "1-2", "ProfilerStep#2", odd_text(rng)))]
    if rng.random() < 0.2:
        options += ["--annotation", rng.choice(("aten::mm", odd_text(rng)))]
    if rng.random() < 0.2:
        options += ["--title", odd_text(rng)]
    return options + (["--rank", rng.choice("01")] if rng.random() < 0.2 else [])


def _comparison(folder: Path, rng: random.Random) -> None:
    """The job against the sample's own first rank, or against itself."""
    files = sorted(folder.glob("kineto_trace_*"))
    (folder / "out").mkdir(exist_ok=True)
    out = folder / "out" / rng.choice(("diff.html", "diff.json"))
    sides = [folder, rng.choice((folder, *files))]
    rng.shuffle(sides)
    ended = run_command(
        "diff", *sides, *rng.choice((["-o", out], ["--json"], [], ["--with-doubtful", "--json"]))
    )
    if out.suffix == ".html" and out.exists():
        _check_page(out)
    elif out.exists():
        strict_json(out.read_bytes())
    require(ended.code != 2 or bool(ended.messages), "wrong usage without a word")


REPORT_CALLS = (
    Call("report --json", _json),
    Call("report --text", _text),
    Call("report page", _page),
    Call("diff", _comparison),
)
"""Reports of the job in a folder. They take a second each, more than any other call."""
