"""What an answer rests on."""

from __future__ import annotations

import tracebraid
from tests.planted import Scene
from tracebraid.model.graph.what_if import WhatIfNote

OVERLAP = {
    WhatIfNote.INTERFERENCE,
    WhatIfNote.SAME_OVERLAP,
    WhatIfNote.NO_OVERLAP,
    WhatIfNote.NO_COMPARISON,
}


def test_without_kernels_nothing_is_said_about_what_runs_beside_communication() -> None:
    host = Scene(devices=())
    host.thread().run("aten::mm", 1000)
    device = Scene()
    thread, stream = device.thread(), device.stream()
    with thread.op("aten::mm"):
        thread.launch(stream, "gemm", 1000)
    notes = [tracebraid.what_if(scene.linked(), "scale 0.5 name=aten::mm").notes for scene in (host, device)]
    assert [bool(OVERLAP & set(of_one)) for of_one in notes] == [False, True]
