"""All analyses of one trace, timed in this process: `python -m benchmarks.analyses_task PATH` prints it as JSON.

The parts are `linking`, the nesting of the host and the launches, which nearly all need; `alone NAME`, on a trace
linked anew, for which nothing else was computed; `together NAME`, one after another on one linked trace; and
`rows NAME`, a number and no time. Reading counts in none, linking in the whole alone. Libraries are loaded, and
every analysis has run once on the bundled trace, before any clock starts.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace

from benchmarks.measure import Measured, Stopwatch

__all__: list[str] = []


def _analyses(path: str) -> Measured:
    from tracebraid import demo_path, read_timeline
    from tracebraid.analysis.catalog import ANALYSES
    from tracebraid.linking.link_traces import link_traces
    from tracebraid.model.linked_trace import LinkedTrace

    def answer_all(linked: LinkedTrace) -> dict[str, float]:
        parts: dict[str, float] = {}
        for analysis in ANALYSES:
            watch = Stopwatch()
            rows = analysis.answer(linked).height
            parts |= {f"together {analysis.name}": watch.stop().seconds, f"rows {analysis.name}": rows}
        return parts

    answer_all(link_traces(read_timeline(demo_path() / "kineto_trace_0.json.gz")))
    timeline = read_timeline(path)
    parts: dict[str, float] = {}
    for analysis in ANALYSES:
        # A copy of the timeline, without what the last analysis made it keep.
        linked = link_traces(replace(timeline))
        held = linked.launches
        watch = Stopwatch()
        analysis.answer(linked)
        parts[f"alone {analysis.name}"] = watch.stop().seconds
    linked = link_traces(replace(timeline))
    watch = Stopwatch()
    held = linked.launches
    parts["linking"] = watch.stop().seconds
    parts |= answer_all(linked)
    measured = replace(watch.stop(), parts=parts)
    del held
    return measured


if __name__ == "__main__":
    print(json.dumps(asdict(_analyses(sys.argv[1]))))
