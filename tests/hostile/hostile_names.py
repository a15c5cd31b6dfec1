"""A trace whose names attack whatever shows them: pages, terminals, spreadsheets, databases, graph languages."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from tests.builders import et_text, write
from tests.planted import A100, PlannedJob, Scene
from tests.planted.hosts import Host
from tests.planted.nodes import nodes_of

RAN = "hostile_name_ran"
"""What the names' scripts set in a page, or name where they are taken for code."""

LONG = 10_000
"""Characters of the longest name."""

FORGED = "error: forged"
"""A line that a name would add to what is printed."""

FORMULAS = {
    "equals": '=HYPERLINK("http://example.com/"&A1,"name")',
    "plus": "+1+cmd|' /C calc'!A0",
    "minus": "-2+3",
    "at": "@SUM(1,1)",
    "tab": "\t=1+1",
    "return": "\r=1+1",
}
"""What spreadsheets run."""

NAMES = {
    **FORMULAS,
    "script": f"</script><script>globalThis.{RAN}=1</script>",
    "style": f"</style><img src=x onerror=globalThis.{RAN}=1>",
    "image": f"<img src=x onerror=globalThis.{RAN}=1>",
    "vector": f"<svg><script>globalThis.{RAN}=1</script></svg>",
    "comment": "<!--<script>",
    "attribute": f"\" onmouseover=globalThis.{RAN}=1 x='\" '",
    "entity": "&lt;b&gt;&#60;i&#62;&amp;",
    "address": f"javascript:globalThis.{RAN}=1",
    "template": "{{ 7 * 7 }}{% raw %}{# x #}${1}`",
    "markup": "[red]name[/red] [link=http://example.com]x[/link] :warning:",
    "right to left": "\u202egnp.exe\u202c \u2066x\u2069 \u200f\u05d0\u05d1",
    "invisible": "a\u200bb\u00adc\ufeffd",
    "control": "bell\x07 escape\x1b[31m\x1b]0;title\x07 null\x00 csi\x9b2J delete\x7f",
    "forged": f"a\n{FORGED}\rwarning: b\x85{FORGED}",
    "lines": "a\nb\r\nc\u2028d\u2029e\x0bf",
    "emoji": "kernel \U0001f9f5 \U0001f469\u200d\U0001f469\u200d\U0001f467",
    "combining": "Z" + "\u0301\u0323" * 40,
    "quotes": "a','b\",\"c`d\\",
    "sql": "x'); DROP TABLE kernels;--",
    "graph": 'x"]; evil [label="y" URL="javascript:1"]; a -> b //',
    "stack": "a;b;c 12345\nd;e 6",
    "path": "../../../../etc/passwd",
    "prototype": "__proto__",
    "number": "1e999",
    "empty": "",
    "long": "k" * (LONG - 3) + "end",
}
"""Names by what they attack."""


def hostile_job(folder: Path) -> Path:
    """Write a rank's pair of traces: each name is that of an annotation, a module, a frame, an op and a kernel."""
    scene = Scene(devices=[{**A100, "name": NAMES["script"]}])
    scene.host_name = NAMES["image"]
    host = scene.thread(NAMES["attribute"])
    stream = scene.stream(7)
    for number in (1, 2):
        with host.step(number):
            for count, name in enumerate(NAMES.values()):
                with host.annotation(name), host.module(f"{name}_{count}"), host.frame(f"{name}(1): {name}"):
                    block = host.allocate(4096)
                    with host.op(name, dims=[[64, 64], [64, 64]], types=[name, name]):
                        host.launch(stream, name, 20_000)
                    host.release(block)
            host.synchronize(stream)
    scene.write(folder)
    nodes = et_text(nodes_of(scene)).replace('"pid": 1,', f'"pid": {scene.pid},', 1)
    write(folder / "torch_et_0.json", nodes)
    return folder


FOLDER = "x\x1b[31m\u202e\n" + FORGED + "\n$(touch ran)`touch ran`;'\"|&<i>\udcff"
"""The name of a folder."""


def hostile_ranks(folder: Path) -> Path:
    """Write the pairs of two ranks that communicate: hosts, groups, devices, threads and work have such names."""
    hosts = [Host(NAMES["image"]), Host(f"a\n{FORGED}")]
    job = PlannedJob(2, hosts, devices=[{**A100, "name": NAMES["script"]}])
    group = job.group(NAMES["control"] + NAMES["forged"] + NAMES["attribute"], [0, 1])
    for scene, thread in zip(job.scenes, job.threads, strict=True):
        scene.thread(NAMES["control"])
        thread.name = NAMES["forged"]
    for number in (1, 2):
        with job.step(number):
            for count, name in enumerate(NAMES.values()):
                for scene, thread in zip(job.scenes, job.threads, strict=True):
                    with (
                        thread.annotation(name),
                        thread.module(f"{name}_{count}"),
                        thread.frame(f"{name}(1): {name}"),
                    ):
                        block = thread.allocate(4096)
                        with thread.op(name, dims=[[64, 64], [64, 64]], types=[name, name]):
                            thread.launch(scene.stream(7), name, 20_000)
                        thread.release(block)
            job.collective("allreduce", group)
    for scene in job.finished():
        scene.write(folder)
        nodes = et_text(nodes_of(scene)).replace('"pid": 1,', f'"pid": {scene.pid},', 1)
        write(folder / f"torch_et_{scene.rank}.json", nodes)
    return folder


def steering(text: str) -> set[str]:
    """The characters that steer a terminal or hide text, but for line ends."""
    return {c for c in text if c != "\n" and unicodedata.category(c).startswith(("C", "Zl", "Zp"))}
