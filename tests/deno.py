"""The page's modules run by deno: one start for many values."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]


def evaluated(script: str, values: Any = None) -> Any:
    """What a script gives: it has `input`, may import `tracebraid/...` modules, and sets `output`.

    Args:
        script: lines of a module.
        values: JSON that it finds as `input`.
    """
    code = (
        "const input = JSON.parse(await new Response(Deno.stdin.readable).text());\nlet output = null;\n"
        f"{script}\nconsole.log(JSON.stringify(output));"
    )
    command = [
        str(Path(sys.executable).with_name("deno")),
        "eval",
        "--config",
        str(_ROOT / "deno.json"),
        code,
    ]
    done = subprocess.run(
        command, input=json.dumps(values), capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)
