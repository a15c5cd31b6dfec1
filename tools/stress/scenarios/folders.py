"""The folder of the capture is deleted, moved, made read-only, or becomes a file, while the program runs."""

from __future__ import annotations

import shutil
import time

from tools.stress.model import Scenario
from tools.stress.run import Run


def work(run: Run) -> None:
    """Take the folder away in some step."""
    at = run.random.randrange(12)
    how = run.random.choice(["delete", "move", "close", "file", "link"])
    print(how, at, flush=True)
    out = run.out_dir
    with run.captured() as step:
        for number in range(14):
            if number == at and out.exists():
                if how == "close":
                    out.chmod(0o500)
                elif how == "delete":
                    shutil.rmtree(out, ignore_errors=True)
                else:
                    out.rename(run.folder / f"moved_{time.monotonic_ns()}")
                    if how == "file":
                        out.write_text("")
                    elif how == "link":
                        out.symlink_to("nowhere")
            step()
    for moved in run.folder.glob("moved_*"):
        shutil.rmtree(moved)
    if out.is_dir() and not out.is_symlink():
        out.chmod(0o700)
    else:
        out.unlink(missing_ok=True)


SCENARIO = Scenario(
    "the folder is deleted, moved, closed, or replaced by a file or a link", work, may_lose=True
)
