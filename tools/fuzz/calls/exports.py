"""Exports, views and reports, each read again."""

from __future__ import annotations

import csv
import gzip
import io
import random
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl

import tracebraid
from tests.perfetto_trace import shown, shown_file
from tests.unit.viewer.serving import ask
from tools.fuzz.calls.commands import odd_text, require, run_command, strict_json, unsteering
from tools.fuzz.calls.graph import dot_graph, xml_graph
from tools.fuzz.model import Call
from tracebraid import ExportOptions
from tracebraid.api.exports.export import Exported
from tracebraid.api.viewing import report_server
from tracebraid.errors import ArgumentError
from tracebraid.viewer import TIMELINE


def _view(folder: Path, rng: random.Random) -> None:
    annotation = rng.choice(("ProfilerStep", "aten::mm"))
    job = tracebraid.open(folder, annotation=annotation, unreadable="skip")
    made = tracebraid.report(job, with_graph=False)
    with report_server(job, made) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            page, timeline = ask(server), ask(server, TIMELINE)
        finally:
            server.shutdown()
            thread.join()
    require(page.status == 200, f"the page is answered with {page.status}")
    require(
        timeline.status == 200, f"the timeline is answered with {timeline.status}: {timeline.body[:200]!r}"
    )
    shown(gzip.decompress(timeline.body))


VIEW_CALLS = (Call("view", _view),)
"""The job in a folder, in a browser."""


_TABLES = {"parquet": "parquet", "arrow": "arrow", "csv": "csv", "json": "json"}
"""Formats that are a folder of tables, and how the names of their files end."""


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def _perfetto(done: Exported) -> None:
    shown_file(done.path)


def _chrome(done: Exported) -> None:
    found = strict_json(_content(done.path))
    require(isinstance(found["traceEvents"], list), "a Chrome trace without a list of events")
    for event in found["traceEvents"]:
        require(isinstance(event["ph"], str) and isinstance(event["pid"], int), f"no event: {event}")
        require(event["ph"] != "X" or event["dur"] >= 0, f"a duration is below 0: {event}")


def _speedscope(done: Exported) -> None:
    found = strict_json(_content(done.path))
    frames = found["shared"]["frames"]
    for profile in found["profiles"]:
        require(
            profile["endValue"] >= profile["startValue"],
            f"a profile ends before it starts: {profile['name']}",
        )
        if profile["type"] == "sampled":
            require(len(profile["samples"]) == len(profile["weights"]), "samples without weights")
            require(
                all(0 <= frame < len(frames) for sample in profile["samples"] for frame in sample), "no frame"
            )
            require(all(weight >= 0 for weight in profile["weights"]), "a weight is below 0")
        else:
            _check_opened(profile, len(frames))


def _check_opened(profile: Mapping[str, Any], frames: int) -> None:
    """Each frame is closed by its end, in order, and no moment is before the one above it."""
    open_frames, last = [], profile["startValue"]
    for event in profile["events"]:
        require(0 <= event["frame"] < frames and event["at"] >= last, f"no event of a profile: {event}")
        last = event["at"]
        if event["type"] == "O":
            open_frames.append(event["frame"])
        else:
            require(
                bool(open_frames) and open_frames.pop() == event["frame"],
                "frames are closed in another order",
            )
    require(not open_frames, "a frame is not closed")


def _collapsed(done: Exported) -> None:
    for line in _content(done.path).decode().split("\n")[:-1]:
        stack, _, count = line.rpartition(" ")
        require(
            bool(stack) and count.isascii() and count.isdecimal(), f"no line of a flame graph: {line[:200]!r}"
        )


def _dot(done: Exported) -> None:
    dot_graph(_content(done.path).decode())


def _graphml(done: Exported) -> None:
    xml_graph(_content(done.path))


def _sqlite(done: Exported) -> None:
    with closing(sqlite3.connect(done.path)) as database:
        require(database.execute("PRAGMA integrity_check").fetchone() == ("ok",), "the database is damaged")
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        own = [name for name in names if name not in ("tables", "columns")]
        rows = {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in own}
    _check_rows(done, rows)


def _tables(kind: str, done: Exported) -> None:
    files = [path for path in done.path.rglob(f"*.{kind}") if path.name != "schema.json"]
    _check_rows(done, {path.stem: _ROWS[kind](path) for path in files})


def _check_rows(done: Exported, rows: Mapping[str, int]) -> None:
    found = sum(rows.values())
    require(found == done.rows, f"{done.rows} rows were said, {found} are there")


def _csv_rows(path: Path) -> int:
    content = path.read_bytes().decode()
    head, *rows = list(csv.reader(io.StringIO(content, newline=""), strict=True))
    require(all(len(row) == len(head) for row in rows), f"{path.name} has rows of other lengths")
    return len(rows)


def _json_rows(path: Path) -> int:
    return len(strict_json(path.read_bytes()))


_ROWS: Mapping[str, Callable[[Path], int]] = {
    "parquet": lambda path: pl.read_parquet(path).height,
    "arrow": lambda path: pl.read_ipc(path.read_bytes()).height,
    "csv": _csv_rows,
    "json": _json_rows,
}

_CHECKS: Mapping[str, tuple[str, Callable[[Exported], None]]] = {
    "perfetto": (".pftrace.gz", _perfetto),
    "chrome": (".json", _chrome),
    "speedscope": (".speedscope.json", _speedscope),
    "collapsed": (".collapsed.txt", _collapsed),
    "dot": (".dot", _dot),
    "graphml": (".graphml", _graphml),
    "sqlite": (".sqlite", _sqlite),
    **{kind: ("", partial(_tables, kind)) for kind in _TABLES},
}
"""By format: the ending of the name, and the check of the file."""


def _export(form: str, folder: Path, rng: random.Random) -> None:
    suffix, check = _CHECKS[form]
    out = folder / "out"
    out.mkdir(exist_ok=True)
    try:
        annotation = rng.choice(("ProfilerStep", "ProfilerStep", "aten::mm", odd_text(rng)))
        job = tracebraid.open(folder, annotation=annotation, unreadable="skip")
        done = tracebraid.export(job, out / f"made{suffix}", form, _options(form, rng))
    except ArgumentError:
        require(not list(out.iterdir()), "a refused export left something")
        return
    check(done)


def _options(form: str, rng: random.Random) -> ExportOptions:
    if rng.random() < 0.5:
        return ExportOptions()
    step = rng.choice((None, "1", "2", "ProfilerStep#2", odd_text(rng)))
    graph = form in ("dot", "graphml")
    top = rng.choice((1, 3, 10**9)) if graph and rng.random() < 0.3 else None
    near = rng.choice(("aten::mm", odd_text(rng))) if graph and rng.random() < 0.3 else None
    return ExportOptions(rng.choice((None, None, 0, 1)), step, top=top, near=near)


EXPORT_CALLS = tuple(Call(f"export --to {form}", partial(_export, form)) for form in _CHECKS)
"""A job written in each format."""


class _Page(HTMLParser):
    """Parts of a page that would run or be fetched."""

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
    run_command("report", folder, "-o", page, *_report_options(rng))
    if page.exists():
        _check_page(page)


def _text(folder: Path, rng: random.Random) -> None:
    ended = run_command("report", folder, "--text", "--top", rng.choice("13"), *_report_options(rng))
    unsteering(ended.output)


def _json(folder: Path, rng: random.Random) -> None:
    run_command("report", folder, "--json", *_report_options(rng))


def _report_options(rng: random.Random) -> list[str]:
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
