"""A captured loop, and a disk that is full once it runs: `full_disk.py FOLDER BYTES RECORDER`; BYTES fit in a file."""

import resource
import sys

import tiny

import tracebraid


def limit(size_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))


model = tiny.make_model()
optimizer = tiny.make_optimizer(model)
with tracebraid.capture(sys.argv[1], recorder=sys.argv[3]) as cap:
    for step in range(14):
        if step == 7:
            limit(int(sys.argv[2]))
        if step == 11:
            limit(resource.RLIM_INFINITY)
        tiny.train(model, optimizer)
        cap.step()
print("the loop went on")
