"""Forks while others start and stop: `native_forks.py SECONDS FOLDER`. A child that hangs is ended, and told."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch

from tracebraid.recorders.native.recorder import NativeRecorder

END = time.monotonic() + float(sys.argv[1])
FOLDER = Path(sys.argv[2])


def record(number: int) -> None:
    while time.monotonic() < END:
        recorder = NativeRecorder(FOLDER / f"{number}.json", 1 << 18)
        recorder.open()
        for _ in range(20):
            recorder.start()
            recorder.stop()
        recorder.discard()


threads = [threading.Thread(target=record, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
forks = hung = 0
while time.monotonic() < END:
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        torch.ones(2)
        os._exit(0)
    forks += 1
    hung += os.waitpid(pid, 0)[1] != 0
for thread in threads:
    thread.join()
print(f"{forks} forks, {hung} hung")
