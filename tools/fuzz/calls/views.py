"""A call that serves the report of a job on 127.0.0.1, and fetches the page and the timeline."""

from __future__ import annotations

import gzip
import random
import threading
from pathlib import Path

import tracebraid
from tests.perfetto_trace import shown
from tests.unit.viewer.serving import ask
from tools.fuzz.calls.tables import require
from tools.fuzz.model import Call
from tracebraid.api import ReportOptions, report_of
from tracebraid.api.viewing import report_server
from tracebraid.viewer.served import TIMELINE

__all__ = ["VIEW_CALLS"]


def _view(folder: Path, rng: random.Random) -> None:
    job = tracebraid.open(folder)
    annotation = rng.choice(("ProfilerStep", "aten::mm"))
    made, _ = report_of(job, ReportOptions(annotation=annotation, with_graph=False))
    with report_server(job, made, annotation=annotation) as server:
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
