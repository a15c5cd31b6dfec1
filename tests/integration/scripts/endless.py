"""A captured loop that goes on until a signal ends it, and says when it records: `endless.py FOLDER [own-handler]`."""

import signal
import sys
import time

import tiny

import tracebraid


def handle(number: int, frame: object) -> None:
    print("handled", flush=True)
    sys.exit(7)


if "own-handler" in sys.argv:
    signal.signal(signal.SIGTERM, handle)
model = tiny.make_model()
optimizer = tiny.make_optimizer(model)
with tracebraid.capture(sys.argv[1], skip_first=1, wait=1, warmup=1, active=2000) as cap:
    for step in range(2000):
        tiny.train(model, optimizer)
        cap.step()
        if step == 5:
            print("recording", flush=True)
        if step >= 5:
            time.sleep(0.02)
